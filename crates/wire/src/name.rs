//! Domain names in uncompressed wire form (RFC 1035 3.1).
//!
//! [`NameRef`] borrows checked bytes; [`Name`] owns them. Case is kept. Comparison, hashing and order ignore case; the
//! order is canonical (RFC 4034 6.1).

use crate::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};
use crate::words::lower_words;
use core::{cmp::Ordering, fmt, hash};

/// Why bytes are not a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// The bytes end before the root label.
    Short,
    /// A label of more than 63 bytes, or of an unused type.
    Label,
    /// More than 255 bytes.
    Long,
    /// A compression pointer that is not allowed here, or points forward.
    Pointer,
    /// Text: an empty label or a bad escape.
    Text,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "it ends too early",
            Self::Label => "it has a label of more than 63 bytes",
            Self::Long => "it is longer than 255 bytes",
            Self::Pointer => "it has a compression pointer",
            Self::Text => "it has an empty label or a bad escape",
        })
    }
}

impl core::error::Error for NameError {}

/// A name in uncompressed wire form, borrowed.
#[derive(Clone, Copy)]
pub struct NameRef<'a>(&'a [u8]);

impl<'a> NameRef<'a> {
    /// The root.
    pub const ROOT: NameRef<'static> = NameRef(&[0]);

    /// Takes bytes that were checked before, for example by [`NameRef::split_from`], without another check. With many
    /// names in one block, checking labels again would be most of the work. For other bytes, results are unspecified.
    #[must_use]
    pub const fn from_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Checks that `bytes` are exactly one uncompressed name.
    ///
    /// # Errors
    /// [`NameError`] with the problem.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, NameError> {
        let (name, rest) = Self::split_from(bytes)?;
        if rest.is_empty() { Ok(name) } else { Err(NameError::Long) }
    }

    /// Splits one uncompressed name from the start of `bytes`.
    ///
    /// # Errors
    /// [`NameError`] when there is none.
    pub fn split_from(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), NameError> {
        let mut at = 0;
        loop {
            let len = *bytes.get(at).ok_or(NameError::Short)? as usize;
            if len > LABEL_BYTES_MAX {
                return Err(if len >= 0xC0 { NameError::Pointer } else { NameError::Label });
            }
            at += 1 + len;
            if at > NAME_BYTES_MAX {
                return Err(NameError::Long);
            }
            if len == 0 {
                return Ok((NameRef(&bytes[..at]), &bytes[at..]));
            }
        }
    }

    /// The wire form, root label included.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The bytes as words in lower case, for a hash. Equal names have equal words, and different names of the same
    /// length have different words. The last word may overlap the one before it.
    pub fn lower_words(self) -> impl Iterator<Item = u64> + use<'a> {
        lower_words(self.0)
    }

    /// Labels from left to right, without the root label.
    #[must_use]
    pub const fn labels(self) -> Labels<'a> {
        Labels(self.0)
    }

    /// Number of labels, without the root label.
    #[must_use]
    pub fn label_count(self) -> usize {
        self.labels().count()
    }

    /// Whether this is the root.
    #[must_use]
    pub const fn is_root(self) -> bool {
        self.0.len() == 1
    }

    /// The name without its leftmost label; `None` at the root.
    #[must_use]
    pub fn parent(self) -> Option<NameRef<'a>> {
        if self.is_root() { None } else { Some(NameRef(&self.0[1 + self.0[0] as usize..])) }
    }

    /// The name without its leftmost `count` labels; `None` when it has fewer.
    #[must_use]
    pub fn strip(self, count: usize) -> Option<NameRef<'a>> {
        let mut name = self;
        for _ in 0..count {
            name = name.parent()?;
        }
        Some(name)
    }

    /// Whether the name is `ancestor` or below it.
    #[must_use]
    pub fn is_at_or_below(self, ancestor: NameRef<'_>) -> bool {
        let mut name = self;
        while name.0.len() > ancestor.0.len() {
            match name.parent() {
                Some(parent) => name = parent,
                None => return false,
            }
        }
        name == ancestor
    }

    /// Whether the leftmost label is the asterisk label (RFC 4592 2.1.1).
    #[must_use]
    pub fn is_wildcard(self) -> bool {
        self.0.starts_with(b"\x01*")
    }

    /// An owned copy, case kept.
    #[must_use]
    pub fn to_name(self) -> Name {
        Name(self.0.into())
    }

    /// An owned copy in lower case, the canonical form of an owner (RFC 4034 6.2).
    #[must_use]
    pub fn to_canonical(self) -> Name {
        Name(self.0.to_ascii_lowercase().into())
    }
}

/// Iterator over labels; made by [`NameRef::labels`].
#[derive(Clone)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&len, rest) = self.0.split_first()?;
        if len == 0 {
            return None;
        }
        let (label, rest) = rest.split_at(len as usize);
        self.0 = rest;
        Some(label)
    }
}

// Length bytes are no letters, so whole wire forms can be compared without case.
impl PartialEq for NameRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        // Most equal names are equal in case too, and that comparison is faster.
        self.0 == other.0 || self.0.eq_ignore_ascii_case(other.0)
    }
}
impl Eq for NameRef<'_> {}

