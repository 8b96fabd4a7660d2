//! The newest versions of servers, from Debian packages that are unpacked into a folder.
//!
//! Nothing is installed on the system: no scripts of packages run, no service starts, and no root is needed. Programs
//! run with the libraries of the folder, outside of any chroot, so all paths are those of the system.
//!
//! ```text
//!   DIR/bin/knotd     a script that runs DIR/root/usr/sbin/knotd with the loader and libraries of DIR/root
//!   DIR/root          the unpacked packages
//!   DIR/packages      names and versions of the packages
//! ```

mod apt;
mod error;
mod script;

pub use error::TreeError;
pub(crate) use script::libraries;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The environment variable with the folder. Its programs are preferred to those of the system.
pub const VARIABLE: &str = "CATAMARAN_PEERS";
/// Packages, each with the programs that get a script.
const PACKAGES: [(&str, &[&str]); 9] = [
    ("knot", &["knotd", "knotc"]),
    ("nsd", &["nsd", "nsd-control"]),
    ("bind9", &["named"]),
    ("pdns-server", &["pdns_server", "pdnsutil"]),
    ("pdns-backend-bind", &[]),
    ("pdns-backend-sqlite3", &[]),
    ("unbound", &["unbound", "unbound-control"]),
    ("dnsdist", &["dnsdist"]),
    ("haproxy", &["haproxy"]),
];

/// The folder with the downloads, until all packages are unpacked.
const DOWNLOADS: &str = "apt";
/// The folder with the unpacked packages.
const ROOT: &str = "root";
/// The folder with the scripts.
const BIN: &str = "bin";
/// The file with names and versions of all packages.
const VERSIONS: &str = "packages";

/// Where the packages come from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The mirror of Debian.
    pub mirror: String,
    /// The suite, such as `sid`.
    pub suite: String,
    /// Whether an expired list of packages is accepted. Its signature is checked in any case.
    pub accepts_expired: bool,
}

/// Unpacks the packages into a new or empty folder, or into one of an interrupted installation. Calls `progress` with
/// each step. Returns names and versions of the packages with servers.
///
/// # Errors
/// [`TreeError`]. The folder is empty again then.
pub fn install(
    folder: &Path,
    source: &Source,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<(String, String)>, TreeError> {
    let at = |error| TreeError::Folder(folder.to_owned(), error);
    fs::create_dir_all(folder).map_err(at)?;
    remove_unfinished(folder).map_err(at)?;
    if fs::read_dir(folder).map_err(at)?.next().is_some() {
        return Err(TreeError::NotEmpty(folder.to_owned()));
    }
    let folder = folder.canonicalize().map_err(at)?;
    let done = fill(&folder, source, progress);
    if done.is_err() {
        for name in [ROOT, BIN] {
            let _removed = fs::remove_dir_all(folder.join(name));
        }
        let _removed = fs::remove_file(folder.join(VERSIONS));
    }
    let _removed = fs::remove_dir_all(folder.join(DOWNLOADS));
    done
}

/// Removes what an interrupted installation left: it has downloads, and nothing that is not of an installation.
fn remove_unfinished(folder: &Path) -> io::Result<()> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    let is_ours = |name: &OsString| [DOWNLOADS, ROOT, BIN, VERSIONS].iter().any(|ours| name == ours);
    if !names.iter().any(|name| name == DOWNLOADS) || !names.iter().all(is_ours) {
        return Ok(());
    }
    // The downloads last, so that the next installation removes the rest if this is interrupted too.
    for name in names.iter().filter(|name| *name != DOWNLOADS) {
        let path = folder.join(name);
        if name == VERSIONS { fs::remove_file(path)? } else { fs::remove_dir_all(path)? }
    }
    fs::remove_dir_all(folder.join(DOWNLOADS))
}

fn fill(folder: &Path, source: &Source, progress: &mut dyn FnMut(&str)) -> Result<Vec<(String, String)>, TreeError> {
    let names: Vec<&str> = PACKAGES.iter().map(|(name, _)| *name).collect();
    let archives = apt::download(&folder.join(DOWNLOADS), source, &names, progress)?;
    progress(&format!("unpacking {} packages", archives.len()));
    let root = folder.join(ROOT);
    for archive in &archives {
        apt::unpack(archive, &root)?;
    }
    script::clear_set_id_bits(&root)?;
    for program in PACKAGES.iter().flat_map(|(_, programs)| *programs) {
        script::write(folder, program)?;
    }
    let versions: Vec<_> = archives.iter().filter_map(|archive| apt::name_and_version(archive)).collect();
    let text: String = versions.iter().map(|(name, version)| format!("{name} {version}\n")).collect();
    let path = folder.join(VERSIONS);
    fs::write(&path, text).map_err(|error| TreeError::Folder(path, error))?;
    Ok(versions.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect())
}

/// A program in the folder that [`VARIABLE`] names.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty())?;
    let path = std::path::absolute(Path::new(&folder).join(BIN).join(name)).ok()?;
    path.is_file().then_some(path)
}

/// The root of the unpacked packages, if this program is from such a folder.
pub(crate) fn root_of(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?.parent()?;
    folder.join(VERSIONS).is_file().then(|| folder.join(ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interrupted_installation_is_removed() {
        let folder = std::env::temp_dir().join(format!("testbed-unfinished-{}", std::process::id()));
        let made = |folders: &[&str], files: &[&str]| {
            let _left = fs::remove_dir_all(&folder);
            folders.iter().for_each(|name| fs::create_dir_all(folder.join(name)).unwrap());
            files.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
            remove_unfinished(&folder).unwrap();
            fs::read_dir(&folder).unwrap().count()
        };
        assert_eq!(made(&["apt/archives", "root/usr", "bin"], &["bin/knotd", "packages"]), 0);
        assert_eq!(made(&["root/usr", "bin"], &["bin/knotd", "packages"]), 3, "it is complete");
        assert_eq!(made(&["apt/archives"], &["notes"]), 2, "a file of the user");
        fs::remove_dir_all(&folder).unwrap();
    }
}
