//! Zone files of a folder.

use crate::limits::ZONE_FILE_BYTES_MAX;
use crate::{ZoneEntry, refuse_stream};
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
///
/// The file cannot be read or is malformed. The error names file, line and reason.
pub fn read_zone(folder: &Path, entry: &ZoneEntry) -> io::Result<Loaded> {
    let path = folder.join(&entry.file);
    let file_error = |what: &dyn Display| io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    let apex: Name = entry.name.parse().map_err(|_| file_error(&format_args!("{} is not a name", entry.name)))?;
    let loaded = zone::file::load(&mut SingleFile { path: &path }, Some(&apex), &LoadOptions::default());
    // Each error names file and line.
    loaded.map_err(|errors| io::Error::new(ErrorKind::InvalidData, errors.first().to_string()))
}

/// Begins the comment that marks a made-up record, at the end of its line. The reason follows.
pub const MADE_MARK: &str = " ; made: ";

/// Writes a zone file: `head` as a comment, then one line per record. Made-up records get a mark. Missing folders are
/// made.
///
/// # Errors
///
/// The error of the system, with the path.
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
                Some(reason) => writeln!(file, "{line}{MADE_MARK}{reason}")?,
                None => writeln!(file, "{line}")?,
            }
        }
        file.flush()
    };
    write().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// A single file without includes.
struct SingleFile<'p> {
    path: &'p Path,
}

struct FileInput(File);

impl Source for SingleFile<'_> {
    fn open(&mut self, name: Option<&str>, _from: Option<&str>) -> Result<Opened, String> {
        if name.is_some() {
            return Err("$INCLUDE is not possible in a hierarchy".into());
        }
        let path = self.path.display();
        let with_path = |error: io::Error| format!("{path}: {error}");
        refuse_stream(self.path).map_err(|error| error.to_string())?;
        let file = File::open(self.path).map_err(with_path)?;
        let bytes = file.metadata().map_err(with_path)?.len();
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
