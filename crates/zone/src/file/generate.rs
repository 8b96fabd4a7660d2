//! `$GENERATE`: records from a template and a range, exactly as BIND 9.18 makes them.
//!
//! No RFC describes it. The oddities are BIND's: text after the range is ignored, an offset applies to all later `$`,
//! `$$` is a dollar sign, and the right-hand side is one word, which quotes hold together.

use crate::limits::{GENERATE_BYTES_MAX, GENERATE_NUMBER_BYTES_MAX, GENERATE_RECORDS_MAX, GENERATE_TEXT_MAX};
use crate::text::token::Word;
use core::fmt;

/// The errors of a `$GENERATE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GenerateError {
    /// An invalid range. It must be `START-STOP` or `START-STOP/STEP`, all below 2^31, START at most STOP, STEP not 0.
    Range,
    /// More records than the bound for all `$GENERATE` of a zone file.
    RecordsMany,
    /// More bytes of owners and rdata than the bound.
    BytesMany,
    /// An invalid `${...}`.
    Format,
    /// A number beyond 2^31 - 1.
    NumberHigh,
    /// A number or text that is too long.
    Long,
    /// A type of which a zone has only one record.
    Soa,
    /// The right-hand side is more than one word and not in quotes.
    RhsMany,
    /// The left-hand side is in quotes.
    LhsQuoted,
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Range => {
                "is not a range; write START-STOP or START-STOP/STEP with numbers up to 2147483647, START not above \
                 STOP"
            }
            Self::RecordsMany => {
                return write!(f, "all $GENERATE of a zone file make at most {GENERATE_RECORDS_MAX} records");
            }
            Self::BytesMany => {
                return write!(f, "all $GENERATE of a zone file make at most {GENERATE_BYTES_MAX} bytes of records");
            }
            Self::Format => {
                "has a bad format; write ${OFFSET}, ${OFFSET,WIDTH} or ${OFFSET,WIDTH,BASE}, BASE one of doxXnN"
            }
            Self::NumberHigh => "makes a number above 2147483647",
            Self::Long => "makes a number or a text that is too long",
            Self::Soa => "cannot be generated; a zone has one SOA",
            Self::RhsMany => "stands behind the rdata; put rdata of more than one word in quotes",
            Self::LhsQuoted => "must not be in quotes: it is the owner",
        })
    }
}

/// The range of a `$GENERATE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub next: u64,
    pub stop: u64,
    pub step: u64,
}

impl Range {
    pub(super) fn scan(text: &[u8]) -> Result<Self, GenerateError> {
        let mut text = Cursor { text, at: 0 };
        let number = |text: &mut Cursor<'_>| {
            let value = text.number().ok_or(GenerateError::Range)?;
            u32::try_from(value).ok().filter(|&v| v <= i32::MAX as u32).ok_or(GenerateError::Range)
        };
        let start = number(&mut text)?;
        text.skip(b'-').ok_or(GenerateError::Range)?;
        let stop = number(&mut text)?;
        let step = match text.skip(b'/') {
            Some(()) => number(&mut text)?,
            None => 1,
        };
        if stop < start || step == 0 {
            return Err(GenerateError::Range);
        }
        Ok(Self { next: start.into(), stop: stop.into(), step: step.into() })
    }

    /// The number of steps.
    const fn count(self) -> u64 {
        (self.stop - self.next) / self.step + 1
    }
}

/// The remaining budget for the `$GENERATE` of a zone file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    records: u64,
    bytes: usize,
}

impl Budget {
    pub(super) const fn new() -> Self {
        Self { records: GENERATE_RECORDS_MAX, bytes: GENERATE_BYTES_MAX }
    }

    /// Reserves the records of a whole range before the first one is made.
    pub(super) fn take_range(&mut self, range: Range) -> Result<(), GenerateError> {
        self.records = self.records.checked_sub(range.count()).ok_or(GenerateError::RecordsMany)?;
        Ok(())
    }

    /// Reserves the bytes of one record.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), GenerateError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(GenerateError::BytesMany)?;
        Ok(())
    }
}

impl GenerateError {
    /// Whether the budget is used up, so that reading should stop.
    pub(super) const fn is_budget(self) -> bool {
        matches!(self, Self::RecordsMany | Self::BytesMany)
    }

    /// Whether the error text starts with the word at fault.
    pub(super) const fn is_of_word(self) -> bool {
        !self.is_budget()
    }
}

