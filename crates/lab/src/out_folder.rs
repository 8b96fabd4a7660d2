//! Output of commands: a folder with the results of one run, or a single file.
//!
//! A run writes into a temporary folder below `--out` and moves the files at the end. Files of two runs are never
//! mixed, and a run that fails to start leaves nothing.

use clap::Args;
use report::folder::WriteError;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number of temporary folders that one process creates in a folder.
const PARTS_MAX: u32 = 1_000;

/// Files that a command writes into a folder.
pub(crate) struct Results {
    /// Files that identify results, each with required fields. The name alone is not enough: other tools use it too.
    marks: &'static [(&'static str, &'static [&'static str])],
    /// Names of all result files. The first is written last and removed first, because readers identify results by it.
    names: &'static [&'static str],
}

/// Results of `load`, `replay`, `merge` and `capacity`.
pub(crate) const RUN: Results = Results {
    marks: &[("summary.json", &["schema_version", "validity"]), ("capacity.json", &["schema_version", "tries"])],
    names: &[
        "summary.json",
        "manifest.json",
        "seconds.jsonl",
        "shotgun.json",
        "shotgun.jsonl",
        "latency.hlog",
        "service.hlog",
        "send_lag.hlog",
        "connections.jsonl",
        "monitor.jsonl",
        "events.jsonl",
        "clients.jsonl",
        "freshness.json",
        "freshness.jsonl",
        "self-check.json",
        "INVALID.txt",
        "queries.parquet",
        "agents",
        "capacity.json",
    ],
};

/// Results of `zones build`, `synth`, `merge` and `sign`. A key is never removed: it cannot be recreated.
pub(crate) const HIERARCHY: Results = Results {
    marks: &[("hierarchy.json", &["form", "zones"])],
    names: &["hierarchy.json", "zones", "report.json", "conflicts.jsonl", "anchors.txt", "queries.txt"],
};

/// Results of `hierarchy run`.
pub(crate) const RESOLUTION: Results = Results {
    marks: &[("report.json", &["zone_count", "upstream"])],
    names: &["report.json", "upstream.txt", "resolver", "backend"],
};

#[derive(Args, Clone, Copy, Default)]
pub(crate) struct Force {
    /// Replace existing results in --out.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
}

impl Results {
    /// Checks that the folder has no results, or that they may be replaced.
    ///
    /// # Errors
    /// The folder has files with these names, and --force is not given or they are not results of catlab.
    pub(crate) fn refuse(&self, folder: &Path, Force { force }: Force) -> Result<(), String> {
        let Some(name) = self.names.iter().find(|name| folder.join(name).symlink_metadata().is_ok()) else {
            return Ok(());
        };
        let mark = self.marks.iter().find(|(file, fields)| has_fields(&folder.join(file), fields));
        let folder = folder.display();
        match mark {
            Some(_) if force => Ok(()),
            Some((mark, _)) => Err(format!(
                "cannot write to {folder}: it holds the results of an earlier run ({mark}); name another folder, or \
                 replace them with --force"
            )),
            None => Err(format!(
                "cannot write to {folder}: {name} exists, but is no {} of catlab. --force only replaces results of \
                 catlab; name another folder, or remove {name} yourself",
                self.names[0]
            )),
        }
    }

    /// Removes these files.
    ///
    /// # Errors
    /// A file cannot be removed. The error has the path.
    pub(crate) fn remove(&self, folder: &Path) -> Result<(), String> {
        self.names.iter().try_for_each(|name| remove(&folder.join(name)))
    }
}

/// A result folder that is being written.
pub(crate) struct OutFolder {
    results: &'static Results,
    force: Force,
    target: PathBuf,
    /// Temporary folder below the target, so that a rename stays on the same file system.
    passing: PathBuf,
    /// Whether this run created the target.
    is_made: bool,
}

impl OutFolder {
    /// Creates the folder. Called before the run, so that errors come early.
    ///
    /// # Errors
    /// The folder holds results and --force is not given, or it cannot be created.
    pub(crate) fn begin(target: &Path, results: &'static Results, force: Force) -> Result<Self, String> {
        results.refuse(target, force)?;
        let is_made = !target.exists();
        let failed = |error| cannot("create", target, &error);
        std::fs::create_dir_all(target).map_err(failed)?;
        let passing = make_part(target).map_err(failed)?;
        Ok(Self { results, force, target: target.to_owned(), passing, is_made })
    }

