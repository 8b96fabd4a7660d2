//! Downloads packages with `apt-get`, and unpacks them with `dpkg-deb`. Nothing of the system's apt is used or changed.

use super::Source;
use super::error::TreeError;
use crate::ports::installed;
use crate::process::{output_end, spawn_into};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The keys that sign Debian's lists of packages.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Words of apt for a list that is too old. Its messages are in English with `LC_ALL=C`.
const EXPIRED: &str = " is expired (";
/// Time limit of each connection to the mirror, in seconds.
const CONNECTION_SECONDS_MAX: u32 = 30;

/// Downloads packages and all that they depend on. Returns their files.
pub(super) fn download(
    folder: &Path,
    source: &Source,
    packages: &[&str],
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PathBuf>, TreeError> {
    if !Path::new(KEYRING).is_file() {
        return Err(TreeError::Missing("debian-archive-keyring"));
    }
    if installed("dpkg-deb").is_none() {
        return Err(TreeError::Missing("dpkg"));
    }
    check(&source.mirror, ":/.-_~")?;
    check(&source.suite, "-")?;
    let archives = folder.join("cache/archives");
    for path in [folder.join("lists/partial"), archives.join("partial")] {
        fs::create_dir_all(&path).map_err(|error| TreeError::Folder(path.clone(), error))?;
    }
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| TreeError::Folder(path.clone(), error)).map(|()| path)
    };
    let Source { mirror, suite, accepts_expired } = source;
    write("sources.list", &format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n"))?;
    // No package counts as installed.
    write("status", "")?;
    let config = write("apt.conf", &config(folder, *accepts_expired))?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("APT_CONFIG", &config).env("LC_ALL", "C");
        run(command, "apt-get", &folder.join("output"))
    };
    progress(&format!("reading the list of packages of {suite} from {mirror}"));
    apt(&["update", "--error-on=any"]).map_err(|error| match error {
        TreeError::Tool(_, output) if output.contains(EXPIRED) => TreeError::Expired,
        error => error,
    })?;
    progress("downloading packages");
    apt(&[&["install", "--yes", "--download-only"], packages].concat())?;
    let files = fs::read_dir(&archives).map_err(|error| TreeError::Folder(archives.clone(), error))?;
    let mut files: Vec<PathBuf> = files.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    files.sort();
    Ok(files)
}

/// Letters, digits and a few other characters: no syntax of `sources.list`.
fn check(text: &str, others: &str) -> Result<(), TreeError> {
    let is_word =
        !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || others.contains(letter));
    if is_word { Ok(()) } else { Err(TreeError::Source(text.to_owned())) }
}

/// The configuration of apt: all of its files are in the folder.
fn config(folder: &Path, accepts_expired: bool) -> String {
    let folder = folder.display();
    let check = !accepts_expired;
    format!(
        "Dir::State \"{folder}\";
Dir::State::status \"{folder}/status\";
Dir::State::lists \"{folder}/lists\";
Dir::Cache \"{folder}/cache\";
Dir::Etc::sourcelist \"{folder}/sources.list\";
Dir::Etc::sourceparts \"/dev/null\";
Dir::Etc::parts \"/dev/null\";
Dir::Etc::main \"/dev/null\";
Dir::Etc::preferences \"/dev/null\";
Dir::Etc::preferencesparts \"/dev/null\";
APT::Sandbox::User \"\";
APT::Install-Recommends \"false\";
Acquire::Languages \"none\";
Acquire::Retries \"2\";
Acquire::http::Timeout \"{CONNECTION_SECONDS_MAX}\";
Acquire::Check-Valid-Until \"{check}\";
"
    )
}

/// Unpacks the files of a package, without running its scripts.
pub(super) fn unpack(archive: &Path, root: &Path) -> Result<(), TreeError> {
    let mut command = Command::new("dpkg-deb");
    command.arg("--extract").arg(archive).arg(root);
    run(command, "dpkg-deb", &archive.with_extension("output"))
}

fn run(mut command: Command, tool: &'static str, output: &Path) -> Result<(), TreeError> {
    let failed = |error: std::io::Error| TreeError::Tool(tool, error.to_string());
    let status = spawn_into(&mut command, output).map_err(failed)?.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(TreeError::Tool(tool, output_end(output))) }
}

/// Name and version of a package by the name of its file: `knot_3.5.8-1_amd64.deb`.
pub(super) fn name_and_version(archive: &Path) -> Option<(String, String)> {
    let name = archive.file_stem()?.to_str()?;
    let (name, rest) = name.split_once('_')?;
    let (version, _) = rest.rsplit_once('_')?;
    // apt writes the colon of an epoch as %3a.
    Some((name.to_owned(), version.replace("%3a", ":")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_has_name_and_version() {
        let of = |name: &str| name_and_version(Path::new(name));
        let expected = Some(("bind9".to_owned(), "1:9.20.30-1".to_owned()));
        assert_eq!(of("/cache/bind9_1%3a9.20.30-1_amd64.deb"), expected);
        assert_eq!(of("/cache/lock"), None);
    }

    #[test]
    fn a_source_has_no_syntax_of_apt() {
        check("http://deb.debian.org/debian", ":/.-_~").unwrap();
        for wrong in ["", "sid main", "sid\ndeb x", "[trusted=yes]"] {
            assert!(matches!(check(wrong, "-"), Err(TreeError::Source(_))), "{wrong}");
        }
    }
}