impl Iterator for Range {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        let number = self.next;
        self.next += self.step;
        (number <= self.stop).then_some(number as i32)
    }
}

/// The right-hand side after BIND's lexer: in a quoted word, `\"` becomes a quote, and other escapes stay.
pub(super) fn rhs_template(word: Word<'_>) -> Vec<u8> {
    let text = word.as_bytes();
    if !word.is_quoted() || !word.is_escaped() {
        return text.to_vec();
    }
    let mut template = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b'"') => template.push(b'"'),
                Some(&escaped) => template.extend_from_slice(&[b'\\', escaped]),
                None => template.push(b'\\'),
            },
            byte => template.push(byte),
        }
    }
    template
}

/// The format of a number.
#[derive(Clone, Copy)]
enum Base {
    Decimal,
    Octal,
    Hex,
    HexUpper,
    Nibbles,
    NibblesUpper,
}

/// Clears `out`, and writes `template` for `number` to it.
pub(super) fn expand(template: &[u8], number: i32, out: &mut Vec<u8>) -> Result<(), GenerateError> {
    out.clear();
    let mut offset = 0i32;
    let mut at = 0;
    while at < template.len() {
        match (template[at], template.get(at + 1)) {
            (b'$', Some(b'$')) => {
                // A dollar sign has no meaning in a record, so it needs no escape.
                out.push(b'$');
                at += 2;
            }
            (b'$', Some(b'{')) => {
                let (width, base);
                (offset, width, base) = format(&template[at + 2..])?;
                let len = template[at..].iter().position(|&byte| byte == b'}').ok_or(GenerateError::Format)?;
                at += len + 1;
                push_number(shifted(number, offset)?, width, base, out)?;
            }
            (b'$', _) => {
                at += 1;
                push_number(shifted(number, offset)?, 0, Base::Decimal, out)?;
            }
            (b'\\', Some(&escaped)) => {
                out.extend_from_slice(&[b'\\', escaped]);
                at += 2;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
        if out.len() > GENERATE_TEXT_MAX {
            return Err(GenerateError::Long);
        }
    }
    Ok(())
}

fn shifted(number: i32, offset: i32) -> Result<i32, GenerateError> {
    number.checked_add(offset).ok_or(GenerateError::NumberHigh)
}

/// `OFFSET}`, `OFFSET,WIDTH}` or `OFFSET,WIDTH,BASE}`.
fn format(text: &[u8]) -> Result<(i32, u32, Base), GenerateError> {
    let bad = GenerateError::Format;
    let mut text = Cursor { text, at: 0 };
    let offset = text.number().and_then(|value| i32::try_from(value).ok()).ok_or(bad)?;
    if text.skip(b'}').is_some() {
        return Ok((offset, 0, Base::Decimal));
    }
    text.skip(b',').ok_or(bad)?;
    let width = text.number().and_then(|value| u32::try_from(value).ok()).ok_or(bad)?;
    if text.skip(b'}').is_some() {
        return Ok((offset, width, Base::Decimal));
    }
    text.skip(b',').ok_or(bad)?;
    let base = match text.byte() {
        Some(b'd') => Base::Decimal,
        Some(b'o') => Base::Octal,
        Some(b'x') => Base::Hex,
        Some(b'X') => Base::HexUpper,
        Some(b'n') => Base::Nibbles,
        Some(b'N') => Base::NibblesUpper,
        _ => return Err(bad),
    };
    text.at += 1;
    text.skip(b'}').ok_or(bad)?;
    Ok((offset, width, base))
}

fn push_number(number: i32, width: u32, base: Base, out: &mut Vec<u8>) -> Result<(), GenerateError> {
    let width = usize::try_from(width).ok().filter(|&w| w <= GENERATE_NUMBER_BYTES_MAX).ok_or(GenerateError::Long)?;
    let text = match base {
        Base::Decimal => format!("{number:0width$}"),
        Base::Octal => format!("{:0width$o}", number as u32),
        Base::Hex => format!("{:0width$x}", number as u32),
        Base::HexUpper => format!("{:0width$X}", number as u32),
        Base::Nibbles => nibbles(number as u32, width),
        Base::NibblesUpper => nibbles(number as u32, width).to_ascii_uppercase(),
    };
    if text.len() > GENERATE_NUMBER_BYTES_MAX {
        return Err(GenerateError::Long);
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Hexadecimal digits, the lowest first, with a dot after each but the last, until `width` bytes are filled and no
/// digit is left.
fn nibbles(mut number: u32, width: usize) -> String {
    let mut text = String::new();
    loop {
        text.extend(char::from_digit(number & 0xF, 16));
        number >>= 4;
        if number == 0 && text.len() >= width {
            return text;
        }
        text.push('.');
        if number == 0 && text.len() >= width {
            return text;
        }
    }
}

/// Parses like C's `sscanf`.
struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
}

impl Cursor<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.byte() == Some(byte)).then(|| self.at += 1)
    }

    /// White space, a sign and digits.
    fn number(&mut self) -> Option<i64> {
        while self.byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        let is_negative = self.byte() == Some(b'-');
        if matches!(self.byte(), Some(b'-' | b'+')) {
            self.at += 1;
        }
        let start = self.at;
        let mut value = 0i64;
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            value = value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
            self.at += 1;
        }
        (self.at > start).then_some(if is_negative { -value } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(template: &str, number: i32) -> Result<String, GenerateError> {
        let mut out = Vec::new();
        expand(template.as_bytes(), number, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn templates() {
        for (template, number, text) in [
            ("a$", 7, "a7"),
            ("a$$", 7, "a$"),
            ("a\\$$", 7, "a\\$7"),
            ("${1}", 7, "8"),
            ("${-8}", 7, "-1"),
            ("${+3}", 7, "10"),
            ("${0,4}", 7, "0007"),
            ("${-12,4}", 7, "-005"),
            ("${0,4,x}", 255, "00ff"),
            ("${0,0,X}", 255, "FF"),
            ("${0,4,o}", 8, "0010"),
            ("${-1,3,o}", 0, "37777777777"),
            ("${0,8,n}", 250, "a.f.0.0."),
            ("${0,7,n}", 250, "a.f.0.0"),
            ("${0,3,N}", 250, "A.F"),
            ("${0,0,n}", 16, "0.1"),
            ("${-5,6,n}", 2, "d.f.f.f.f.f.f.f"),
            // An offset applies to all later `$`.
            ("${7}:$:${0}:$", 1, "8:8:1:1"),
            ("${1}5", 1, "25"),
        ] {
            assert_eq!(expanded(template, number).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn bad_generate_templates_are_refused() {
        use GenerateError::*;
        for (template, number, error) in [
            ("${}", 0, Format),
            ("${1,2,q}", 0, Format),
            ("${0,1,d,}", 0, Format),
            ("${0,1", 0, Format),
            ("${0,128,d}", 0, Long),
            ("${1}", i32::MAX, NumberHigh),
        ] {
            assert_eq!(expanded(template, number), Err(error), "{template}");
        }
    }

    #[test]
    fn ranges() {
        let numbers = |text: &str| Range::scan(text.as_bytes()).map(|range| range.take(4).collect::<Vec<_>>());
        for (text, wanted) in [
            ("1-3", vec![1, 2, 3]),
            ("1-4/2", vec![1, 3]),
            ("01-02", vec![1, 2]),
            ("+1-+2", vec![1, 2]),
            // BIND ignores the rest.
            ("1-2x", vec![1, 2]),
            ("1-2/1z", vec![1, 2]),
            ("0-2147483647/2147483647", vec![0, i32::MAX]),
        ] {
            assert_eq!(numbers(text), Ok(wanted), "{text}");
        }
        for text in ["", "1", "2-1", "1-2/0", "1-2/", "-1-2", "0-2147483648/2147483647", "a-b"] {
            assert_eq!(numbers(text), Err(GenerateError::Range), "{text}");
        }
        assert_eq!(numbers("0-2147483647"), Ok(vec![0, 1, 2, 3]), "the budget refuses it");
    }

    #[test]
    fn generate_budget_covers_all_ranges() {
        let range = |text: &str| Range::scan(text.as_bytes()).unwrap();
        let half = format!("1-{}", GENERATE_RECORDS_MAX / 2);
        let mut budget = Budget::new();
        assert_eq!(budget.take_range(range("0-2147483647")), Err(GenerateError::RecordsMany));
        assert_eq!(budget.take_range(range(&half)), Ok(()));
        assert_eq!(budget.take_range(range("0-2147483647/2147483647")), Ok(()));
        assert_eq!(budget.take_range(range(&half)), Err(GenerateError::RecordsMany));
        assert_eq!(budget.take_bytes(GENERATE_BYTES_MAX), Ok(()));
        assert_eq!(budget.take_bytes(1), Err(GenerateError::BytesMany));
    }
}
