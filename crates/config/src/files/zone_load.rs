//! Loads zone files, with `$INCLUDE` from disk and errors as `file:line: reason`.

use super::decompress::{Budget, ZoneReader};
use super::zone_source::ZoneArgument;
use crate::limits::API_ZONE_BYTES_MAX;
use process::problem::{Exit, Problem};
use std::path::{Path, PathBuf};
use wire::Name;
use zone::file::{FileErrors, LoadOptions, Loaded, Opened, Reason, Slice, Source};
use zone::text::TextError;
use zone::{RecordList, RecordRef};

/// The zone of a new cluster without `--zone`.
pub const EXAMPLE_TEST: &str = include_str!("example.test.zone");

/// A zone that can be served.
#[derive(Clone, Debug)]
pub struct LoadedZone {
    /// Name of the zone.
    pub apex: Name,
    /// Its serial.
    pub serial: u32,
    /// Its records.
    pub records: RecordList,
    /// Warnings, each as `file:line: text`.
    pub warnings: Vec<String>,
}

impl LoadedZone {
    /// The records in presentation format, one per line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for record in self.records.iter() {
            print_line(record, &mut text);
        }
        text
    }
}

/// Appends a record and a newline.
pub fn print_line(record: RecordRef<'_>, out: &mut String) {
    zone::text::print_record(record, out);
    out.push('\n');
}

/// Reads a file from disk.
pub fn load(argument: &ZoneArgument) -> Result<LoadedZone, Problem> {
    let mut source = Disk { file: argument.file.clone(), budget: Budget::default() };
    let loaded = zone::file::load(&mut source, argument.origin.as_ref(), &options());
    finish(loaded, &argument.file.display().to_string())
}

/// Loads records in the binary form in which commands send them.
pub fn load_records(bytes: Vec<u8>) -> Result<LoadedZone, Problem> {
    let wrong = |why: String| Problem::new(Exit::Input, "cannot serve the records", why);
    let records = RecordList::from_bytes(bytes).ok_or_else(|| wrong("they are truncated".into()))?;
    let loaded = zone::file::from_records(records)
        .map_err(|index| wrong(format!("record {} is invalid in a zone file, or there is no SOA", index + 1)))?;
    check(loaded, "records")
}

/// Loads a zone file from memory, without `$INCLUDE`.
pub fn load_text(text: &str, name: &str) -> Result<LoadedZone, Problem> {
    let mut source = Named { name: name.to_owned(), bytes: text.as_bytes().to_vec() };
    finish(zone::file::load(&mut source, None, &options()), name)
}

/// The size limit of a zone is the same as in the API.
fn options() -> LoadOptions {
    LoadOptions { bytes_max: API_ZONE_BYTES_MAX, ..LoadOptions::default() }
}

fn finish(loaded: Result<Loaded, FileErrors>, file: &str) -> Result<LoadedZone, Problem> {
    let loaded = loaded.map_err(|errors| {
        let problem = refused(file, errors.all().iter().map(ToString::to_string));
        // Such a file is valid if its origin is given elsewhere, as in named.conf.
        match errors.first().reason {
            Reason::Text(TextError::OriginMissing) => problem.hint(format!("give its origin: `ORIGIN={file}`")),
            Reason::Source(_) => {
                problem.hint("check the path, the permissions and the $INCLUDE lines of the zone file")
            }
            _ => problem,
        }
    })?;
    check(loaded, file)
}

fn check(mut loaded: Loaded, file: &str) -> Result<LoadedZone, Problem> {
    let files = std::mem::take(&mut loaded.files);
    let location = |location: Option<zone::file::FileLine>| match location {
        Some(location) => {
            format!("{}:{}", files.get(usize::from(location.file)).map_or(file, String::as_str), location.line)
        }
        None => file.to_owned(),
    };
    let mut warnings: Vec<String> = loaded
        .warnings
        .iter()
        .map(|warning| format!("{}: {}", location(Some(warning.location)), warning.kind))
        .collect();
    let checked = zone::check::check(loaded).map_err(|findings| {
        refused(file, findings.errors().iter().map(|found| format!("{}: {found}", location(found.location))))
    })?;
    warnings.extend(checked.findings.warnings().iter().map(|found| format!("{}: {found}", location(found.location))));
    let soa =
        checked.records.iter().find(|record| record.rtype == wire::Rtype::SOA && record.owner == checked.apex.as_ref());
    let serial = soa.and_then(|soa| serial_of(soa.rdata)).unwrap_or(0);
    Ok(LoadedZone { apex: checked.apex.as_ref().to_canonical(), serial, records: checked.records, warnings })
}

