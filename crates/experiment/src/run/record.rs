//! Records the processes and control groups of a run in files. If the run is killed, the next run ends them.
//!
//! `running.json` in the folder of the experiment lists them. An entry of the registry names that folder, so that a run
//! of any other experiment finds it.

use super::process::{self, Identity};
use super::{atomic, cgroup};
use crate::limits::RECORDS_MAX;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Name of the file in the folder of the experiment.
const FILE: &str = "running.json";
/// Folder of the registry if root runs the experiment. It is empty after a boot, as `/run` is.
const REGISTRY: &str = "/run/catlab";
/// Environment variable that sets another folder.
const REGISTRY_VARIABLE: &str = "CATLAB_RUN_DIR";
/// File extension of an entry of the registry.
const ENDING: &str = "experiment";

/// The processes and control groups that a run has started.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Running {
    /// The process that runs the experiment.
    owner: Identity,
    /// Prefix of the marks of all its processes.
    mark: String,
    processes: Vec<Identity>,
    cgroups: Vec<PathBuf>,
}

/// An entry of the registry.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    owner: Identity,
    mark: String,
    folder: PathBuf,
}

/// The record of a run of this process. Dropping it ends everything that the run started.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    entry: PathBuf,
    running: RefCell<Running>,
}

impl Record {
    /// Begins a record before anything starts.
    ///
    /// # Errors
    /// A file cannot be written, or another process is running an experiment in this folder.
    pub(super) fn begin(folder: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = folder.join(FILE);
        if let Some(other) = read::<Running>(&path).filter(|other| other.owner.is_running()) {
            let text = format!("process {} is already running an experiment in {}", other.owner.pid, folder.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let none = || io::Error::other("/proc does not show this process");
        let owner = Identity::of(std::process::id()).ok_or_else(none)?;
        let name = format!("{}-{}-{}", owner.pid, owner.start, NEXT.fetch_add(1, Ordering::Relaxed));
        let mark = format!("{name}/");
        let entry = registry()?.join(format!("{name}.{ENDING}"));
        let running = Running { owner, mark: mark.clone(), processes: Vec::new(), cgroups: Vec::new() };
        write(&path, &running)?;
        write(&entry, &Entry { owner, mark, folder: folder.to_owned() })?;
        Ok(Self { path, entry, running: running.into() })
    }

    /// The mark of a process of this run.
    pub(super) fn mark(&self, name: &str) -> String {
        format!("{}{name}/", self.running.borrow().mark)
    }

    /// A name for a control group of this run.
    pub(super) fn cgroup_name(&self, name: &str) -> String {
        group_name(&self.mark(name))
    }

    /// Adds a process that has started.
    pub(super) fn add_process(&self, process: Identity) -> io::Result<()> {
        self.running.borrow_mut().processes.push(process);
        self.save()
    }

    /// Adds a control group. Called before the group is created.
    pub(super) fn add_cgroup(&self, folder: &Path) -> io::Result<()> {
        self.running.borrow_mut().cgroups.push(folder.to_owned());
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        write(&self.path, &*self.running.borrow())
    }

    /// Ends all processes and removes all control groups so far. Returns whether none is left.
    pub(super) fn end_all(&self) -> bool {
        let mut running = self.running.borrow_mut();
        let has_ended = running.end();
        if has_ended {
            running.processes.clear();
            running.cgroups.clear();
        }
        has_ended
    }
}

/// The name of the control groups of processes with this mark, or its beginning.
fn group_name(mark: &str) -> String {
    mark.trim_end_matches('/').replace('/', "-")
}

impl Drop for Record {
    fn drop(&mut self) {
        // If something is left, the next run tries again.
        if self.end_all() {
            let _removed = fs::remove_file(&self.entry);
            let _removed = fs::remove_file(&self.path);
        }
    }
}

impl Running {
    fn end(&self) -> bool {
        let has_ended = process::end(Some(&self.mark), &self.processes);
        self.cgroups.iter().fold(has_ended, |has_ended, folder| cgroup::remove(folder) && has_ended)
    }
}

/// Ends the processes of killed runs, and removes their control groups and links. Returns the folders of those runs.
///
/// # Errors
/// The registry cannot be read.
pub(super) fn clean() -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    let registry = registry()?;
    let files = fs::read_dir(&registry).map_err(|error| of_registry(&registry, &error))?;
    for file in files.take(RECORDS_MAX) {
        let file = file?.path();
        if file.extension().is_none_or(|ending| ending != ENDING) {
            continue;
        }
        let Some(entry) = read::<Entry>(&file).filter(|entry| !entry.owner.is_running()) else { continue };
        let path = entry.folder.join(FILE);
        let recorded = read::<Running>(&path).filter(|running| running.mark == entry.mark);
        let mark = entry.mark.clone();
        let is_recorded = recorded.is_some();
        // Without its folder, the processes are found by their mark, and the groups by their names.
        let found = || {
            let cgroups = cgroup::found(&group_name(&mark));
            Running { owner: entry.owner, mark, processes: Vec::new(), cgroups }
        };
        if recorded.unwrap_or_else(found).end() {
            let _removed = fs::remove_file(&file);
            if is_recorded {
                let _removed = fs::remove_file(&path);
            }
            folders.push(entry.folder);
        }
    }
    // After their processes, which keep namespaces. Links of another user stay.
    match links::clean() {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(folders),
    }
}

/// The folder of the registry. It must belong to this user.
fn registry() -> io::Result<PathBuf> {
    let user = fs::metadata("/proc/self")?.uid();
    let folder = match (std::env::var_os(REGISTRY_VARIABLE), std::env::var_os("XDG_RUNTIME_DIR")) {
        (Some(folder), _) => folder.into(),
        (None, _) if user == 0 => REGISTRY.into(),
        (None, Some(folder)) => PathBuf::from(folder).join("catlab"),
        (None, None) => std::env::temp_dir().join(format!("catlab-{user}")),
    };
    fs::create_dir_all(&folder).map_err(|error| of_registry(&folder, &error))?;
    if fs::metadata(&folder)?.uid() != user {
        let text = format!("{} belongs to another user; set {REGISTRY_VARIABLE} to another folder", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(folder)
}

/// Adds the folder of the registry to an error.
fn of_registry(folder: &Path, error: &io::Error) -> io::Error {
    let text = format!("{}: {error}; set {REGISTRY_VARIABLE} to another folder", folder.display());
    io::Error::new(error.kind(), text)
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    atomic(path, &serde_json::to_vec_pretty(value)?)
}
