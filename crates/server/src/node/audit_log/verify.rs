//! Whether an audit log is as it was written: each line has the digest of the one before, over all its files.
//!
//! An edited line does not have the digest that the next one names; where lines or files were taken out of the middle,
//! or put in, two do not fit either. What was cut off at the end is seen against a digest that was noted elsewhere; the
//! oldest lines go as files are rotated.

use super::file::numbered;
use super::line::{LineDigest, digest_of};
use crate::limits::{AUDIT_FILES_MAX, AUDIT_LINE_BYTES_MAX};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// What was found whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Verified {
    /// Lines that are bound to the one before.
    pub(crate) lines: u64,
    /// Lines of older software, which bound none, before them.
    pub(crate) unbound: u64,
    /// The first line is the first of all that was ever written.
    pub(crate) has_begin: bool,
    /// The digest of the last line, to be noted elsewhere.
    pub(crate) last: Option<LineDigest>,
    /// Whether the digest that was asked for is that of one of the lines.
    pub(crate) has_noted: bool,
    /// The last line is not whole: the node is writing it, or was ended while it did.
    pub(crate) is_cut: bool,
}

/// Where it is not whole, or cannot be read.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) file: PathBuf,
    pub(crate) line: u64,
    pub(crate) why: String,
}

#[derive(Deserialize)]
struct Bound {
    prev: Option<String>,
}

/// The files of one audit log, the oldest first.
pub(crate) fn files_of(path: &Path) -> Vec<PathBuf> {
    let all = (0..AUDIT_FILES_MAX).rev().map(|number| numbered(path, number));
    all.filter(|file| file.exists()).collect()
}

/// Follows the chain through `files`, the oldest first, on the look-out for the digest `noted`.
pub(crate) fn verify(files: &[PathBuf], noted: Option<LineDigest>) -> Result<Verified, Broken> {
    let mut found = Verified::default();
    for (place, file) in files.iter().enumerate() {
        let broken = |line, why: String| Broken { file: file.clone(), line, why };
        let opened = File::open(file).map_err(|error| broken(0, error.to_string()))?;
        let (mut reader, mut number) = (BufReader::new(opened), 0);
        while let Some(line) = next_line(&mut reader).map_err(|error| broken(number + 1, error.to_string()))? {
            number += 1;
            let Some(line) = line.strip_suffix(b"\n") else {
                found.is_cut = true;
                if place + 1 == files.len() {
                    break;
                }
                return Err(broken(number, "the file ends within a line, and others follow".into()));
            };
            found.take(line, noted).map_err(|why| broken(number, why))?;
        }
    }
    Ok(found)
}

impl Verified {
    fn take(&mut self, line: &[u8], noted: Option<LineDigest>) -> Result<(), String> {
        let Bound { prev } =
            serde_json::from_slice(line).map_err(|error| format!("no line of an audit log: {error}"))?;
        let is_bound = prev.is_some();
        match (prev, self.last) {
            (Some(prev), Some(last)) if prev != HEXLOWER.encode(&last) => {
                return Err("the line before was changed, or lines between were taken out or put in".into());
            }
            (Some(prev), None) => self.has_begin = prev == HEXLOWER.encode(&[0; 32]),
            (None, _) if self.lines > 0 => return Err("it is not bound to the line before, as all since are".into()),
            _ => {}
        }
        *(if is_bound { &mut self.lines } else { &mut self.unbound }) += 1;
        let digest = digest_of(line);
        self.has_noted |= noted == Some(digest);
        self.last = Some(digest);
        Ok(())
    }
}

/// The next line with its end, as far as a line may go.
fn next_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let bytes = reader.take(AUDIT_LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
    if bytes == AUDIT_LINE_BYTES_MAX && !line.ends_with(b"\n") {
        return Err(io::Error::other("a line without end"));
    }
    Ok((bytes > 0).then_some(line))
}