/// An error with one line for each finding.
fn refused(file: &str, lines: impl Iterator<Item = String>) -> Problem {
    let lines: Vec<String> = lines.collect();
    Problem::new(Exit::Input, "cannot serve the zone file", lines.join("\n         "))
        .at(file)
        .hint("correct these lines; `catamaran zone check FILE` checks a file without a cluster")
}

/// The serial in the rdata of an SOA: it follows two names.
fn serial_of(rdata: &[u8]) -> Option<u32> {
    let (_, rest) = wire::NameRef::split_from(rdata).ok()?;
    let (_, rest) = wire::NameRef::split_from(rest).ok()?;
    Some(u32::from_be_bytes(rest.get(..4)?.try_into().ok()?))
}

/// Files on disk, compressed or not. A relative `$INCLUDE` starts at the directory of the including file.
struct Disk {
    file: PathBuf,
    budget: Budget,
}

impl Source for Disk {
    fn open(&mut self, name: Option<&str>, from: Option<&str>) -> Result<Opened, String> {
        let path = match name {
            None => self.file.clone(),
            Some(name) => {
                from.and_then(|from| Path::new(from).parent()).map_or_else(|| PathBuf::from(name), |dir| dir.join(name))
            }
        };
        let input = ZoneReader::open(&path, &self.budget)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Opened { name: path.display().to_string(), input: Box::new(input) })
    }
}

/// One text in memory.
struct Named {
    name: String,
    bytes: Vec<u8>,
}

impl Source for Named {
    fn open(&mut self, name: Option<&str>, _from: Option<&str>) -> Result<Opened, String> {
        match name {
            None => {
                Ok(Opened { name: self.name.clone(), input: Box::new(Slice::new(std::mem::take(&mut self.bytes))) })
            }
            Some(_) => Err("$INCLUDE is not supported here".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_zone_loads_and_prints() {
        let zone = load_text(EXAMPLE_TEST, "built-in").unwrap();
        assert_eq!((zone.apex.to_string().as_str(), zone.serial), ("example.test.", 1));
        assert!(zone.warnings.is_empty());
        let again = load_text(&zone.text(), "printed").unwrap();
        assert_eq!(again.text(), zone.text());
        assert_eq!(again.records.len(), zone.records.len());
    }

    #[test]
    fn truncated_records_are_refused() {
        let zone = load_text(EXAMPLE_TEST, "built-in").unwrap();
        let bytes = zone.records.as_bytes();
        assert_eq!(load_records(bytes.to_vec()).unwrap().text(), zone.text());
        let mut end = 0;
        for index in 0..zone.records.len() {
            for len in end + 1..end + zone.records.bytes_of(index) {
                assert!(load_records(bytes[..len].to_vec()).unwrap_err().why.contains("truncated"), "{len}");
            }
            end += zone.records.bytes_of(index);
        }
        assert!(load_records(Vec::new()).unwrap_err().why.contains("no SOA"));
    }

    #[test]
    fn errors_name_file_and_line_in_included_files_too() {
        let dir = process::testing::test_dir("zone-load");
        let file = dir.path().join("db");
        std::fs::write(&file, "$TTL 60\n@ IN SOA a b 1 2 3 4 5\n$INCLUDE more\n").unwrap();
        std::fs::write(dir.path().join("more"), "a IN A 192.0.2.1\nb IN A 192.0.2.256\n").unwrap();
        let argument = ZoneArgument { origin: Some("example.org".parse().unwrap()), file: file.clone() };
        let problem = load(&argument).unwrap_err();
        assert_eq!(problem.exit, Exit::Input);
        assert!(problem.why.contains(&format!("{}/more:2:8: A address: ", dir.path().display())), "{problem}");
        std::fs::write(dir.path().join("more"), "a IN A 192.0.2.1\n").unwrap();
        assert_eq!(load(&argument).unwrap().records.len(), 2);
        std::fs::remove_file(dir.path().join("more")).unwrap();
        assert!(load(&argument).unwrap_err().why.contains("db:3:10: cannot read "));
    }
}