impl PartialOrd for NameRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NameRef<'_> {
    /// Canonical order (RFC 4034 6.1): rightmost label first, as lower-case bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        let lower_cmp =
            |a: &[u8], b: &[u8]| a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase));
        // A fast path for names with the same parent, which are most neighbors in a sorted zone.
        if let (Some((a, a_parent)), Some((b, b_parent))) = (split_label(self.0), split_label(other.0))
            && a_parent == b_parent
        {
            return lower_cmp(a, b);
        }
        let starts = |bytes: &[u8]| {
            let mut at = [0u8; crate::limits::NAME_LABELS_MAX];
            let (mut count, mut next) = (0, 0);
            while bytes[next] != 0 {
                at[count] = next as u8;
                count += 1;
                next += 1 + bytes[next] as usize;
            }
            (at, count)
        };
        let ((own_starts, own_count), (other_starts, other_count)) = (starts(self.0), starts(other.0));
        let label = |bytes: &[u8], start: u8| {
            let start = start as usize;
            start + 1..start + 1 + bytes[start] as usize
        };
        for back in 1..=own_count.min(other_count) {
            let a = &self.0[label(self.0, own_starts[own_count - back])];
            let b = &other.0[label(other.0, other_starts[other_count - back])];
            let order = lower_cmp(a, b);
            if order != Ordering::Equal {
                return order;
            }
        }
        own_count.cmp(&other_count)
    }
}

/// The first label of a checked name, and the rest; `None` for the root.
fn split_label(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    if len == 0 { None } else { rest.split_at_checked(usize::from(len)) }
}

impl hash::Hash for NameRef<'_> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        for byte in self.0 {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

impl fmt::Display for NameRef<'_> {
    /// Presentation format, absolute, escaped by RFC 1035 5.1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for label in self.labels() {
            for &byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => write!(f, "\\{}", byte as char)?,
                    0x21..=0x7E => write!(f, "{}", byte as char)?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A name in uncompressed wire form, owned.
#[derive(Clone)]
pub struct Name(Box<[u8]>);

impl Name {
    /// The root.
    #[must_use]
    pub fn root() -> Self {
        NameRef::ROOT.to_name()
    }

    /// The name, borrowed.
    #[must_use]
    pub const fn as_ref(&self) -> NameRef<'_> {
        NameRef(&self.0)
    }

    /// The wire form, root label included.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}
impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl hash::Hash for Name {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl core::str::FromStr for Name {
    type Err = NameError;

    /// Reads presentation format (RFC 1035 5.1). A name without a final dot is also absolute.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.as_bytes();
        if text == b"." {
            return Ok(Self::root());
        }
        let mut bytes = vec![0u8];
        let (mut start, mut at) = (0, 0);
        while at < text.len() {
            let byte = match text[at] {
                b'.' => {
                    close_label(&mut bytes, start)?;
                    start = bytes.len();
                    bytes.push(0);
                    at += 1;
                    continue;
                }
                b'\\' if text.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                    let digits = text.get(at + 1..at + 4).ok_or(NameError::Text)?;
                    let value = digits.iter().try_fold(0u32, |value, &digit| {
                        digit.is_ascii_digit().then(|| value * 10 + u32::from(digit - b'0'))
                    });
                    at += 4;
                    value.and_then(|value| u8::try_from(value).ok()).ok_or(NameError::Text)?
                }
                b'\\' => {
                    at += 2;
                    *text.get(at - 1).ok_or(NameError::Text)?
                }
                byte => {
                    at += 1;
                    byte
                }
            };
            bytes.push(byte);
        }
        if bytes.len() > start + 1 {
            close_label(&mut bytes, start)?;
            bytes.push(0);
        } else if start == 0 {
            return Err(NameError::Text);
        }
        if bytes.len() > NAME_BYTES_MAX { Err(NameError::Long) } else { Ok(Self(bytes.into())) }
    }
}

/// Writes the length of the label whose length byte is at `start`.
fn close_label(bytes: &mut [u8], start: usize) -> Result<(), NameError> {
    match bytes.len() - start - 1 {
        0 => Err(NameError::Text),
        len @ 1..=LABEL_BYTES_MAX => {
            bytes[start] = len as u8;
            Ok(())
        }
        _ => Err(NameError::Label),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn text_round_trips() {
        for text in [".", "example.test.", "a\\.b.c.", "\\000\\255.x."] {
            assert_eq!(name(text).to_string(), text);
        }
        assert_eq!(name("www.example").to_string(), "www.example.");
        for bad in ["", "..", "a..b", ".a", "\\256.", "\\25", "a\\"] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn canonical_order_is_that_of_rfc_4034_6_1() {
        let sorted = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "Z.a.example",
            "zABC.a.EXAMPLE",
            "z.example",
            "\\001.z.example",
            "*.z.example",
            "\\200.z.example",
        ];
        assert!(sorted.windows(2).all(|pair| name(pair[0]) < name(pair[1])));
    }

    #[test]
    fn ancestry_ignores_case() {
        assert!(name("a.B.test").as_ref().is_at_or_below(name("b.TEST").as_ref()));
        assert!(!name("ab.test").as_ref().is_at_or_below(name("b.test").as_ref()));
        assert!(name("x").as_ref().is_at_or_below(NameRef::ROOT));
    }
}