    /// Folder to write to.
    pub(crate) fn path(&self) -> &Path {
        &self.passing
    }

    /// Final path.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Moves the results to the target.
    ///
    /// # Errors
    /// The results cannot be moved, for example because another run wrote there. They stay in the temporary folder.
    pub(crate) fn commit(mut self) -> Result<(), String> {
        let moved = self.results.refuse(&self.target, self.force).and_then(|()| self.move_all());
        // Keep the temporary folder: it has the files that could not be moved.
        let passing = std::mem::take(&mut self.passing);
        moved.map_err(|error| format!("{error}. The new results are in {}", passing.display()))
    }

    /// Moves the results to the target, even if one file could not be written.
    ///
    /// # Errors
    /// The error of the file, otherwise the error of the move.
    pub(crate) fn commit_after(self, written: Result<(), WriteError>) -> Result<(), Box<dyn Error>> {
        let written = written.map_err(|error| self.named(error));
        let committed = self.commit();
        written?;
        Ok(committed?)
    }

    /// The error with the final path of the file.
    pub(crate) fn named(&self, error: WriteError) -> WriteError {
        match error.path.strip_prefix(&self.passing) {
            Ok(name) => WriteError { path: self.target.join(name), source: error.source },
            Err(_) => error,
        }
    }

    fn move_all(&self) -> Result<(), String> {
        self.results.remove(&self.target)?;
        let entries = std::fs::read_dir(&self.passing).map_err(|error| cannot("read", &self.passing, &error))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(|error| cannot("read", &self.passing, &error))?.file_name());
        }
        names.sort_by_key(|name| name == OsStr::new(self.results.names[0]));
        for name in names {
            let path = self.target.join(&name);
            std::fs::rename(self.passing.join(&name), &path).map_err(|error| cannot("write", &path, &error))?;
        }
        std::fs::remove_dir(&self.passing).map_err(|error| cannot("remove", &self.passing, &error))
    }
}

