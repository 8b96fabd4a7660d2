//! The files that a process may use in the sandbox.
//!
//! A replaced file gets a new inode, so the rules name its directory.

use crate::config::Config;
use crate::config::tls::Tls;
use crate::files::read_bounded;
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::tls::session::PeerFiles;
use crate::tls::validity::is_issued_by;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::{Path, PathBuf};

/// Files that libraries read: entropy, the control group, limits of cores and memory; and the program itself, for
/// backtraces.
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
pub(super) struct Files {
    /// Read and written.
    pub(super) written: Vec<PathBuf>,
    /// Read only.
    pub(super) read: Vec<PathBuf>,
}

impl Files {
    /// The files of a node.
    pub(super) fn of_node(config: &Config, file: &Path) -> Self {
        let mut files = Self::default();
        // SIGHUP reads the configuration again.
        files.read_beside(file);
        // The lock, the audit log and marker files are beside the data.
        files.written.push(config.dir.clone());
        files.write_beside(&config.dir);
        // The node itself replaces data keys, CAs and its certificate.
        files.write_beside(&config.data_key_file);
        config.wrapping_key_file.iter().for_each(|file| files.write_beside(file));
        let peer = &config.peer;
        [&peer.ca_file, &peer.cert_file, &peer.key_file].into_iter().for_each(|file| files.write_beside(file));
        files.read_beside(&config.api.token_file);
        config.dns.cookie_secrets_file.iter().for_each(|file| files.read_beside(file));
        if let Some(tls) = &config.dns.tls {
            let is_ours = is_of_cluster(tls, config);
            for file in [&tls.cert_file, &tls.key_file] {
                if is_ours { files.write_beside(file) } else { files.read_beside(file) }
            }
        }
        files.read.extend(SYSTEM.map(PathBuf::from));
        files.read.extend(std::env::current_exe());
        files
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

    fn write_beside(&mut self, file: &Path) {
        self.written.extend(directories_of(file));
    }

    fn read_beside(&mut self, file: &Path) {
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

/// Whether the cluster issued the certificate for clients. Then the node renews it.
fn is_of_cluster(tls: &Tls, config: &Config) -> bool {
    let peer = &config.peer;
    let files = PeerFiles { ca: peer.ca_file.clone(), cert: peer.cert_file.clone(), key: peer.key_file.clone() };
    let Ok(pem) = read_bounded(&tls.cert_file, SMALL_FILE_BYTES_MAX) else { return false };
    let Ok(certificate) = CertificateDer::from_pem_slice(&pem) else { return false };
    files.roots().is_ok_and(|roots| roots.iter().any(|root| is_issued_by(&certificate, root)))
}
