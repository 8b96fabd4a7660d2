//! Records of nets, written before anything is made, so that a later process can remove what was left behind.
//!
//! Each net has one file. It starts with the process ID and the start time of the owner, because process IDs are
//! reused. Then it lists each namespace before the namespace is made.

use crate::ip;
use crate::limits::{RECORD_LINES_MAX, RECORDS_MAX};
use crate::system;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folder of the records. Like namespaces, it is empty after a boot.
const FOLDER: &str = "/run/catlab";
/// Names another folder, to ignore the nets of other users.
const FOLDER_VARIABLE: &str = "CATLAB_RUN_DIR";
/// File extension of a record.
const ENDING: &str = "net";
/// The line that says that the net is complete.
const READY: &str = "ready";

/// The record of a net of this process. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    path: PathBuf,
}

impl Record {
    /// Creates a record.
    pub(crate) fn begin(name: &str) -> io::Result<Self> {
        let folder = folder();
        fs::create_dir_all(&folder)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
        let pid = std::process::id();
        let start = start_of(pid).ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        // Written under another name first, so that it always has an owner: records without one are removed.
        let draft = folder.join(format!(".{name}.{pid}"));
        let path = path_of(name);
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&draft)?;
        writeln!(file, "owner {pid} {start}")?;
        let _lock = lock()?;
        let linked = fs::hard_link(&draft, &path);
        let _removed = fs::remove_file(&draft);
        linked.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => io::Error::new(error.kind(), format!("the net {name} already exists")),
            kind => io::Error::new(kind, format!("{}: {error}", path.display())),
        })?;
        Ok(Self { file, path })
    }

    /// Adds a namespace that is about to be made.
    pub(crate) fn add_namespace(&mut self, namespace: &str) -> io::Result<()> {
        if Path::new("/var/run/netns").join(namespace).exists() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, format!("the namespace {namespace} already exists")));
        }
        writeln!(self.file, "namespace {namespace}")
    }

    /// Marks the net as complete.
    pub(crate) fn ready(&mut self) -> io::Result<()> {
        writeln!(self.file, "{READY}")
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _removed = fs::remove_file(&self.path);
    }
}

/// A net of this machine, from its record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedNet {
    /// Name of the net.
    pub name: String,
    /// The process that holds the net.
    pub pid: u32,
    start: u64,
    /// Namespaces, made or about to be made.
    pub namespaces: Vec<String>,
    /// Whether the net is complete.
    pub is_ready: bool,
}

impl RecordedNet {
    /// The nets of this machine, by name.
    ///
    /// # Errors
    ///
    /// The folder of the records cannot be read.
    pub fn all() -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(folder()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries.take(RECORDS_MAX) {
            let path = entry?.path();
            let (Some(name), Some(ending)) = (path.file_stem(), path.extension()) else { continue };
            if ending == ENDING
                && let Some(found) = Self::find(&name.to_string_lossy())?
            {
                all.push(found);
            }
        }
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// The net of this name.
    ///
    /// # Errors
    ///
    /// Its record cannot be read, or is malformed.
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        if name.contains('/') {
            return Ok(None);
        }
        let path = path_of(name);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let none = || io::Error::new(ErrorKind::InvalidData, format!("{} is not a record of a net", path.display()));
        Self::parse(name, &text).map(Some).ok_or_else(none)
    }

    fn parse(name: &str, text: &str) -> Option<Self> {
        let mut lines = text.lines().take(RECORD_LINES_MAX);
        let mut owner = lines.next()?.strip_prefix("owner ")?.split(' ');
        let (pid, start) = (owner.next()?.parse().ok()?, owner.next()?.parse().ok()?);
        let mut found = Self { name: name.to_owned(), pid, start, namespaces: Vec::new(), is_ready: false };
        for line in lines {
            match line.strip_prefix("namespace ") {
                // A record may only name its own namespaces, so that an edited record removes nothing else.
                Some(namespace) if namespace.starts_with(&format!("{name}.")) && !namespace.contains('/') => {
                    found.namespaces.push(namespace.to_owned());
                }
                _ => found.is_ready |= line == READY,
            }
        }
        Some(found)
    }

