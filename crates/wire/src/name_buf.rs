//! A name on the stack, and reading names from a message.

use crate::limits::{HEADER_BYTES, LABEL_BYTES_MAX, NAME_BYTES_MAX, NAME_STEPS_MAX, POINTERS_PER_NAME_MAX};
use crate::name::{Name, NameError, NameRef};
use core::fmt;

/// A name in uncompressed wire form on the stack. Case is kept.
#[derive(Clone)]
pub struct NameBuf {
    len: u8,
    bytes: [u8; NAME_BYTES_MAX],
}

impl NameBuf {
    /// The root.
    #[must_use]
    pub const fn root() -> Self {
        Self { len: 1, bytes: [0; NAME_BYTES_MAX] }
    }

    /// Reads the name at `at`, following compression pointers. Returns it and the end of its bytes at `at`.
    ///
    /// # Errors
    /// [`NameError`] with the problem.
    pub fn read(message: &[u8], at: usize) -> Result<(Self, usize), NameError> {
        let mut name = Self::root();
        let end = read_name(message, at, &mut Steps::new(), &mut name)?;
        Ok((name, end))
    }

    /// The name, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef::from_checked(self.as_bytes())
    }

    /// The wire form, root label included.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// An owned copy, case kept.
    #[must_use]
    pub fn to_name(&self) -> Name {
        self.as_ref().to_name()
    }
}

impl From<NameRef<'_>> for NameBuf {
    fn from(name: NameRef<'_>) -> Self {
        let mut buf = Self::root();
        buf.bytes[..name.as_bytes().len()].copy_from_slice(name.as_bytes());
        buf.len = name.as_bytes().len() as u8;
        buf
    }
}

impl PartialEq for NameBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}
impl Eq for NameBuf {}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// The remaining budget of work for the names of one message.
pub(crate) struct Steps(u32);

impl Steps {
    /// The whole budget of a message.
    pub(crate) const fn new() -> Self {
        Self(NAME_STEPS_MAX)
    }

    fn take(&mut self) -> Result<(), NameError> {
        self.0 = self.0.checked_sub(1).ok_or(NameError::Pointer)?;
        Ok(())
    }
}

/// Reads the name at `at` into `out` and returns the end of its bytes at `at`.
///
/// A pointer must point before the labels that it follows, so every step goes back and no loop is possible (RFC 1035
/// 4.1.4 "prior occurrence", RFC 9267 2). It must not point into the header.
pub(crate) fn read_name(message: &[u8], at: usize, steps: &mut Steps, out: &mut NameBuf) -> Result<usize, NameError> {
    let (mut pos, mut run_start, mut end) = (at, at, None);
    let (mut len, mut pointers) = (0, 0);
    loop {
        steps.take()?;
        let byte = *message.get(pos).ok_or(NameError::Short)? as usize;
        match byte {
            0 => {
                out.bytes[len] = 0;
                out.len = len as u8 + 1;
                return Ok(end.unwrap_or(pos + 1));
            }
            1..=LABEL_BYTES_MAX => {
                let label = message.get(pos..=pos + byte).ok_or(NameError::Short)?;
                // The root label must still fit (RFC 1035 2.3.4, RFC 9267 3).
                if len + label.len() >= NAME_BYTES_MAX {
                    return Err(NameError::Long);
                }
                out.bytes[len..len + label.len()].copy_from_slice(label);
                len += label.len();
                pos += label.len();
            }
            0xC0.. => {
                let low = *message.get(pos + 1).ok_or(NameError::Short)? as usize;
                let target = (byte & 0x3F) << 8 | low;
                pointers += 1;
                if target >= run_start || target < HEADER_BYTES || pointers > POINTERS_PER_NAME_MAX {
                    return Err(NameError::Pointer);
                }
                end.get_or_insert(pos + 2);
                (pos, run_start) = (target, target);
            }
            // 01 was for extended labels, which were withdrawn; 10 was never used (RFC 6891 5).
            _ => return Err(NameError::Label),
        }
    }
}