/// Creates a new folder for the results. A killed run may have left a folder with this process's number.
fn make_part(target: &Path) -> io::Result<PathBuf> {
    let process = std::process::id();
    for suffix in 0..PARTS_MAX {
        let part = target.join(format!(".catlab-{process}-{suffix}.part"));
        match std::fs::create_dir(&part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| part),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl Drop for OutFolder {
    fn drop(&mut self) {
        if self.passing.as_os_str().is_empty() {
            return;
        }
        // A temporary file that cannot be removed does no harm.
        let _removed = std::fs::remove_dir_all(&self.passing);
        if self.is_made {
            let _removed = std::fs::remove_dir(&self.target);
        }
    }
}

/// Checks that the file does not exist or may be replaced.
///
/// # Errors
/// The file exists and --force is not given.
pub(crate) fn refuse_file(path: &Path, Force { force }: Force) -> Result<(), String> {
    let is_there = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    if is_there && !force {
        let path = path.display();
        return Err(format!("cannot write to {path}: it exists; name another file, or replace it with --force"));
    }
    Ok(())
}

/// Checks that the output is not an input.
///
/// # Errors
/// The output is an input or part of an input run. Even --force does not replace an input.
pub(crate) fn refuse_input(output: &Path, inputs: &[impl AsRef<Path>]) -> Result<(), String> {
    let whole = |path: &Path| path.canonicalize().ok();
    // The output may not exist yet, but its folder must.
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let placed = whole(output).or_else(|| Some(whole(parent)?.join(output.file_name()?)));
    let Some(placed) = placed else { return Ok(()) };
    let belongs = |input: &Path| {
        let Some(run) = whole(input).filter(|run| run.is_dir()) else { return false };
        let Ok(below) = placed.strip_prefix(&run) else { return false };
        below.components().next().is_none_or(|first| RUN.names.iter().any(|name| first.as_os_str() == OsStr::new(name)))
    };
    let output_name = output.display();
    for input in inputs.iter().map(AsRef::as_ref) {
        let name = input.display();
        if is_same_file(input, output) {
            return Err(format!(
                "cannot write to {output_name}: it is the file that is read ({name}); write to another file and rename \
                 that afterwards"
            ));
        }
        if belongs(input) {
            return Err(format!(
                "cannot write to {output_name}: it belongs to the input {name}; write to another file"
            ));
        }
    }
    Ok(())
}

/// Whether both paths are the same regular file. Overwriting a pipe or terminal does no harm.
fn is_same_file(input: &Path, out: &Path) -> bool {
    let input = if input.as_os_str() == "-" { Path::new("/dev/stdin") } else { input };
    let [Ok(input), Ok(out)] = [input, out].map(std::fs::metadata) else { return false };
    input.is_file() && (input.dev(), input.ino()) == (out.dev(), out.ino())
}

/// Writes a file atomically.
///
/// # Errors
/// The file cannot be written. The error has the path, and an existing file is unchanged.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), String> {
    let file = FileInMaking::new(path);
    std::fs::write(file.path(), contents).map_err(|error| cannot("write", path, &error))?;
    file.commit()
}

/// A file that is written to a temporary path next to the target. A pipe or a device is written directly.
pub(crate) struct FileInMaking {
    target: PathBuf,
    passing: Option<PathBuf>,
}

impl FileInMaking {
    pub(crate) fn new(path: &Path) -> Self {
        let is_special = std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        // Replace the target of a symbolic link, not the link.
        let target = if is_special { path.to_owned() } else { path.canonicalize().unwrap_or_else(|_| path.to_owned()) };
        let passing = target.file_name().filter(|_| !is_special).map(|name| {
            // Keep the suffix: it can select a compression.
            let mut passing = OsString::from(format!(".catlab-{}.part.", std::process::id()));
            passing.push(name);
            target.with_file_name(passing)
        });
        Self { target, passing }
    }

    /// Path to write to.
    pub(crate) fn path(&self) -> &Path {
        self.passing.as_deref().unwrap_or(&self.target)
    }

    /// Moves the file to the target.
    ///
    /// # Errors
    /// The file cannot be moved. The error has the path, and an existing file is unchanged.
    pub(crate) fn commit(mut self) -> Result<(), String> {
        let Some(passing) = self.passing.take() else { return Ok(()) };
        std::fs::rename(&passing, &self.target).map_err(|error| cannot("write", &self.target, &error))
    }
}

impl Drop for FileInMaking {
    fn drop(&mut self) {
        if let Some(passing) = &self.passing {
            // A temporary file that cannot be removed does no harm.
            let _removed = std::fs::remove_file(passing);
        }
    }
}

/// Whether a file is a JSON object with these fields.
fn has_fields(path: &Path, fields: &[&str]) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let object: Result<BTreeMap<String, IgnoredAny>, _> = serde_json::from_reader(BufReader::new(file));
    object.is_ok_and(|object| fields.iter().all(|field| object.contains_key(*field)))
}

