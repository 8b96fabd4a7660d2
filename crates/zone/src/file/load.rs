//! A whole zone file.

use super::error::{FileErrors, Place, Reason, Warning};
use super::scanner::{LoadOptions, Scanner};
use super::source::Source;
use crate::limits::FILE_ERRORS_MAX;
use crate::record::Record;
use wire::name::Name;
use wire::number::Rtype;

/// What a zone file says.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The owner of the zone: the origin that was given, or else the owner of the first SOA. Case kept.
    pub apex: Name,
    /// The records in the order of the file; owners absolute, case kept.
    pub records: Vec<Record>,
    /// Where each of the records stands.
    pub places: Vec<Place>,
    /// What the files are called that places are in.
    pub files: Vec<String>,
    /// What is odd; the first ones.
    pub warnings: Vec<Warning>,
    /// How many warnings there were.
    pub warning_count: usize,
}

/// Reads all records of a zone file. `origin` is what relative names count from until `$ORIGIN`, and the apex;
/// without it, the apex is the owner of the first SOA, and names have to be absolute until `$ORIGIN`.
///
/// # Errors
/// [`FileErrors`]: each names file, line and reason.
pub fn load(source: &mut dyn Source, origin: Option<&Name>, options: &LoadOptions) -> Result<Loaded, FileErrors> {
    let mut scanner = Scanner::new(source, origin, options).map_err(|error| FileErrors::new(vec![error]))?;
    let (mut records, mut places, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(result) = scanner.next_record() {
        match result {
            Ok(scanned) if errors.is_empty() => {
                records.push(scanned.record);
                places.push(scanned.place);
            }
            Ok(_) => {}
            Err(error) => {
                records = Vec::new();
                errors.push(error);
                if errors.len() == FILE_ERRORS_MAX {
                    break;
                }
            }
        }
    }
    let soa = records.iter().find(|record| record.rtype == Rtype::SOA);
    let Some(apex) = origin.or(soa.map(|record| &record.owner)).cloned() else {
        if errors.is_empty() {
            errors.push(scanner.error(Place::default(), Reason::SoaMissing));
        }
        return Err(FileErrors::new(errors));
    };
    if !errors.is_empty() {
        return Err(FileErrors::new(errors));
    }
    let (files, warnings, warning_count) = scanner.into_parts();
    Ok(Loaded { apex, records, places, files, warnings, warning_count })
}
