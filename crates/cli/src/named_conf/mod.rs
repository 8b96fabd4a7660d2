//! Reads the update rules of a `named.conf`. All other statements are skipped.
//!
//! The result has each zone with an `update-policy` or an `allow-update`, in the order of the file, with its rules or
//! with errors. Errors do not stop the parser: the user may not want to import that zone.

mod acl;
mod parse;
#[cfg(test)]
mod tests;

use crate::limits::{NAMED_CONF_BYTES_MAX, NAMED_CONF_FILES_MAX};
use config::files::read_bounded;
use policy::Policy;
use std::path::{Path, PathBuf};
use wire::Name;

/// An error has a position, `file:line:column`, and a reason.
pub(crate) type Located<T> = Result<T, (String, String)>;

/// The policy of a zone, or all its errors, each with its position.
pub(crate) type Rules = Result<Policy, Vec<(String, String)>>;

/// The update rules of one zone.
#[derive(Debug)]
pub(crate) struct ZonePolicy {
    pub(crate) zone: Name,
    /// Position of the zone in the file.
    pub(crate) position: String,
    /// Its rules, or its errors.
    pub(crate) rules: Rules,
}

/// Reads a file and its includes.
pub(crate) fn read(file: &Path) -> Located<Vec<ZonePolicy>> {
    let mut sources = Files { read: 0 };
    parse::parse(file, &mut sources)
}

/// Source of included files.
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

/// The path of an include `name` in the file `from`. It is relative to that file; for `named`, it is relative to the
/// directory in which it was started.
fn included(from: &Path, name: &str) -> PathBuf {
    from.parent().unwrap_or_else(|| Path::new("")).join(name)
}
