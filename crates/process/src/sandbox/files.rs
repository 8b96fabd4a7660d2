//! The files that a process may use in the sandbox.
//!
//! A replaced file gets a new inode, so the rules name its directory.

use std::path::{Path, PathBuf};

/// Files that libraries read: entropy, the control group, limits of cores and memory.
const SYSTEM: [&str; 8] = [
    "/proc/self",
    "/proc/meminfo",
    "/proc/sys/vm",
    "/proc/sys/net",
    "/sys/fs/cgroup",
    "/sys/devices/system",
    "/sys/kernel/mm",
    "/dev/urandom",
];

/// Paths that the C library reads to resolve a name: its configuration, which other programs may replace at any time,
/// modules of the name service switch, and the files of the system's resolvers.
const RESOLVER: [&str; 10] = [
    "/etc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/nscd",
    "/run/connman",
];

/// Directories, including everything below them, and files.
#[derive(Default, Debug)]
pub struct Files {
    /// Read and written.
    pub written: Vec<PathBuf>,
    /// Read only.
    pub read: Vec<PathBuf>,
}

impl Files {
    /// Adds the files that libraries read, and the program itself for backtraces.
    pub fn read_system(&mut self) {
        self.read.extend(SYSTEM.map(PathBuf::from));
        self.read.extend(std::env::current_exe());
    }

    /// The files of a resolver thread. `/etc/resolv.conf` is often a link into another directory.
    pub(super) fn of_resolver() -> Self {
        let mut files =
            Self { read: RESOLVER.into_iter().chain(SYSTEM).map(PathBuf::from).collect(), ..Self::default() };
        files.read_beside(Path::new("/etc/resolv.conf"));
        files
    }

    /// The files of `catamaran ddns`.
    pub(super) fn of_ddns<'a>(writable: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut files = Self { read: vec!["/".into()], ..Self::default() };
        writable.into_iter().for_each(|file| files.write_beside(file));
        files
    }

    /// Allows writes in the directory of a file.
    pub fn write_beside(&mut self, file: &Path) {
        self.written.extend(directories_of(file));
    }

    /// Allows reads in the directory of a file.
    pub fn read_beside(&mut self, file: &Path) {
        self.read.extend(directories_of(file));
    }
}

/// The directory of a file, and that of its target: the files of certbot are links into another directory.
fn directories_of(file: &Path) -> Vec<PathBuf> {
    let parent = |file: &Path| match file.parent() {
        Some(dir) if dir.as_os_str().is_empty() => PathBuf::from("."),
        Some(dir) => dir.to_owned(),
        None => file.to_owned(),
    };
    let mut directories = vec![parent(file)];
    directories.extend(file.canonicalize().ok().map(|file| parent(&file)));
    directories
}
