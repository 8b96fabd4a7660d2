//! The files of an audit log, and their verification: each line contains the digest of the previous one.
//!
//! The chain of digests goes over all files. An edited line no longer matches the digest in the next one. Removed,
//! added or reordered lines break the chain too. Lines removed at the end are detected with a digest that was noted
//! elsewhere. The oldest lines disappear by rotation.

use crate::limits::{AUDIT_FILES_MAX, AUDIT_LINE_BYTES_MAX};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The result of a verification.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verified {
    /// Lines with a valid digest of the previous one.
    pub lines: u64,
    /// Lines of older versions without digests, before those lines.
    pub unbound: u64,
    /// Whether the first line is the first that was ever written.
    pub has_begin: bool,
    /// The digest of the last line, to be noted elsewhere.
    pub last: Option<LineDigest>,
    /// Whether a line has the given digest.
    pub has_noted: bool,
    /// The last line is partial: the node is writing it, or stopped while it did.
    pub is_cut: bool,
}

/// The place where the chain is broken, or the file cannot be read.
#[derive(Debug)]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// The line, from one; 0 if the file cannot be read.
    pub line: u64,
    /// Why.
    pub why: String,
}

#[derive(Deserialize)]
struct Bound {
    prev: Option<String>,
}

/// The files of one audit log, the oldest first.
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    let all = (0..AUDIT_FILES_MAX).rev().map(|number| numbered(path, number));
    all.filter(|file| file.exists()).collect()
}

/// Verifies the chain through `files`, the oldest first, and looks for the digest `noted`.
pub fn verify(files: &[PathBuf], noted: Option<LineDigest>) -> Result<Verified, Broken> {
    let mut found = Verified::default();
    for (index, file) in files.iter().enumerate() {
        let broken = |line, why: String| Broken { file: file.clone(), line, why };
        let opened = File::open(file).map_err(|error| broken(0, error.to_string()))?;
        let (mut reader, mut number) = (BufReader::new(opened), 0);
        while let Some(line) = next_line(&mut reader).map_err(|error| broken(number + 1, error.to_string()))? {
            number += 1;
            let Some(line) = line.strip_suffix(b"\n") else {
                found.is_cut = true;
                if index + 1 == files.len() {
                    break;
                }
                return Err(broken(number, "the file ends within a line, and another file follows".into()));
            };
            found.take(line, noted).map_err(|why| broken(number, why))?;
        }
    }
    Ok(found)
}

impl Verified {
    fn take(&mut self, line: &[u8], noted: Option<LineDigest>) -> Result<(), String> {
        let Bound { prev } =
            serde_json::from_slice(line).map_err(|error| format!("not a line of an audit log: {error}"))?;
        let is_bound = prev.is_some();
        match (prev, self.last) {
            (Some(prev), Some(last)) if prev != HEXLOWER.encode(&last) => {
                return Err("the previous line was changed, or lines were removed or added before this one".into());
            }
            (Some(prev), None) => self.has_begin = prev == HEXLOWER.encode(&[0; 32]),
            (None, _) if self.lines > 0 => return Err("the line has no digest of the previous line".into()),
            _ => {}
        }
        *(if is_bound { &mut self.lines } else { &mut self.unbound }) += 1;
        let digest = digest_of(line);
        self.has_noted |= noted == Some(digest);
        self.last = Some(digest);
        Ok(())
    }
}

/// The next line with its newline, up to the maximum length.
fn next_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let bytes = reader.take(AUDIT_LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
    if bytes == AUDIT_LINE_BYTES_MAX && !line.ends_with(b"\n") {
        return Err(io::Error::other("a line without end"));
    }
    Ok((bytes > 0).then_some(line))
}

/// The digest of a line.
pub type LineDigest = [u8; 32];

/// SHA-256 of a line without its newline, as printed by `sha256sum`.
pub fn digest_of(line: &[u8]) -> LineDigest {
    let digest = ring::digest::digest(&ring::digest::SHA256, line);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// `PATH` itself, or `PATH.NUMBER`.
pub fn numbered(path: &Path, number: usize) -> PathBuf {
    match number {
        0 => path.to_owned(),
        number => {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{number}"));
            path.with_file_name(name)
        }
    }
}
