//! Packs a run folder into one file: for each file the length of its name, its name, its length and its bytes.

use crate::limits::BUNDLE_FILES_MAX;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Packs the files of a folder, without subfolders, into one file. Returns its length.
///
/// # Errors
/// If a file cannot be read or written.
pub fn pack(folder: &Path, into: &Path) -> io::Result<u64> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    let mut out = BufWriter::new(File::create(into)?);
    for name in names.iter().filter(|name| is_plain(name)) {
        let file = File::open(folder.join(name))?;
        let bytes = file.metadata()?.len();
        out.write_all(&[name.len() as u8])?;
        out.write_all(name.as_bytes())?;
        out.write_all(&bytes.to_be_bytes())?;
        if io::copy(&mut file.take(bytes), &mut out)? != bytes {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{name} has become shorter")));
        }
    }
    out.into_inner()?.metadata().map(|metadata| metadata.len())
}

/// Unpacks a file into a new folder.
///
/// # Errors
/// If the input is invalid, or a file cannot be written.
pub fn unpack(from: &Path, folder: &Path) -> io::Result<()> {
    let invalid =
        |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("the agent sent an invalid file: {what}"));
    std::fs::create_dir_all(folder)?;
    let mut input = BufReader::new(File::open(from)?);
    for _ in 0..BUNDLE_FILES_MAX {
        let mut length = [0; 1];
        if input.read(&mut length)? == 0 {
            return Ok(());
        }
        let mut name = vec![0; usize::from(length[0])];
        input.read_exact(&mut name)?;
        let name = String::from_utf8(name).ok().filter(|name| is_plain(name));
        let name = name.ok_or_else(|| invalid("not a file name"))?;
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes)?;
        let bytes = u64::from_be_bytes(bytes);
        let mut out = BufWriter::new(File::create_new(folder.join(&name))?);
        if io::copy(&mut input.by_ref().take(bytes), &mut out)? != bytes {
            return Err(invalid("a file is incomplete"));
        }
        out.flush()?;
    }
    if input.read(&mut [0])? == 0 { Ok(()) } else { Err(invalid("too many files")) }
}

/// Whether a name is a plain file name that cannot leave the folder.
fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_unpacks_to_the_same_folder() {
        let root = std::env::temp_dir().join(format!("catlab-bundle-{}", std::process::id()));
        let (one, other, file) = (root.join("one"), root.join("other"), root.join("file"));
        std::fs::create_dir_all(one.join("below")).unwrap();
        std::fs::write(one.join("a.json"), "{}").unwrap();
        std::fs::write(one.join("empty"), "").unwrap();
        std::fs::write(one.join("b_c-d.hlog"), vec![7; 100_000]).unwrap();
        let bytes = pack(&one, &file).unwrap();
        assert_eq!(bytes, 3 * 9 + 21 + 2 + 100_000);
        unpack(&file, &other).unwrap();
        for name in ["a.json", "empty", "b_c-d.hlog"] {
            assert_eq!(std::fs::read(one.join(name)).unwrap(), std::fs::read(other.join(name)).unwrap(), "{name}");
        }
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 3);
        // Unpacking again must not overwrite files.
        assert!(unpack(&file, &other).is_err());
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert!(unpack(&file, &root.join("cut")).is_err());
        for name in ["..", "../x", "a/b", ".hidden", ""] {
            let bytes = [&[name.len() as u8][..], name.as_bytes(), &0_u64.to_be_bytes()].concat();
            std::fs::write(&file, bytes).unwrap();
            assert!(unpack(&file, &root.join("out")).is_err(), "{name}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
