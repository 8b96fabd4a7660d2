//! Errors and warnings of zone files, with file and line.

use super::generate::GenerateError;
use crate::limits::{INCLUDE_DEPTH_MAX, INCLUDE_FILES_MAX};
use crate::text::{Fault, TextError};
use core::fmt;

/// A line in one of the files of a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct FileLine {
    /// The file: an index into the list of file names.
    pub file: u16,
    /// The line, from 1.
    pub line: u32,
}

/// Why a zone file is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The name of the file, as given by its source.
    pub file: String,
    /// The line, from 1; 0 if the error is not in a line.
    pub line: u32,
    /// The word at fault and its part of the entry.
    pub fault: Box<Fault>,
    /// The number of the `$GENERATE` step that made the record.
    pub generated: Option<i32>,
    /// The error.
    pub reason: Reason,
}

/// The errors of a zone file.
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
    /// The file begins with a byte-order mark of this encoding.
    ByteOrderMark(&'static str),
    /// An unknown directive.
    DirectiveUnknown,
    /// A record without owner as the first record.
    OwnerMissing,
    /// A record without TTL, and no default TTL.
    TtlMissing,
    /// A class other than IN.
    Class,
    /// A type that zones cannot contain (RFC 6895 3.1).
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

/// All errors of a zone file, in order; never empty, and bounded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileErrors(Vec<FileError>);

impl FileErrors {
    /// Creates it from at least one error.
    pub(super) fn new(errors: Vec<FileError>) -> Self {
        debug_assert!(!errors.is_empty());
        Self(errors)
    }

    /// The first error.
    #[must_use]
    pub fn first(&self) -> &FileError {
        &self.0[0]
    }

    /// All kept errors.
    #[must_use]
    pub fn all(&self) -> &[FileError] {
        &self.0
    }
}

/// A harmless oddity in a zone file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The line.
    pub location: FileLine,
    /// The kind.
    pub kind: WarningKind,
}

/// The warnings of a zone file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WarningKind {
    /// No TTL and no `$TTL`: the SOA's MINIMUM was used, as before RFC 2308.
    TtlFromSoa,
    /// No TTL and no `$TTL`: the TTL of the previous record was used (RFC 1035 5.1).
    TtlFromRecordBefore,
    /// A TTL of 2^31 or more counts as 0 (RFC 2181 8).
    TtlHigh,
    /// A relative name that ends with the origin: the word as written, and the resulting name.
    DotMissing(Box<(String, String)>),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.reason, self.line, self.fault.column) {
            // Without a line, the error is about the whole file, and the reason names the file.
            (Reason::Source(reason), 0, _) => return f.write_str(reason),
            (_, 0, _) => write!(f, "{}: ", self.file),
            (_, line, 0) => write!(f, "{}:{line}: ", self.file),
            (_, line, column) => write!(f, "{}:{line}:{column}: ", self.file),
        }?;
        if let Some(number) = self.generated {
            write!(f, "$GENERATE at {number}: ")?;
        }
        self.reason.write(&self.fault, self.generated, f)
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

impl Reason {
    /// Writes the reason, with the word at fault.
    fn write(&self, fault: &Fault, generated: Option<i32>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = fault.word.as_deref().unwrap_or_default();
        match self {
            Self::Text(error) => fault.write(*error, f),
            Self::Source(reason) => f.write_str(reason),
            Self::IncludeDeep => write!(f, "files include each other more than {INCLUDE_DEPTH_MAX} deep"),
            Self::IncludeMany => write!(f, "more than {INCLUDE_FILES_MAX} files are included"),
            Self::ByteOrderMark(encoding) => {
                write!(f, "the file begins with a {encoding} byte-order mark; save it as UTF-8 without byte-order mark")
            }
            Self::DirectiveUnknown => {
                write!(f, "\"{word}\" is not a directive; there are $ORIGIN, $TTL, $INCLUDE and $GENERATE")
            }
            Self::OwnerMissing => f.write_str("the record has no owner, and no record before it has one"),
            Self::TtlMissing => f.write_str("the record has no TTL, and no $TTL stands before it"),
            Self::Class => write!(f, "class \"{word}\" cannot be served; the class must be IN"),
            Self::RtypeMeta => write!(f, "a zone cannot hold records of type \"{word}\": only messages have them"),
            Self::Generate(error) => {
                if generated.is_none() {
                    f.write_str("$GENERATE: ")?;
                }
                if error.is_of_word() {
                    write!(f, "\"{word}\" ")?;
                }
                write!(f, "{error}")
            }
            Self::RecordsMany => f.write_str("the zone file has more records than are allowed"),
            Self::BytesMany(bytes_max) => write!(f, "the records take more than {bytes_max} bytes of memory"),
            Self::SoaMissing => f.write_str("the zone has no SOA record"),
        }
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TtlFromSoa => f.write_str("the record has no TTL; the MINIMUM of the SOA is used"),
            Self::TtlFromRecordBefore => f.write_str("the record has no TTL; the TTL of the record before is used"),
            Self::TtlHigh => f.write_str("a TTL above 2147483647 counts as 0"),
            Self::DotMissing(names) => {
                let (word, name) = &**names;
                write!(f, "\"{word}\" has no trailing dot and means {name}; add the dot if that is wrong")
            }
        }
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
