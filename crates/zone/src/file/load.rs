//! Loads a whole zone file.

use super::error::{FileErrors, FileLine, Reason, Warning};
use super::scanner::{LoadOptions, Scanner};
use super::source::Source;
use crate::limits::{FILE_ERRORS_MAX, TTL_MAX};
use crate::record::{RecordList, RecordRef};
use wire::name::Name;
use wire::number::Rtype;
use wire::rdata::{layout, rdata_check};

/// Bytes of a short line of a zone file: a label, a type and an address.
const RECORD_TEXT_BYTES: usize = 20;
/// Bytes that a record has in addition to such a line: lines do not repeat the name of the zone, and few have a TTL.
const RECORD_MORE_BYTES: usize = 20;

/// The contents of a zone file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The owner of the zone: the given origin, or else the owner of the first SOA. Case is kept.
    pub apex: Name,
    /// The records in file order. Owners are absolute, with case kept.
    pub records: RecordList,
    /// The position of each record; empty for records without a file.
    pub locations: Vec<FileLine>,
    /// The names of the files in positions.
    pub files: Vec<String>,
    /// The first warnings.
    pub warnings: Vec<Warning>,
    /// Number of all warnings.
    pub warning_count: usize,
}

/// Accepts records without a file, with the same checks as for records in a zone file.
///
/// # Errors
/// The number of the first record that a zone file could not contain.
pub fn from_records(records: RecordList) -> Result<Loaded, usize> {
    let could_be_read = |record: RecordRef<'_>| {
        let RecordRef { rtype, ttl, rdata, .. } = record;
        !rtype.is_meta() && ttl <= TTL_MAX && (layout(rtype).is_none() || rdata_check(rtype, rdata).is_ok())
    };
    if let Some(index) = records.iter().position(|record| !could_be_read(record)) {
        return Err(index);
    }
    let soa = records.iter().find(|record| record.rtype == Rtype::SOA);
    let apex = soa.map(|record| record.owner.to_name()).ok_or(records.len())?;
    Ok(Loaded { apex, records, locations: Vec::new(), files: Vec::new(), warnings: Vec::new(), warning_count: 0 })
}

/// Reads all records of a zone file. `origin` is the apex, and the origin of relative names until a `$ORIGIN`. Without
/// it, the apex is the owner of the first SOA, and names must be absolute until a `$ORIGIN`.
///
/// # Errors
/// [`FileErrors`] with file, line and reason.
pub fn load(source: &mut dyn Source, origin: Option<&Name>, options: &LoadOptions) -> Result<Loaded, FileErrors> {
    let mut scanner = Scanner::new(source, origin, options).map_err(|error| FileErrors::new(vec![error]))?;
    // Unused room is never touched, so it costs nothing. A growing list would be copied repeatedly.
    let bytes = scanner.bytes_left();
    let records_expected = bytes / RECORD_TEXT_BYTES;
    let mut records = RecordList::with_capacity(records_expected, bytes + records_expected * RECORD_MORE_BYTES);
    let (mut locations, mut errors) = (Vec::with_capacity(records_expected), Vec::new());
    while let Some(result) = scanner.next_into(&mut records) {
        match result {
            Ok(location) if records.as_bytes().len() > options.bytes_max => {
                records = RecordList::new();
                errors.push(scanner.error(location, Reason::BytesMany(options.bytes_max)));
                break;
            }
            Ok(location) if errors.is_empty() => locations.push(location),
            Ok(_) => records = RecordList::new(),
            Err(error) => {
                records = RecordList::new();
                errors.push(error);
                if errors.len() == FILE_ERRORS_MAX {
                    break;
                }
            }
        }
    }
    let soa = records.iter().find(|record| record.rtype == Rtype::SOA);
    let Some(apex) = origin.cloned().or(soa.map(|record| record.owner.to_name())) else {
        if errors.is_empty() {
            errors.push(scanner.error(FileLine::default(), Reason::SoaMissing));
        }
        return Err(FileErrors::new(errors));
    };
    if !errors.is_empty() {
        return Err(FileErrors::new(errors));
    }
    let (files, warnings, warning_count) = scanner.into_parts();
    Ok(Loaded { apex, records, locations, files, warnings, warning_count })
}
