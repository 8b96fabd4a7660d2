//! Compiled name patterns: `q{n}.example.com` as bytes with positions for numbers.

use std::io::Write;
use wire::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};
use wire::name::Name;

/// The placeholder for a number in a pattern.
const NUMBER: &str = "{n}";
/// Replaces the placeholder while the name is parsed. Not allowed in patterns.
const MARK: char = '\u{1}';

/// A number in a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// In decimal.
    Counted(u64),
    /// Sixteen hexadecimal digits.
    Random(u64),
    /// `nx` and sixteen hexadecimal digits.
    Missing(u64),
}

/// Maximum length of a [`Number`].
const NUMBER_BYTES_MAX: usize = 20;

#[derive(Clone, Debug)]
pub(super) struct Template {
    labels: Vec<Label>,
}

#[derive(Clone, Debug)]
struct Label {
    /// The bytes between numbers. There is one more part than numbers.
    parts: Vec<Vec<u8>>,
}

impl Template {
    /// Parses a pattern.
    pub(super) fn new(pattern: &str, largest: u64) -> Result<Self, String> {
        if pattern.contains(MARK) {
            return Err("a pattern has no control characters".into());
        }
        let text = pattern.replace(NUMBER, "\\001");
        let name: Name = text.parse().map_err(|error| format!("{pattern} gives no name: {error}"))?;
        let mut labels = Vec::new();
        let mut rest = name.as_bytes();
        while let Some((&length, after)) = rest.split_first().filter(|(length, _)| **length > 0) {
            let (label, after) = after.split_at(usize::from(length));
            labels.push(Label { parts: label.split(|&byte| byte == MARK as u8).map(<[u8]>::to_vec).collect() });
            rest = after;
        }
        let template = Self { labels };
        let mut longest = [0u8; 1_024];
        if pattern.len() > 255 {
            return Err(format!("{pattern} gives no name: it is too long"));
        }
        for number in [Number::Counted(largest), Number::Missing(0)] {
            let length = template.write(&mut longest, number);
            let is_name = length <= NAME_BYTES_MAX && template.labels_fit(number);
            if !is_name {
                return Err(format!("{pattern} gives names that are too long (RFC 1035 2.3.4)"));
            }
        }
        Ok(template)
    }

    fn labels_fit(&self, number: Number) -> bool {
        let mut digits = [0; NUMBER_BYTES_MAX];
        let count = number.write(&mut digits);
        self.labels.iter().all(|label| {
            label.parts.iter().map(Vec::len).sum::<usize>() + count * (label.parts.len() - 1) <= LABEL_BYTES_MAX
        })
    }

    /// Writes a name. Returns its length.
    pub(super) fn write(&self, out: &mut [u8], number: Number) -> usize {
        let mut digits = [0; NUMBER_BYTES_MAX];
        let count = number.write(&mut digits);
        let mut at = 0;
        for label in &self.labels {
            let start = at;
            at += 1;
            for (index, part) in label.parts.iter().enumerate() {
                if index > 0 {
                    out[at..at + count].copy_from_slice(&digits[..count]);
                    at += count;
                }
                out[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            out[start] = (at - start - 1) as u8;
        }
        out[at] = 0;
        at + 1
    }
}

impl Number {
    fn write(self, out: &mut [u8; NUMBER_BYTES_MAX]) -> usize {
        let mut rest = out.as_mut_slice();
        // The longest number fits: 20 decimal digits.
        let _written = match self {
            Self::Counted(number) => return decimal(out, number),
            Self::Random(number) => write!(rest, "{number:016x}"),
            Self::Missing(number) => write!(rest, "nx{number:016x}"),
        };
        NUMBER_BYTES_MAX - rest.len()
    }
}

/// Avoids the formatting machinery, because this runs for every query.
fn decimal(out: &mut [u8; NUMBER_BYTES_MAX], mut number: u64) -> usize {
    let mut at = NUMBER_BYTES_MAX;
    loop {
        at -= 1;
        out[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.copy_within(at.., 0);
    NUMBER_BYTES_MAX - at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pattern: &str, number: Number) -> Vec<u8> {
        let mut out = [0; 1_024];
        let length = Template::new(pattern, 1_000).unwrap().write(&mut out, number);
        out[..length].to_vec()
    }

    #[test]
    fn a_template_writes_what_the_parser_reads() {
        for pattern in ["q{n}.example.com", "{n}.a{n}b.{n}", "plain.example.", "a\\.b{n}.x", "."] {
            for number in [0, 7, 10, 999, 1_000] {
                let text = pattern.replace(NUMBER, &number.to_string());
                let parsed: Name = text.parse().unwrap();
                assert_eq!(name(pattern, Number::Counted(number)), parsed.as_bytes(), "{text}");
            }
        }
        assert_eq!(name("{n}.a", Number::Missing(255)), b"\x12nx00000000000000ff\x01a\0");
        assert_eq!(name("{n}.a", Number::Random(u64::MAX)), b"\x10ffffffffffffffff\x01a\0");
    }

    #[test]
    fn templates_without_a_valid_name_are_refused() {
        for pattern in ["a..b", &"a".repeat(64), &format!("{}{{n}}", "a".repeat(62)), &"abcdefgh.".repeat(29)] {
            assert!(Template::new(pattern, 1_000).is_err(), "{pattern}");
        }
    }
}
