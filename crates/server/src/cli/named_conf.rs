//! What a `named.conf` says of who may update which zone. The rest of the file is passed over, statement by statement.
//!
//! Each zone with an `update-policy` or an `allow-update` comes out, in the order of the file, with rules or with what
//! keeps it from having any: a zone that is not wanted may hold what cannot be taken over.

mod acl;
mod parse;
#[cfg(test)]
mod tests;

use crate::files::read_bounded;
use crate::limits::{NAMED_CONF_BYTES_MAX, NAMED_CONF_FILES_MAX};
use policy::Policy;
use std::path::{Path, PathBuf};
use wire::Name;

/// A place, `file:line:column`, and what is wrong there.
pub(crate) type At<T> = Result<T, (String, String)>;

/// The policy of a zone, or all its errors, each with its place in the file.
pub(crate) type Rules = Result<Policy, Vec<(String, String)>>;

/// What one zone lets whom write.
#[derive(Debug)]
pub(crate) struct ZonePolicy {
    pub(crate) zone: Name,
    /// Where it stands.
    pub(crate) place: String,
    /// What it says.
    pub(crate) rules: Rules,
}

/// Reads a file with what it includes.
pub(crate) fn read(file: &Path) -> At<Vec<ZonePolicy>> {
    let mut sources = Files { read: 0 };
    parse::parse(file, &mut sources)
}

/// Where included text comes from.
trait Sources {
    fn text(&mut self, file: &Path) -> Result<String, String>;
}

struct Files {
    read: usize,
}

impl Sources for Files {
    fn text(&mut self, file: &Path) -> Result<String, String> {
        self.read += 1;
        if self.read > NAMED_CONF_FILES_MAX {
            return Err(format!("more than {NAMED_CONF_FILES_MAX} files are included"));
        }
        let bytes = read_bounded(file, NAMED_CONF_BYTES_MAX).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
    }
}

/// The file that `name` means in `from`: relative to the file that includes it, where `named` takes the directory in
/// which it was started.
fn included(from: &Path, name: &str) -> PathBuf {
    from.parent().unwrap_or_else(|| Path::new("")).join(name)
}
