//! What is written down of a net before it is made, so that whoever comes later can remove it.
//!
//! One file a net in a folder of the machine: first whose it is, the process and when that began (numbers of processes
//! come again, with another start), then each namespace before it is made.

use crate::ip;
use crate::limits::{RECORD_LINES_MAX, RECORDS_MAX};
use crate::system;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where records are: what a machine forgets when it starts, as it forgets namespaces.
const FOLDER: &str = "/run/catlab";
/// Another folder, for those who want to have nothing to do with the nets of others.
const FOLDER_VARIABLE: &str = "CATLAB_RUN_DIR";
/// How the name of a record ends.
const ENDING: &str = "net";
/// The line that says that all of it is made.
const READY: &str = "ready";

/// A record of a net that this process makes. It goes when this does.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    path: PathBuf,
}

impl Record {
    /// Begins one.
    pub(crate) fn begin(name: &str) -> io::Result<Self> {
        let folder = folder();
        fs::create_dir_all(&folder)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
        let pid = std::process::id();
        let start = start_of(pid).ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        // Whole from the start under its own name: others remove what has no owner.
        let draft = folder.join(format!(".{name}.{pid}"));
        let path = path_of(name);
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&draft)?;
        writeln!(file, "owner {pid} {start}")?;
        let _lock = lock()?;
        let linked = fs::hard_link(&draft, &path);
        let _gone = fs::remove_file(&draft);
        linked.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => io::Error::new(error.kind(), format!("the net {name} already exists")),
            kind => io::Error::new(kind, format!("{}: {error}", path.display())),
        })?;
        Ok(Self { file, path })
    }

    /// Writes down a namespace that is to be made.
    pub(crate) fn note(&mut self, namespace: &str) -> io::Result<()> {
        if Path::new("/var/run/netns").join(namespace).exists() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, format!("the namespace {namespace} already exists")));
        }
        writeln!(self.file, "namespace {namespace}")
    }

    /// Writes down that the net is whole.
    pub(crate) fn ready(&mut self) -> io::Result<()> {
        writeln!(self.file, "{READY}")
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}

/// A net of this machine, as its record tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// The process that made it and holds it.
    pub pid: u32,
    start: u64,
    /// Its namespaces, made or about to be.
    pub namespaces: Vec<String>,
    /// Whether all of it is made.
    pub is_ready: bool,
}

impl Recorded {
    /// The nets of this machine, by name.
    ///
    /// # Errors
    /// The folder of records cannot be read.
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

    /// The net of a name.
    ///
    /// # Errors
    /// Its record cannot be read, or is none.
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
                // Only its own: a record that was written by hand removes nothing else.
                Some(namespace) if namespace.starts_with(&format!("{name}.")) && !namespace.contains('/') => {
                    found.namespaces.push(namespace.to_owned());
                }
                _ => found.is_ready |= line == READY,
            }
        }
        Some(found)
    }

    /// Whether the process that made it is still there.
    #[must_use]
    pub fn is_running(&self) -> bool {
        start_of(self.pid) == Some(self.start)
    }

    /// Asks the process that holds it to remove it.
    ///
    /// # Errors
    /// There is no such process any more, or it may not be asked.
    pub fn ask_to_end(&self) -> io::Result<()> {
        if !self.is_running() {
            return Err(io::Error::new(ErrorKind::NotFound, format!("process {} has exited", self.pid)));
        }
        system::terminate(self.pid)
    }

    fn remove(&self) -> io::Result<()> {
        for namespace in &self.namespaces {
            let place = Path::new("/var/run/netns").join(namespace);
            if place.exists() {
                // Whatever was started there keeps it, and its ports, for as long as it runs.
                for pid in processes_in(&place)? {
                    // One that has just ended is as wanted.
                    let _gone = system::terminate(pid);
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
    let wanted = identity(namespace)?;
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that ends meanwhile is in none.
        if identity(&PathBuf::from(format!("/proc/{pid}/ns/net"))).is_ok_and(|found| found == wanted) {
            processes.push(pid);
        }
    }
    Ok(processes)
}

/// One process at a time begins or removes nets: what one found abandoned is not what another has begun since.
fn lock() -> io::Result<File> {
    let lock = OpenOptions::new().create(true).truncate(true).write(true).open(folder().join(".lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// Removes the nets whose processes are gone; gives their names.
///
/// # Errors
/// One cannot be removed.
pub fn clean() -> io::Result<Vec<String>> {
    let mut removed = Vec::new();
    if !folder().exists() {
        return Ok(removed);
    }
    let _lock = lock()?;
    for net in Recorded::all()? {
        if !net.is_running() {
            net.remove()?;
            removed.push(net.name);
        }
    }
    Ok(removed)
}

/// Where a net that stays writes what it has to say.
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

/// When a process began, in ticks since the machine did (proc_pid_stat(5), field 22); `None` if it is not there, or has
/// ended and only waits for its parent.
fn start_of(pid: u32) -> Option<u64> {
    start_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn start_in(text: &str) -> Option<u64> {
    // The second field is a name in parentheses, which may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_its_own_namespaces_and_no_others() {
        let text = "owner 12 345\nnamespace lab.hub\nnamespace other\nnamespace lab.a/../b\nnamespace lab.near\n";
        let found = Recorded::parse("lab", text).unwrap();
        assert_eq!((found.pid, found.start, found.is_ready), (12, 345, false));
        assert_eq!(found.namespaces, ["lab.hub", "lab.near"]);
        assert!(Recorded::parse("lab", &format!("{text}ready\n")).unwrap().is_ready);
        for wrong in ["", "owner 12", "owner x y\n", "namespace lab.hub\n"] {
            assert!(Recorded::parse("lab", wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_process_is_in_its_own_namespace() {
        assert!(processes_in(Path::new("/proc/self/ns/net")).unwrap().contains(&std::process::id()));
        assert!(!processes_in(Path::new("/proc/self/ns/mnt")).unwrap().contains(&std::process::id()));
    }

    #[test]
    fn the_start_of_a_process_is_read_whatever_its_name() {
        let fields = "1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 10";
        assert_eq!(start_in(&format!("42 (a) b (c)) S {fields}")), Some(98_765));
        assert_eq!(start_in(&format!("42 (gone) Z {fields}")), None);
        assert!(start_of(std::process::id()).is_some());
        assert_eq!(start_of(u32::MAX), None);
    }
}
