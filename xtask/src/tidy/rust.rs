//! Rules for source files: lengths, the `//!` comment, words, limits, and that each file belongs to a module.

use super::{File, Finding};

/// Columns of a line.
const COLUMNS_MAX: usize = 120;
/// Lines of a file. A longer file should become a folder.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// The only files with `unsafe`. Each block has a SAFETY comment.
const UNSAFE_PATHS: &[&str] = &[
    "crates/store/",
    "crates/server/src/listen/batch/",
    "crates/server/src/allocations.rs",
    "crates/server/src/sys/",
    "crates/process/src/exit.rs",
    "crates/process/src/protect.rs",
    "crates/process/src/sandbox/seccomp.rs",
    "crates/process/src/sandbox/tests.rs",
    "crates/process/src/user.rs",
    "crates/sockets/src/batch/mod.rs",
    "crates/lab/benches/replay/pktinfo.rs",
    "crates/lab/benches/support/sockets.rs",
    "crates/sockets/src/system.rs",
    "crates/links/src/system.rs",
    "crates/torture/src/system.rs",
    "crates/wire/tests/no_alloc.rs",
    "crates/replica/tests/allocations.rs",
    "crates/zone/tests/answering/memory.rs",
];
/// Marks of unfinished code.
const PROMISES: &[&str] = &["todo!(", "unimplemented!(", "FIXME", "XXX"];

/// Checks one source file.
pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    if file.path.starts_with("xtask/src/tidy/") {
        return;
    }
    let lines: Vec<&str> = file.text.lines().collect();
    if !file.text.starts_with("//!") && !file.path.starts_with("fuzz/") {
        findings.push(Finding::new(file, 1, "a file must start with a `//!` comment"));
    }
    if lines.len() > FILE_LINES_MAX {
        findings.push(Finding::new(file, 0, format!("{} lines, over {FILE_LINES_MAX}", lines.len())));
    }
    for (index, line) in lines.iter().enumerate() {
        let mut found = |what: String| findings.push(Finding::new(file, index + 1, what));
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            found(format!("{columns} columns, over {COLUMNS_MAX}"));
        }
        if let Some(promise) = PROMISES.iter().find(|promise| line.contains(**promise)) {
            found(format!("unfinished code: `{promise}`"));
        }
        if line.trim_start().starts_with("#[allow(") || line.contains("#![allow(") {
            found("use `#[expect(.., reason)]` instead of `allow`".into());
        }
        if opens_unsafe(line) && !UNSAFE_PATHS.iter().any(|path| file.path.starts_with(path)) {
            found("`unsafe` is not allowed in this file".into());
        }
    }
    check_functions(file, &lines, findings);
    check_limits(file, &lines, findings);
}

fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
}

/// Checks the length of functions. After rustfmt, a function ends at the brace in the column of its first line.
fn check_functions(file: &File, lines: &[&str], findings: &mut Vec<Finding>) {
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function = [
            "fn ",
            "pub fn ",
            "pub(crate) fn ",
            "pub(super) fn ",
            "async fn ",
            "pub async fn ",
            "pub(crate) async fn ",
            "pub const fn ",
            "const fn ",
        ]
        .iter()
        .any(|opening| code.starts_with(opening));
        if !is_function {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let end = lines[start..].iter().position(|line| {
            line.strip_prefix(indent).is_some_and(|rest| rest == "}" || (rest.ends_with([';', '}']) && rest == code))
        });
        let length = end.unwrap_or(0) + 1;
        if length > FUNCTION_LINES_MAX {
            findings.push(Finding::new(
                file,
                start + 1,
                format!("a function of {length} lines, over {FUNCTION_LINES_MAX}"),
            ));
        }
    }
}

/// Checks that every bound of a core crate is in its `limits.rs`.
fn check_limits(file: &File, lines: &[&str], findings: &mut Vec<Finding>) {
    let core = [
        "crates/wire/src/",
        "crates/store/src/",
        "crates/zone/src/",
        "crates/tsig/src/",
        "crates/policy/src/",
        "crates/replica/src/",
    ];
    if file.path.ends_with("/limits.rs") || !core.iter().any(|path| file.path.starts_with(path)) {
        return;
    }
    for (index, line) in lines.iter().enumerate() {
        let name = line.split("const ").nth(1).and_then(|rest| rest.split(':').next()).unwrap_or_default();
        if name.ends_with("_MAX") && !line.trim_start().starts_with("//") {
            findings.push(Finding::new(file, index + 1, format!("`{name}` belongs in limits.rs")));
        }
    }
}

/// Checks that every source file in a `src` folder is declared as a module.
pub(super) fn check_modules(files: &[File], findings: &mut Vec<Finding>) {
    for file in files.iter().filter(|file| file.path.ends_with(".rs") && file.path.contains("/src/")) {
        let Some((folder, name)) = file.path.rsplit_once('/') else { continue };
        let name = name.trim_end_matches(".rs");
        if ["lib", "main"].contains(&name) || folder.ends_with("/bin") {
            continue;
        }
        let (module, parent) = if name == "mod" {
            let (parent, module) = folder.rsplit_once('/').unwrap_or_default();
            (module, parent)
        } else {
            (name, folder)
        };
        let declaration = format!("mod {module};");
        let parents = [
            format!("{parent}.rs"),
            format!("{parent}/mod.rs"),
            format!("{parent}/lib.rs"),
            format!("{parent}/main.rs"),
        ];
        let declared = files.iter().any(|other| parents.contains(&other.path) && other.text.contains(&declaration));
        if !declared {
            findings.push(Finding::new(
                file,
                0,
                format!("no `{declaration}` in its folder: the file is never compiled"),
            ));
        }
    }
}
