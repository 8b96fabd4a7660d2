//! `cluster backup`: writes the state of a cluster to one file, and the data key to another.

use super::super::client::Client;
use super::super::output::print;
use crate::target::Target;
use config::Config;
use config::api_types::BACKUP_INDEX;
use config::files::data_key::{self, DataKeyFile, DataKeys};
use config::files::layout::Layout;
use process::problem::{Exit, Problem};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Suffix of an incomplete file.
const PARTIAL: &str = "partial";
/// Suffix of the data key's file.
const KEY: &str = "key";

/// `verify` reads the whole backup again, as a restore does.
pub(super) fn run(
    file: &Path,
    with_data_key: bool,
    target: &Target,
    verify: impl Fn(&Path, Option<&DataKeys>) -> Result<u64, Problem>,
) -> Result<(), Problem> {
    let key_file = with_ending(file, KEY);
    for made in [Some(file), with_data_key.then_some(key_file.as_path())].into_iter().flatten() {
        if made.exists() {
            return Err(Problem::new(
                Exit::Refused,
                "cannot write the backup",
                "the file exists, and is never overwritten",
            )
            .at(made.display())
            .hint("choose another file name"));
        }
    }
    let partial = with_ending(file, PARTIAL);
    // The data key may be replaced during the download, so it is read before and after.
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
        // No incomplete file is left. It may not exist yet.
        let _ = std::fs::remove_file(&partial);
    })?;
    let key = if with_data_key {
        format!("the data key for its secrets is in {}; store the two files in different places", key_file.display())
    } else {
        "its secrets are sealed with the cluster's data.key: keep a copy of that key in another place".to_owned()
    };
    print(&format!("{}: {bytes} bytes, verified, up to entry {index}\n{key}", file.display()))
}

/// Downloads the backup. Returns the index of its last entry.
fn fetch(partial: &Path, target: &Target) -> Result<String, Problem> {
    let mut made = BufWriter::new(File::create(partial).map_err(|error| unwritten(partial, &error))?);
    let headers = Client::find(target)?.download("/v1/backup", &mut made)?;
    made.flush().and_then(|()| made.get_ref().sync_all()).map_err(|error| unwritten(partial, &error))?;
    Ok(headers.get(BACKUP_INDEX).and_then(|value| value.to_str().ok()).unwrap_or("unknown").to_owned())
}

/// The data keys in the directory of the cluster.
fn load_keys(target: &Target) -> Result<DataKeys, Problem> {
    let layout = Layout::new(&target.dir);
    let from = match layout.configs().first() {
        Some(config) => Config::load(config)?.data_key(),
        None => DataKeyFile::new(&layout.data_key(), None),
    };
    from.load().map_err(|error| {
        Problem::new(Exit::Input, "cannot read the data key", error)
            .at(from.path().display())
            .hint("run this on a machine of the cluster, with its directory as --dir")
    })
}

/// These data keys, and those that were added since they were read.
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
    let problem = Problem::new(Exit::Failed, "cannot write the backup", error).at(file.display());
    match error.kind() {
        io::ErrorKind::NotFound => problem.hint("make the directory first, or choose another one"),
        _ => problem,
    }
}
