//! Where the files are, and what they are packed in.

use catamaran_zone::file::{FileErrors, LoadOptions, Loaded, Slice, load};
use catamaran_zone::record::Record;
use lzma_rust2::XzReader;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The data folder; says so when there is none.
pub(crate) fn data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("CATAMARAN_DATA").map_or(beside, PathBuf::from).join("zones");
    if !folder.is_dir() {
        skip::data("the data folder; set CATAMARAN_DATA");
        return None;
    }
    Some(folder)
}

/// The bytes of a file, unpacked if it ends with `.xz`.
pub(crate) fn read(folder: &Path, name: &str) -> Vec<u8> {
    let bytes = std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    if !name.ends_with(".xz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    let read = XzReader::new(&bytes[..], true).read_to_end(&mut unpacked);
    read.unwrap_or_else(|error| panic!("{name}: {error}"));
    unpacked
}

/// The files of an archive by name, `./` left out.
pub(crate) fn read_tar(folder: &Path, name: &str) -> BTreeMap<String, Vec<u8>> {
    let bytes = read(folder, name);
    let (mut files, mut at) = (BTreeMap::new(), 0);
    while let Some(header) = bytes.get(at..at + 512).filter(|header| header[0] != 0) {
        let text = |from: usize, to: usize| {
            let field = &header[from..to];
            let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
            String::from_utf8(field[..end].to_vec()).expect("a tar header is ASCII")
        };
        let size = usize::from_str_radix(text(124, 136).trim(), 8).expect("an octal size");
        if matches!(header[156], b'0' | 0) {
            let name = text(0, 100);
            files.insert(name.trim_start_matches("./").to_owned(), bytes[at + 512..at + 512 + size].to_vec());
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    assert!(!files.is_empty(), "{name} holds files");
    files
}

/// Scans a zone in memory.
pub(crate) fn scan(bytes: &[u8], origin: Option<&str>) -> Result<Loaded, FileErrors> {
    let origin = origin.map(|origin| origin.parse().expect("a name"));
    load(&mut Slice::new(bytes.to_vec()), origin.as_ref(), &LoadOptions::default())
}

/// The records of a zone that scans.
pub(crate) fn records(bytes: &[u8], origin: Option<&str>) -> Vec<Record> {
    scan(bytes, origin).unwrap_or_else(|errors| panic!("{errors}")).records.to_records()
}

/// Hexadecimal to bytes.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).expect("ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}
