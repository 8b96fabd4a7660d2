//! `cluster backup`: the state of a cluster as one file, and the key that opens the secrets in it.

use super::super::Target;
use super::super::client::Client;
use super::super::output::print;
use crate::api::backup::INDEX;
use crate::config::Config;
use crate::files::data_key::{self, DataKeyFile, DataKeys};
use crate::files::layout::Layout;
use crate::node::disk::StartReads;
use crate::problem::{Exit, Problem};
use replica::{Backup, RestoreFailure};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Ending of a file that is not whole yet.
const PARTIAL: &str = "partial";
/// Ending of the file of the data key.
const KEY: &str = "key";

pub(super) fn run(file: &Path, with_data_key: bool, target: &Target) -> Result<(), Problem> {
    let key_file = with_ending(file, KEY);
    for made in [Some(file), with_data_key.then_some(key_file.as_path())].into_iter().flatten() {
        if made.exists() {
            return Err(Problem::new(Exit::Refused, "there is a file of that name", "it is never overwritten")
                .at(made.display())
                .hint("name another file"));
        }
    }
    let partial = with_ending(file, PARTIAL);
    // A data key that the state is sealed with may be gone when it has come: another took its place meanwhile.
    let before = if with_data_key { Some(load_keys(target)?) } else { None };
    let outcome = fetch(&partial, target).and_then(|index| {
        let keys = before.map(|before| with_newer(before, target)).transpose()?;
        let bytes = verify(&partial, keys.as_ref())?;
        if let Some(keys) = &keys {
            data_key::save_plain(&key_file, keys).map_err(|error| unwritten(&key_file, &error))?;
        }
        std::fs::rename(&partial, file).and_then(|()| sync_dir(file)).map_err(|error| unwritten(file, &error))?;
        Ok((index, bytes))
    });
    let (index, bytes) = outcome.inspect_err(|_| {
        // Nothing half done is left; that it is not there is no error.
        let _ = std::fs::remove_file(&partial);
    })?;
    let key = if with_data_key {
        format!("the data key that opens its secrets is in {}; keep the two apart", key_file.display())
    } else {
        "its secrets open with the cluster's data.key only: keep a copy of that too, elsewhere".to_owned()
    };
    print(&format!("{}: {bytes} bytes, verified, all up to entry {index}\n{key}", file.display()))
}

/// Gives the index of the last entry in it.
fn fetch(partial: &Path, target: &Target) -> Result<String, Problem> {
    let mut made = BufWriter::new(File::create(partial).map_err(|error| unwritten(partial, &error))?);
    let headers = Client::find(target)?.download("/v1/backup", &mut made)?;
    made.flush().and_then(|()| made.get_ref().sync_all()).map_err(|error| unwritten(partial, &error))?;
    Ok(headers.get(INDEX).and_then(|value| value.to_str().ok()).unwrap_or("unknown").to_owned())
}

/// Reads all of it again, as a restore will, with these data keys if they are given.
fn verify(file: &Path, keys: Option<&DataKeys>) -> Result<u64, Problem> {
    let (disk, name) = source(file)?;
    let damaged = |error| Problem::new(Exit::Failed, "the backup is damaged", error).at(file.display());
    let backup = Backup::open(&disk, &name).map_err(damaged)?;
    let Some(keys) = keys else { return backup.verify(&disk).map_err(damaged) };
    let none = || Problem::new(Exit::Input, "the data key cannot be read", "there is none in it");
    backup.verify_with_key(&disk, &keys.to_replica().ok_or_else(none)?).map_err(|error| match error {
        RestoreFailure::DataKey(_) => Problem::new(Exit::Failed, "the data key does not open the backup", error).hint(
            "run this on a machine of the cluster, with its directory as --dir; while the key is replaced, again",
        ),
        error => Problem::new(Exit::Failed, "the backup is damaged", error).at(file.display()),
    })
}

/// The directory of a file, to be read from, and its name.
pub(super) fn source(file: &Path) -> Result<(StartReads, String), Problem> {
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Problem::new(Exit::Usage, "that is no name of a file", "it has none").at(file.display()))?;
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((StartReads::new(dir), name.to_owned()))
}

/// What the node that has this directory holds.
fn load_keys(target: &Target) -> Result<DataKeys, Problem> {
    let layout = Layout::new(&target.dir);
    let from = match layout.configs().first() {
        Some(config) => Config::load(config)?.data_key(),
        None => DataKeyFile::new(&layout.data_key(), None),
    };
    from.load().map_err(|error| {
        Problem::new(Exit::Input, "the data key cannot be read", error)
            .at(from.path().display())
            .hint("run this on a machine of the cluster, with its directory as --dir")
    })
}

/// These data keys, and those that came since they were read.
fn with_newer(mut keys: DataKeys, target: &Target) -> Result<DataKeys, Problem> {
    keys.keys.extend(&load_keys(target)?.keys);
    Ok(keys)
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn sync_dir(file: &Path) -> io::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}

fn unwritten(file: &Path, error: &io::Error) -> Problem {
    Problem::new(Exit::Failed, "the backup cannot be written", error).at(file.display())
}
