//! Why rdata is not well formed.

use super::layout::Field;
use crate::name::NameError;

/// Why rdata is not well formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdataError {
    /// It ends inside a field.
    Short,
    /// There are bytes after the last field.
    LeftOver,
    /// More than 65,535 bytes once its names are decompressed.
    Long,
    /// A malformed name, or one that is compressed where it must not be.
    Name(NameError),
    /// A value that the field does not allow.
    Value(Field),
}

impl From<NameError> for RdataError {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Short => Self::Short,
            error => Self::Name(error),
        }
    }
}
