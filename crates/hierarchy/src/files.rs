//! Zone files of a folder, as bytes on disk.

use crate::ZoneEntry;
use crate::limits::ZONE_FILE_BYTES_MAX;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read as _, Write as _};
use std::path::Path;
use wire::name::Name;
use zone::file::{Input, LoadOptions, Loaded, Opened, Source};
use zone::{Record, text};

/// Reads the zone file of an entry.
///
/// # Errors
/// It cannot be read, or is none: which file, which line, and what is wrong.
pub fn read_zone(folder: &Path, entry: &ZoneEntry) -> io::Result<Loaded> {
    let path = folder.join(&entry.file);
    let wrong = |what: &dyn Display| io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    let apex: Name = entry.name.parse().map_err(|_| wrong(&format_args!("{} is no name", entry.name)))?;
    let loaded = zone::file::load(&mut Disk { path: &path }, Some(&apex), &LoadOptions::default());
    // Each error names file and line.
    loaded.map_err(|errors| io::Error::new(ErrorKind::InvalidData, errors.first().to_string()))
}

/// Refuses what cannot be read a second time, before it is opened, which would wait for whoever writes to it: a pipe, a
/// socket, a device, and `-`, which is standard input. Of what is not there, and of folders, whoever opens them tells.
///
/// # Errors
/// It is one of these: which, and what to do instead.
pub fn refuse_stream(path: &Path) -> io::Result<()> {
    let is_stream = || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if path.as_os_str() != "-" && !is_stream() {
        return Ok(());
    }
    let path = path.display();
    let what = format!("{path}: it is read more than once, so it cannot come from a pipe; write it to a file first");
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

/// What a line of a zone file ends with, before the reason, when its record was made up: a comment for every server.
pub const MADE_MARK: &str = " ; made: ";

/// Writes a zone file: `head` as a comment, then a line for each record, marked if there is a reason why it was made
/// up. Folders above it are made.
///
/// # Errors
/// The system's, with the path.
pub fn write_zone<'r>(
    path: &Path,
    head: &str,
    records: impl IntoIterator<Item = (&'r Record, Option<&'r str>)>,
) -> io::Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(file, "; {head}")?;
        let mut line = String::new();
        for (record, made) in records {
            line.clear();
            text::print_record(record, &mut line);
            match made {
                Some(why) => writeln!(file, "{line}{MADE_MARK}{why}")?,
                None => writeln!(file, "{line}")?,
            }
        }
        file.flush()
    };
    write().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// One file, which includes no other.
struct Disk<'p> {
    path: &'p Path,
}

struct FileInput(File);

impl Source for Disk<'_> {
    fn open(&mut self, name: Option<&str>, _from: Option<&str>) -> Result<Opened, String> {
        if name.is_some() {
            return Err("$INCLUDE is not possible in a hierarchy".into());
        }
        let path = self.path.display();
        let said = |error: io::Error| format!("{path}: {error}");
        refuse_stream(self.path).map_err(|error| error.to_string())?;
        let file = File::open(self.path).map_err(said)?;
        let bytes = file.metadata().map_err(said)?.len();
        if bytes > ZONE_FILE_BYTES_MAX {
            return Err(format!("{path}: {bytes} bytes; {ZONE_FILE_BYTES_MAX} are allowed"));
        }
        Ok(Opened { name: path.to_string(), input: Box::new(FileInput(file)) })
    }
}

impl Input for FileInput {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        self.0.read(buffer).map_err(|error| error.to_string())
    }
}
