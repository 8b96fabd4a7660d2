//! Checks that the folders of a crate do not import each other in a circle, and that the table of the server's folders
//! in the overview names what each of them imports.

use super::{File, Finding};
use std::collections::{BTreeMap, BTreeSet};

/// Crates with single files in `src` that import each other in a circle. They are not checked.
const UNCHECKED: &[&str] = &["policy", "sim", "store", "torture", "tsig"];
/// The sources of the server.
const SERVER: &str = "crates/server/src/";
/// The page with the table of the server's folders.
const OVERVIEW: &str = "docs/internals/overview.md";
/// What stands before items that only tests have.
const OF_TESTS: [&str; 2] = ["#[cfg(test)]", "#[cfg(any(test, feature = \"testing\"))]"];

/// The imports of each folder or file at the top, and where one is.
type Imports<'f> = BTreeMap<String, BTreeMap<String, (&'f File, usize)>>;

/// Reports each import that is part of a circle. Tests may import anything.
pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    for source in sources(files) {
        let mut imports = imports_of(files, &source);
        if let Some(overview) = files.iter().find(|file| file.path == OVERVIEW && source == SERVER) {
            check_table(overview, &imports, findings);
        }
        remove_ends(&mut imports);
        for (from, targets) in &imports {
            for (to, (file, line)) in targets {
                let what = format!("`{from}` and `{to}` are part of a circle of imports between folders");
                findings.push(Finding::new(file, *line, what));
            }
        }
    }
}

/// The `src` folders of the checked crates.
fn sources(files: &[File]) -> BTreeSet<String> {
    let crates = files.iter().filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"));
    crates.filter(|(name, _)| !UNCHECKED.contains(name)).map(|(name, _)| format!("crates/{name}/src/")).collect()
}

/// Checks each row `| [folder](../../crates/server/src/folder/mod.rs) | what it does | imports |`. The row names every
/// folder that it imports, except the first two of the table, which all may import. All of them are in rows above.
fn check_table(overview: &File, imports: &Imports<'_>, findings: &mut Vec<Finding>) {
    let mut above: Vec<&str> = Vec::new();
    let is_folder =
        |name: &str| overview.text.contains(&format!("| [{name}](../../crates/server/src/{name}/mod.rs) |"));
    for (index, line) in overview.text.lines().enumerate() {
        let Some((name, rest)) =
            line.strip_prefix("| [").and_then(|rest| rest.split_once("](../../crates/server/src/"))
        else {
            continue;
        };
        if !is_folder(name) || !rest.starts_with(&format!("{name}/mod.rs) |")) {
            continue;
        }
        let cell = line.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        for target in imports.get(name).into_iter().flat_map(BTreeMap::keys).filter(|target| is_folder(target)) {
            let of_all = above.iter().take(2).any(|other| other == target);
            let is_named = of_all || cell == "all folders above" || cell.contains(&format!("`{target}`"));
            if !is_named || !above.contains(&target.as_str()) {
                let what = format!("`{name}` imports `{target}`: name it in the row, and put its row above");
                findings.push(Finding::new(overview, index + 1, what));
            }
        }
        above.push(name);
    }
}

fn imports_of<'f>(files: &'f [File], source: &str) -> Imports<'f> {
    let is_source = |file: &&File| file.path.starts_with(source) && file.path.ends_with(".rs");
    let test_files: BTreeSet<String> = files.iter().filter(is_source).flat_map(test_modules).collect();
    let mut imports = Imports::new();
    for file in files.iter().filter(is_source) {
        let path = &file.path[source.len()..];
        let from = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let is_test = test_files.iter().any(|test| file.path.strip_suffix(".rs").is_some_and(|path| path == test))
            || test_files.iter().any(|test| file.path.starts_with(&format!("{test}/")));
        if is_test || from == "main" {
            continue;
        }
        let folder = imports.entry(from.to_owned()).or_default();
        for (line, code) in code_lines(&file.text) {
            for target in code.split("crate::").skip(1).map(first_name) {
                // Macros are not in a folder.
                let is_import = target != from && !target.is_empty() && !target.ends_with("_limited");
                if is_import && !test_files.contains(&format!("{source}{target}")) {
                    folder.entry(target).or_insert((file, line));
                }
            }
        }
    }
    imports
}

