//! Where results are written: a folder that holds the results of one run, or a file that is whole or absent.
//!
//! A run writes into a folder of its own below that of `--out`, and its files are moved at the end: what a run leaves
//! behind is never mixed with the files of another, and a run that does not take place leaves nothing.

use clap::Args;
use lab::report::folder::WriteError;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// What a command leaves in a folder.
pub(crate) struct Results {
    /// Written last: readers know the results by it.
    last: &'static str,
    /// Files by which the results are known, each with fields that it has: any folder may have files of these names.
    marks: &'static [(&'static str, &'static [&'static str])],
    /// All names.
    names: &'static [&'static str],
}

/// Of `load`, `replay`, `merge` and `capacity`.
pub(crate) const RUN: Results = Results {
    last: "summary.json",
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

/// Of `zones build`, `synth`, `merge` and `sign`. A key stays, since nothing brings it back.
pub(crate) const HIERARCHY: Results = Results {
    last: "hierarchy.json",
    marks: &[("hierarchy.json", &["form", "zones"])],
    names: &["hierarchy.json", "zones", "report.json", "conflicts.jsonl", "anchors.txt", "queries.txt"],
};

/// Of `hierarchy run`.
pub(crate) const RESOLUTION: Results = Results {
    last: "report.json",
    marks: &[("report.json", &["zone_count", "upstream"])],
    names: &["report.json", "upstream.txt", "resolver", "backend"],
};

#[derive(Args, Clone, Copy, Default)]
pub(crate) struct Force {
    /// Replace the results that --out holds already.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
}

impl Results {
    /// # Errors
    /// The folder holds some of these, and they are not to be replaced, or they are not known to be results.
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
                "cannot write to {folder}: there is {name}, and no {} that catlab wrote: --force replaces results of \
                 catlab only. Name another folder, or remove {name} yourself",
                self.last
            )),
        }
    }

    /// Removes them.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(crate) fn remove(&self, folder: &Path) -> Result<(), String> {
        self.names.iter().try_for_each(|name| remove(&folder.join(name)))
    }
}

/// A folder whose results are being made.
pub(crate) struct OutFolder {
    results: &'static Results,
    force: Force,
    target: PathBuf,
    /// Below the target: a rename does not leave its file system.
    passing: PathBuf,
    /// The target was made for this.
    is_made: bool,
}

impl OutFolder {
    /// Makes the folder, before anything is measured for it.
    ///
    /// # Errors
    /// It holds results that are not to be replaced, or cannot be made.
    pub(crate) fn begin(target: &Path, results: &'static Results, force: Force) -> Result<Self, String> {
        results.refuse(target, force)?;
        let is_made = !target.exists();
        let passing = target.join(format!(".catlab-{}.part", std::process::id()));
        std::fs::create_dir_all(&passing).map_err(|error| cannot("create", target, &error))?;
        Ok(Self { results, force, target: target.to_owned(), passing, is_made })
    }

    /// Where to write now.
    pub(crate) fn path(&self) -> &Path {
        &self.passing
    }

    /// Where it will be.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Moves the results to their place.
    ///
    /// # Errors
    /// They cannot be moved; another run may have written there meanwhile. Then they stay where they are.
    pub(crate) fn commit(mut self) -> Result<(), String> {
        let moved = self.results.refuse(&self.target, self.force).and_then(|()| self.move_all());
        // What could not be moved is kept.
        let passing = std::mem::take(&mut self.passing);
        moved.map_err(|error| format!("{error}. The new results are in {}", passing.display()))
    }

    /// Moves what was measured to its place, also when a file of it could not be written.
    ///
    /// # Errors
    /// That of the file first.
    pub(crate) fn commit_after(self, written: Result<(), WriteError>) -> Result<(), Box<dyn Error>> {
        let written = written.map_err(|error| self.named(error));
        let committed = self.commit();
        written?;
        Ok(committed?)
    }

    /// The error with the name that the file would have had.
    pub(crate) fn named(&self, error: WriteError) -> WriteError {
        match error.path.strip_prefix(&self.passing) {
            Ok(name) => WriteError { path: self.target.join(name), source: error.source },
            Err(_) => error,
        }
    }

    fn move_all(&self) -> Result<(), String> {
        // Without this file what is left of the old results is no run.
        remove(&self.target.join(self.results.last))?;
        self.results.remove(&self.target)?;
        let entries = std::fs::read_dir(&self.passing).map_err(|error| cannot("read", &self.passing, &error))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(|error| cannot("read", &self.passing, &error))?.file_name());
        }
        names.sort_by_key(|name| name == OsStr::new(self.results.last));
        for name in names {
            let path = self.target.join(&name);
            std::fs::rename(self.passing.join(&name), &path).map_err(|error| cannot("write", &path, &error))?;
        }
        std::fs::remove_dir(&self.passing).map_err(|error| cannot("remove", &self.passing, &error))
    }
}