fn remove(path: &Path) -> Result<(), String> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(|error| cannot("remove", path, &error))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("catlab-out-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _removed = std::fs::remove_dir_all(&self.0);
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    const REPLACE: Force = Force { force: true };
    /// The fields that identify a run.
    const SUMMARY: &str = r#"{"schema_version": 20261127, "validity": {"valid": true, "reasons": []}}"#;

    #[test]
    fn a_run_is_never_mixed_with_another() {
        let scratch = Scratch::new("mixed");
        let target = scratch.0.join("run");
        let first = OutFolder::begin(&target, &RUN, Force::default()).unwrap();
        std::fs::write(first.path().join("summary.json"), SUMMARY).unwrap();
        std::fs::write(first.path().join("connections.jsonl"), "first").unwrap();
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 1, "no file is in place before the end");
        first.commit().unwrap();
        std::fs::write(target.join("notes.txt"), "mine").unwrap();
        let Err(refused) = OutFolder::begin(&target, &RUN, Force::default()) else { panic!("it holds a run") };
        assert!(refused.contains("summary.json") && refused.contains("--force"), "{refused}");
        // A run with --force that fails to start must not change it.
        drop(OutFolder::begin(&target, &RUN, REPLACE).unwrap());
        assert_eq!(names(&target), ["connections.jsonl", "notes.txt", "summary.json"]);
        let second = OutFolder::begin(&target, &RUN, REPLACE).unwrap();
        std::fs::write(second.path().join("summary.json"), "second").unwrap();
        second.commit().unwrap();
        assert_eq!(names(&target), ["notes.txt", "summary.json"]);
        assert_eq!(std::fs::read_to_string(target.join("summary.json")).unwrap(), "second");
    }

    #[test]
    fn only_results_of_catlab_are_replaced() {
        let scratch = Scratch::new("foreign");
        for (results, name) in [(&HIERARCHY, "zones"), (&RUN, "agents"), (&RESOLUTION, "resolver")] {
            let target = scratch.0.join(name);
            let kept = target.join(name).join("mine.txt");
            std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
            std::fs::write(&kept, "mine").unwrap();
            for mark in [None, Some("mine"), Some(r#"{"title": "mine"}"#)] {
                if let Some(mark) = mark {
                    std::fs::write(target.join(results.names[0]), mark).unwrap();
                }
                for force in [Force::default(), REPLACE] {
                    let Err(refused) = OutFolder::begin(&target, results, force) else {
                        panic!("{name} is the user's")
                    };
                    assert!(!refused.contains("earlier run") && refused.contains("yourself"), "{refused}");
                    assert!(kept.exists());
                }
            }
        }
        std::fs::write(scratch.0.join("zones/hierarchy.json"), r#"{"form": 1, "zones": []}"#).unwrap();
        OutFolder::begin(&scratch.0.join("zones"), &HIERARCHY, REPLACE).unwrap().commit().unwrap();
        assert_eq!(names(&scratch.0.join("zones")), [""; 0]);
    }

    #[test]
    fn what_is_read_is_not_written() {
        let scratch = Scratch::new("inputs");
        let (run, capture) = (scratch.0.join("run"), scratch.0.join("p.pcap"));
        std::fs::create_dir(&run).unwrap();
        std::fs::write(&capture, "").unwrap();
        let linked = scratch.0.join("linked.pcap");
        std::fs::hard_link(&capture, &linked).unwrap();
        let inputs = [run.clone(), capture.clone()];
        for same in [&capture, &linked, &run.join("../p.pcap")] {
            assert!(refuse_input(same, &inputs).unwrap_err().contains("the file that is read"), "{}", same.display());
        }
        for part in [&run, &run.join("summary.json"), &run.join("agents")] {
            assert!(refuse_input(part, &inputs).unwrap_err().contains("the input"), "{}", part.display());
        }
        for good in [run.join("page.html"), scratch.0.join("p.toml"), "page.html".into()] {
            assert_eq!(refuse_input(&good, &inputs), Ok(()), "{}", good.display());
        }
    }

    #[test]
    fn what_a_killed_run_left_is_not_mixed_into_the_next() {
        let scratch = Scratch::new("stale");
        let target = scratch.0.join("run");
        let killed = OutFolder::begin(&target, &RUN, Force::default()).unwrap();
        std::fs::write(killed.path().join("connections.jsonl"), "old").unwrap();
        let part = killed.path().file_name().unwrap().to_owned();
        std::mem::forget(killed);
        let next = OutFolder::begin(&target, &RUN, Force::default()).unwrap();
        std::fs::write(next.path().join("summary.json"), SUMMARY).unwrap();
        next.commit().unwrap();
        assert_eq!(names(&target), [part.to_str().unwrap(), "summary.json"]);
    }

    #[test]
    fn a_folder_of_nothing_is_removed() {
        let scratch = Scratch::new("nothing");
        let target = scratch.0.join("run");
        drop(OutFolder::begin(&target, &RUN, Force::default()).unwrap());
        assert!(!target.exists());
    }

    #[test]
    fn two_runs_at_once_do_not_destroy_each_other() {
        let scratch = Scratch::new("at-once");
        let target = scratch.0.join("run");
        let folder = OutFolder::begin(&target, &RUN, Force::default()).unwrap();
        std::fs::write(folder.path().join("summary.json"), "slow").unwrap();
        let kept = folder.path().join("summary.json");
        std::fs::write(target.join("summary.json"), "fast").unwrap();
        let error = folder.commit().unwrap_err();
        assert!(error.contains(".part"), "{error}");
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "slow");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let scratch = Scratch::new("file");
        let path = scratch.0.join("page.html");
        std::fs::write(&path, "old").unwrap();
        write_file(&path, b"new").unwrap();
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), names(&scratch.0).len()), ("new", 1));
        assert!(write_file(&scratch.0.join("none/page.html"), b"").unwrap_err().contains("page.html"));
        write_file(Path::new("/dev/null"), b"new").unwrap();
    }
}
