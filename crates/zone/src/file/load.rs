//! A whole zone file.

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
/// So many bytes more than such a line a record has: the name of the zone is in no line, the TTL in few.
const RECORD_MORE_BYTES: usize = 20;

/// What a zone file says.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The owner of the zone: the origin that was given, or else the owner of the first SOA. Case kept.
    pub apex: Name,
    /// The records in the order of the file; owners absolute, case kept.
    pub records: RecordList,
    /// Where each of the records stands; none for records that came without a file.
    pub places: Vec<FileLine>,
    /// What the files are called that places are in.
    pub files: Vec<String>,
    /// What is odd; the first ones.
    pub warnings: Vec<Warning>,
    /// How many warnings there were.
    pub warning_count: usize,
}

/// Records that come as such, held to what the reading of a zone file sees to.
///
/// # Errors
/// The number of the first record that no zone file could hold.
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
    Ok(Loaded { apex, records, places: Vec::new(), files: Vec::new(), warnings: Vec::new(), warning_count: 0 })
}

/// Reads all records of a zone file. `origin` is what relative names count from until `$ORIGIN`, and the apex;
/// without it, the apex is the owner of the first SOA, and names have to be absolute until `$ORIGIN`.
///
/// # Errors
/// [`FileErrors`]: each names file, line and reason.
pub fn load(source: &mut dyn Source, origin: Option<&Name>, options: &LoadOptions) -> Result<Loaded, FileErrors> {
    let mut scanner = Scanner::new(source, origin, options).map_err(|error| FileErrors::new(vec![error]))?;
    // Room beyond what is needed is never touched; lists that grow are copied again and again.
    let bytes = scanner.bytes_left();
    let records_expected = bytes / RECORD_TEXT_BYTES;
    let mut records = RecordList::with_capacity(records_expected, bytes + records_expected * RECORD_MORE_BYTES);
    let (mut places, mut errors) = (Vec::with_capacity(records_expected), Vec::new());
    while let Some(result) = scanner.next_into(&mut records) {
        match result {
            Ok(place) if records.as_bytes().len() > options.bytes_max => {
                records = RecordList::new();
                errors.push(scanner.error(place, Reason::BytesMany(options.bytes_max)));
                break;
            }
            Ok(place) if errors.is_empty() => places.push(place),
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
    Ok(Loaded { apex, records, places, files, warnings, warning_count })
}