impl Drop for OutFolder {
    fn drop(&mut self) {
        if self.passing.as_os_str().is_empty() {
            return;
        }
        // What cannot be removed is in nobody's way.
        let _removed = std::fs::remove_dir_all(&self.passing);
        if self.is_made {
            let _removed = std::fs::remove_dir(&self.target);
        }
    }
}

/// # Errors
/// The file is there, and is not to be replaced.
pub(crate) fn refuse_file(path: &Path, Force { force }: Force) -> Result<(), String> {
    let is_there = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    if is_there && !force {
        let path = path.display();
        return Err(format!("cannot write to {path}: it is there; name another file, or replace it with --force"));
    }
    Ok(())
}

/// # Errors
/// The output is one of the inputs, or belongs to a run that is one of them: no --force replaces what is read.
pub(crate) fn refuse_input(output: &Path, inputs: &[PathBuf]) -> Result<(), String> {
    let whole = |path: &Path| path.canonicalize().ok();
    // The output need not be there yet; its folder must be.
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let placed = whole(output).or_else(|| Some(whole(parent)?.join(output.file_name()?)));
    let Some(placed) = placed else { return Ok(()) };
    let is_of = |input: &PathBuf| {
        let Some(input) = whole(input) else { return false };
        let Ok(below) = placed.strip_prefix(&input) else { return false };
        match below.components().next() {
            Some(first) => RUN.names.iter().any(|name| first.as_os_str() == OsStr::new(name)),
            None => true,
        }
    };
    match inputs.iter().find(|input| is_of(input)) {
        Some(input) => Err(format!(
            "cannot write to {}: it is a part of {}, which is read; name another file",
            output.display(),
            input.display()
        )),
        None => Ok(()),
    }
}

/// Writes a file, or replaces it as a whole.
///
/// # Errors
/// The system's, with the path; an earlier file is as it was.
pub(crate) fn write_file(path: &Path, contents: &[u8]) -> Result<(), String> {
    let file = FileInMaking::new(path);
    std::fs::write(file.path(), contents).map_err(|error| cannot("write", path, &error))?;
    file.commit()
}

/// A file that is written beside its place until it is whole; a pipe or a device is written at once.
pub(crate) struct FileInMaking {
    target: PathBuf,
    passing: Option<PathBuf>,
}

impl FileInMaking {
    pub(crate) fn new(path: &Path) -> Self {
        let is_special = std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        // A link stays a link: the file that it names is replaced.
        let target = if is_special { path.to_owned() } else { path.canonicalize().unwrap_or_else(|_| path.to_owned()) };
        let passing = target.file_name().filter(|_| !is_special).map(|name| {
            // The end of a name can say how the file is packed.
            let mut passing = OsString::from(format!(".catlab-{}.part.", std::process::id()));
            passing.push(name);
            target.with_file_name(passing)
        });
        Self { target, passing }
    }

    /// Where to write now.
    pub(crate) fn path(&self) -> &Path {
        self.passing.as_deref().unwrap_or(&self.target)
    }

    /// Moves it to its place.
    ///
    /// # Errors
    /// The system's, with the path; an earlier file is as it was.
    pub(crate) fn commit(mut self) -> Result<(), String> {
        let Some(passing) = self.passing.take() else { return Ok(()) };
        std::fs::rename(&passing, &self.target).map_err(|error| cannot("write", &self.target, &error))
    }
}

impl Drop for FileInMaking {
    fn drop(&mut self) {
        if let Some(passing) = &self.passing {
            // What cannot be removed is in nobody's way.
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
    /// A run is known by these fields.
    const SUMMARY: &str = r#"{"schema_version": 20261127, "validity": {"valid": true, "reasons": []}}"#;

    #[test]
    fn a_run_is_never_mixed_with_another() {
        let scratch = Scratch::new("mixed");
        let target = scratch.0.join("run");
        let first = OutFolder::begin(&target, &RUN, Force::default()).unwrap();
        std::fs::write(first.path().join("summary.json"), SUMMARY).unwrap();
        std::fs::write(first.path().join("connections.jsonl"), "first").unwrap();
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 1, "nothing of it is in place before its end");
        first.commit().unwrap();
        std::fs::write(target.join("notes.txt"), "mine").unwrap();
        let Err(refused) = OutFolder::begin(&target, &RUN, Force::default()) else { panic!("it holds a run") };
        assert!(refused.contains("summary.json") && refused.contains("--force"), "{refused}");
        // A run that replaces it and does not take place leaves it as it was.
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
                    std::fs::write(target.join(results.last), mark).unwrap();
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
        let inputs = [run.clone(), capture.clone()];
        for bad in [&run, &capture, &run.join("summary.json"), &run.join("agents"), &run.join("../p.pcap")] {
            assert!(refuse_input(bad, &inputs).unwrap_err().contains("is read"), "{}", bad.display());
        }
        for good in [run.join("page.html"), scratch.0.join("p.toml"), "page.html".into()] {
            assert_eq!(refuse_input(&good, &inputs), Ok(()), "{}", good.display());
        }
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