/// The paths, without `.rs`, of modules that only tests have.
fn test_modules(file: &File) -> Vec<String> {
    let path = file.path.trim_end_matches(".rs");
    let is_root = ["/mod", "/main", "/lib"].iter().any(|name| path.ends_with(name));
    let folder = if is_root { path.rsplit_once('/').map_or("", |(folder, _)| folder) } else { path };
    let lines: Vec<&str> = file.text.lines().collect();
    let declared = lines.windows(2).filter(|pair| OF_TESTS.contains(&pair[0])).filter_map(|pair| {
        let (_, name) = pair[1].strip_suffix(';')?.split_once("mod ")?;
        Some(format!("{folder}/{name}"))
    });
    declared.collect()
}

/// The lines of code outside of tests, without comments, and their numbers.
fn code_lines(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let (mut is_test, mut before) = (false, "");
    for (index, line) in text.lines().enumerate() {
        is_test |= before == "#[cfg(test)]" && line.contains("mod ") && line.ends_with('{');
        if !is_test {
            lines.push((index + 1, line.split("//").next().unwrap_or_default()));
        }
        is_test &= line != "}";
        before = line;
    }
    lines
}

/// The name at the start of a path.
fn first_name(path: &str) -> String {
    path.chars().take_while(|&char| char == '_' || char.is_alphanumeric()).collect()
}

/// Removes what is in no circle: folders that import no other folder, and folders that no other folder imports.
fn remove_ends(imports: &mut Imports<'_>) {
    loop {
        let before = imports.values().map(BTreeMap::len).sum::<usize>() + imports.len();
        let importing: BTreeSet<String> =
            imports.iter().filter(|(_, targets)| !targets.is_empty()).map(|(from, _)| from.clone()).collect();
        let imported: BTreeSet<String> = imports.values().flat_map(BTreeMap::keys).cloned().collect();
        imports.retain(|from, _| importing.contains(from) && imported.contains(from));
        imports.values_mut().for_each(|targets| targets.retain(|to, _| importing.contains(to)));
        if imports.values().map(BTreeMap::len).sum::<usize>() + imports.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File { path: format!("{SERVER}{path}"), text: (*text).to_owned() })
            .collect();
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_of_folders_is_found() {
        let (a, b) = (("a/mod.rs", "use crate::b::x;\n"), ("b/x.rs", "// crate::a\n\nuse crate::c;\n"));
        assert!(findings(&[a, b, ("c.rs", "use crate::limits::MAX;\n")]).is_empty());
        let found = findings(&[a, b, ("c.rs", "fn f() {\n    crate::a::g();\n}\n"), ("top/mod.rs", "use crate::a;\n")]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].starts_with("crates/server/src/b/x.rs:3: `b` and `c` are"), "{found:?}");
    }

    #[test]
    fn the_table_names_what_a_folder_imports() {
        let row =
            |name: &str, cell: &str| format!("| [{name}](../../crates/server/src/{name}/mod.rs) | x | {cell} |\n");
        let page = |rows: &[String]| File { path: OVERVIEW.into(), text: rows.concat() };
        let source = |path: &str, text: &str| File { path: format!("{SERVER}{path}"), text: text.into() };
        let count = |page: File| {
            let mut findings = Vec::new();
            check(&[page, source("e/mod.rs", "use crate::a;\nuse crate::d;\n"), source("d/mod.rs", "")], &mut findings);
            findings.len()
        };
        let base = ["a", "b", "c"].map(|name| row(name, ""));
        let rows = |more: [String; 2]| [&base[..], &more[..]].concat();
        assert_eq!(count(page(&rows([row("d", ""), row("e", "`d`")]))), 0);
        assert_eq!(count(page(&rows([row("d", ""), row("e", "all folders above")]))), 0);
        assert_eq!(count(page(&rows([row("d", ""), row("e", "")]))), 1, "not named");
        assert_eq!(count(page(&rows([row("e", "`d`"), row("d", "")]))), 1, "below");
    }

    #[test]
    fn tests_may_import_anything() {
        let a = ("a/mod.rs", "use crate::b;\n#[cfg(test)]\nmod flood;\n");
        let tests = ("b/mod.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n");
        assert!(findings(&[a, tests]).is_empty());
        assert!(findings(&[("b.rs", "use crate::c;\n#[cfg(test)]\nmod tests;\n"), ("c.rs", "")]).is_empty());
        assert!(findings(&[a, ("a/flood.rs", "use crate::top;\n"), ("top.rs", "use crate::a;\n")]).is_empty());
    }
}
