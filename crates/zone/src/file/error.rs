//! Errors and warnings of zone files: which file, which line, what.

use super::generate::GenerateError;
use crate::limits::INCLUDE_DEPTH_MAX;
use crate::text::TextError;
use core::fmt;

/// A line of one of the files of a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// Which file: an index into the list of names that goes with it.
    pub file: u16,
    /// The line, from 1 on.
    pub line: u32,
}

/// Why a zone file is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The file, as its source calls it.
    pub file: String,
    /// The line, from 1 on; 0 when no line is at fault.
    pub line: u32,
    /// What is wrong there.
    pub reason: Reason,
}

/// What can be wrong in a zone file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The text of an entry.
    Text(TextError),
    /// The file itself: it cannot be opened or read.
    Source(String),
    /// `$INCLUDE` within `$INCLUDE`, too deep.
    IncludeDeep,
    /// `$INCLUDE` of more files than can be told apart.
    IncludeMany,
    /// A directive that is not known.
    DirectiveUnknown,
    /// A record without owner, and none before it.
    OwnerMissing,
    /// A record without TTL, and nothing that says what it is.
    TtlMissing,
    /// A class other than IN.
    Class,
    /// A type that only questions and messages have (RFC 6895 3.1).
    RtypeMeta,
    /// `$GENERATE`.
    Generate(GenerateError),
    /// More records than the bound allows.
    RecordsMany,
    /// More bytes of records than the caller allows.
    BytesMany(usize),
    /// No SOA record, so no apex.
    SoaMissing,
}

/// Everything that is wrong with a zone file, in its order; never empty, and bounded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileErrors(Vec<FileError>);

impl FileErrors {
    /// Of one error at least.
    pub(super) fn new(errors: Vec<FileError>) -> Self {
        debug_assert!(!errors.is_empty());
        Self(errors)
    }

    /// The first one.
    #[must_use]
    pub fn first(&self) -> &FileError {
        &self.0[0]
    }

    /// All that were kept.
    #[must_use]
    pub fn all(&self) -> &[FileError] {
        &self.0
    }
}

/// Something odd that does no harm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// What.
    pub kind: WarningKind,
}

/// What may be odd in a zone file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WarningKind {
    /// No TTL and no `$TTL`: the SOA's MINIMUM was taken, as it was before RFC 2308.
    TtlFromSoa,
    /// No TTL and no `$TTL`: the TTL of the record before was taken (RFC 1035 5.1).
    TtlFromRecordBefore,
    /// A TTL of 2^31 or more counts as 0 (RFC 2181 8).
    TtlHigh,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reason, self.line) {
            // Without a line it is about the whole, and the reason names the file.
            (Reason::Source(reason), 0) => f.write_str(reason),
            _ => write!(f, "{}:{}: {}", self.file, self.line, self.reason),
        }
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "{}", self.first()),
            count => write!(f, "{} (and {} more)", self.first(), count - 1),
        }
    }
}

impl std::error::Error for FileErrors {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(error) => return error.fmt(f),
            Self::Source(reason) => reason,
            Self::IncludeDeep => return write!(f, "$INCLUDE more than {INCLUDE_DEPTH_MAX} deep"),
            Self::IncludeMany => "$INCLUDE of too many files",
            Self::DirectiveUnknown => "unknown directive",
            Self::OwnerMissing => "no owner, and no record before to take it from",
            Self::TtlMissing => "no TTL, and no $TTL before",
            Self::Class => "class is not IN",
            Self::RtypeMeta => "this type cannot be in a zone",
            Self::Generate(error) => return write!(f, "$GENERATE: {error}"),
            Self::RecordsMany => "more records than are allowed",
            Self::BytesMany(bytes_max) => return write!(f, "the records take more than {bytes_max} bytes of memory"),
            Self::SoaMissing => "no SOA record",
        })
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TtlFromSoa => "no TTL given; the MINIMUM of the SOA is taken",
            Self::TtlFromRecordBefore => "no TTL given; that of the record before is taken",
            Self::TtlHigh => "TTL of more than 2147483647 counts as 0",
        })
    }
}

impl From<TextError> for Reason {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

impl From<GenerateError> for Reason {
    fn from(error: GenerateError) -> Self {
        Self::Generate(error)
    }
}