    /// Whether the owner is still running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        start_of(self.pid) == Some(self.start)
    }

    /// Asks the owner to remove the net.
    ///
    /// # Errors
    ///
    /// The owner is gone, or this process may not signal it.
    pub fn ask_to_end(&self) -> io::Result<()> {
        if !self.is_running() {
            return Err(io::Error::new(ErrorKind::NotFound, format!("process {} has exited", self.pid)));
        }
        system::terminate(self.pid)
    }

    fn remove(&self) -> io::Result<()> {
        for namespace in &self.namespaces {
            let path = Path::new("/var/run/netns").join(namespace);
            if path.exists() {
                // Programs in the namespace keep it, and their ports, while they run.
                for pid in processes_in(&path)? {
                    // The process may have just ended.
                    let _terminated = system::terminate(pid);
                }
                ip(&["netns", "del", namespace])?;
            }
        }
        let _none = fs::remove_file(log_of(&self.name));
        fs::remove_file(path_of(&self.name))
    }
}

/// The processes in a network namespace.
fn processes_in(namespace: &Path) -> io::Result<Vec<u32>> {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let expected = identity(namespace)?;
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // The process may have ended meanwhile.
        if identity(&PathBuf::from(format!("/proc/{pid}/ns/net"))).is_ok_and(|found| found == expected) {
            processes.push(pid);
        }
    }
    Ok(processes)
}

/// One process at a time creates or removes nets. Otherwise a net that looks abandoned could be a new one.
fn lock() -> io::Result<File> {
    let lock = OpenOptions::new().create(true).truncate(true).write(true).open(folder().join(".lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// Removes the nets whose owners are gone. Returns their names.
///
/// # Errors
///
/// A net cannot be removed.
pub fn clean() -> io::Result<Vec<String>> {
    let mut removed = Vec::new();
    if !folder().exists() {
        return Ok(removed);
    }
    let _lock = lock()?;
    for net in RecordedNet::all()? {
        if !net.is_running() {
            net.remove()?;
            removed.push(net.name);
        }
    }
    Ok(removed)
}

/// The log file of a net that stays.
#[must_use]
pub fn log_of(name: &str) -> PathBuf {
    folder().join(format!("{name}.log"))
}

fn folder() -> PathBuf {
    std::env::var_os(FOLDER_VARIABLE).map_or_else(|| FOLDER.into(), PathBuf::from)
}

fn path_of(name: &str) -> PathBuf {
    folder().join(format!("{name}.{ENDING}"))
}

/// Start time of a process, in ticks since boot (proc_pid_stat(5), field 22). `None` if it is gone or a zombie.
fn start_of(pid: u32) -> Option<u64> {
    start_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn start_in(text: &str) -> Option<u64> {
    // The second field is a name in parentheses, which may contain anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lists_only_its_own_namespaces() {
        let text = "owner 12 345\nnamespace lab.hub\nnamespace other\nnamespace lab.a/../b\nnamespace lab.near\n";
        let found = RecordedNet::parse("lab", text).unwrap();
        assert_eq!((found.pid, found.start, found.is_ready), (12, 345, false));
        assert_eq!(found.namespaces, ["lab.hub", "lab.near"]);
        assert!(RecordedNet::parse("lab", &format!("{text}ready\n")).unwrap().is_ready);
        for wrong in ["", "owner 12", "owner x y\n", "namespace lab.hub\n"] {
            assert!(RecordedNet::parse("lab", wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn processes_have_their_own_namespace() {
        assert!(processes_in(Path::new("/proc/self/ns/net")).unwrap().contains(&std::process::id()));
        assert!(!processes_in(Path::new("/proc/self/ns/mnt")).unwrap().contains(&std::process::id()));
    }

    #[test]
    fn process_start_times_are_read_with_any_process_name() {
        let fields = "1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 10";
        assert_eq!(start_in(&format!("42 (a) b (c)) S {fields}")), Some(98_765));
        assert_eq!(start_in(&format!("42 (gone) Z {fields}")), None);
        assert!(start_of(std::process::id()).is_some());
        assert_eq!(start_of(u32::MAX), None);
    }
}
