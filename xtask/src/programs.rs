//! The test build: the tests, the programs that they run, the simulator, and the planted bugs.

use crate::command::{cargo_path, command, root};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The build profile.
pub(crate) const PROFILE: &str = "gate";
/// The build contains all planted bugs. None is on unless `CATAMARAN_PLANTED` has its number.
pub(crate) const FEATURES: [&str; 2] = ["--features", "catamaran-sim/planted"];

/// What a program is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The tests in a library, or in the files of a program.
    UnitTests,
    /// A file or folder in `tests`.
    IntegrationTest,
    /// A program.
    Main,
}

/// A program of the test build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The folder of its crate.
    pub(crate) folder: PathBuf,
    /// Cargo's name for the library, program or test.
    pub(crate) target: String,
    pub(crate) source: Source,
    pub(crate) path: PathBuf,
}

impl Program {
    /// The name of the crate's folder, for example `server`.
    pub(crate) fn package(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

/// Builds everything once.
///
/// # Errors
/// It does not build.
pub(crate) fn build() -> Result<Vec<Program>, String> {
    let what = ["test", "--profile", PROFILE, "--workspace", "--lib", "--bins", "--tests", "--no-run"];
    let how = ["--message-format", "json-render-diagnostics"];
    let mut build = command(&cargo_path(), &[&what[..], &FEATURES, &how].concat());
    eprintln!("xtask: cargo {} {}", what.join(" "), FEATURES.join(" "));
    let output = build.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("the tests do not build: cargo exited with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect())
}

/// Finds a program of the build.
///
/// # Errors
/// There is none.
pub(crate) fn find<'p>(
    programs: &'p [Program],
    package: &str,
    target: &str,
    source: Source,
) -> Result<&'p Path, String> {
    let found = programs.iter().find(|one| one.package() == package && one.target == target && one.source == source);
    found
        .map(|program| program.path.as_path())
        .ok_or_else(|| format!("cargo built no {source:?} {target} of {package}"))
}

/// Parses cargo's message about a program. Returns `None` for libraries and build scripts.
fn program(line: &str) -> Option<Program> {
    let (_, path) = line.split_once("\"executable\":\"")?;
    let (_, target) = line.split_once("\"target\":{\"kind\":[\"")?;
    let (_, name) = target.split_once("\"name\":\"")?;
    let (_, profile) = line.split_once("\"profile\":{")?;
    let (_, manifest) = line.split_once("\"manifest_path\":\"")?;
    let is_test = profile.split('}').next()?.contains("\"test\":true");
    let source = match (text(target), is_test) {
        ("test", true) => Source::IntegrationTest,
        (_, true) => Source::UnitTests,
        ("bin", false) => Source::Main,
        _ => return None,
    };
    let folder = Path::new(text(manifest)).parent()?.to_path_buf();
    let is_ours = folder.starts_with(root());
    is_ours.then(|| Program { folder, target: text(name).into(), source, path: text(path).into() })
}

/// The name of a test and how it ended, in a line of the test harness such as `test a::b ... ok`.
pub(crate) fn ended_test(line: &str) -> Option<(&str, &str)> {
    let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let is_end = end == "ok" || end == "FAILED" || end.starts_with("ignored");
    is_end.then(|| (name.strip_suffix(" - should panic").unwrap_or(name), end))
}

/// The text before the next quotation mark.
fn text(rest: &str) -> &str {
    rest.split('"').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_tests_are_read() {
        assert_eq!(ended_test("test a::b ... ok"), Some(("a::b", "ok")));
        assert_eq!(ended_test("test a::c - should panic ... FAILED"), Some(("a::c", "FAILED")));
        assert_eq!(ended_test("test a::d ... ignored, a reason"), Some(("a::d", "ignored, a reason")));
        assert_eq!(ended_test("test a::e ... "), None, "it has not ended");
        assert_eq!(ended_test("test result: ok. 1 passed"), None);
    }

    fn message(kind: &str, name: &str, is_test: bool, executable: &str) -> String {
        let root = root();
        let root = root.display();
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file://{root}/crates/lab#catamaran-lab@0.1.0\",\
             \"manifest_path\":\"{root}/crates/lab/Cargo.toml\",\"target\":{{\"kind\":[\"{kind}\"],\
             \"crate_types\":[\"bin\"],\"name\":\"{name}\",\"src_path\":\"{root}/x.rs\",\"test\":true}},\
             \"profile\":{{\"opt_level\":\"2\",\"debuginfo\":0,\"test\":{is_test}}},\"features\":[],\
             \"filenames\":[],\"executable\":{executable},\"fresh\":true}}"
        )
    }

    #[test]
    fn messages_of_cargo_are_read() {
        let read = |kind, name, is_test| program(&message(kind, name, is_test, "\"/t/deps/a-1\"")).unwrap();
        let test = read("test", "replay", true);
        assert_eq!((test.package(), test.target.as_str()), ("lab", "replay"));
        assert_eq!((test.source, test.path.as_path()), (Source::IntegrationTest, Path::new("/t/deps/a-1")));
        assert_eq!(read("lib", "lab", true).source, Source::UnitTests);
        assert_eq!(read("bin", "catlab", true).source, Source::UnitTests);
        assert_eq!(read("bin", "catlab", false).source, Source::Main);
        assert_eq!(program(&message("lib", "lab", false, "null")), None);
        assert_eq!(program("{\"reason\":\"build-finished\",\"success\":true}"), None);
        let programs = [test];
        assert!(find(&programs, "lab", "replay", Source::IntegrationTest).is_ok());
        assert!(find(&programs, "lab", "replay", Source::Main).is_err());
    }
}
