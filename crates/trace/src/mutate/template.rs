//! Templates for names of queries, with placeholders for the number of the query and for its old name.

use wire::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};
use wire::{Name, NameRef};

/// Bytes that replace the placeholders while the template is parsed as a name. Templates must not contain them.
const NUMBER: u8 = 1;
const NAME: u8 = 2;

/// A template: `{n}` is the number of the query in the trace, from 0. `{name}` is the old name, as labels of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// A label: the bytes around the numbers.
    Label(Vec<Vec<u8>>),
    /// The old name.
    Name,
}

impl std::str::FromStr for Template {
    /// The error in the template.
    type Err = &'static str;

    fn from_str(pattern: &str) -> Result<Self, &'static str> {
        let is_control = |at: char| at.is_ascii_control();
        if pattern.contains(is_control) || pattern.contains("\\001") || pattern.contains("\\002") {
            return Err("a pattern cannot have control characters");
        }
        let text = pattern.replace("{name}", "\u{2}").replace("{n}", "\u{1}");
        let name: Name = text.parse().map_err(|_| "the pattern does not give a name")?;
        let part = |label: &[u8]| {
            if label == [NAME] {
                return Ok(Part::Name);
            }
            if label.contains(&NAME) {
                return Err("{name} stands for whole labels: write a dot on both sides");
            }
            Ok(Part::Label(label.split(|&byte| byte == NUMBER).map(<[u8]>::to_vec).collect()))
        };
        name.as_ref().labels().map(part).collect::<Result<_, _>>().map(Self)
    }
}

impl Template {
    /// The name for a query. `None` if it is too long (RFC 1035 2.3.4).
    pub(super) fn fill(&self, number: u64, qname: NameRef<'_>) -> Option<Vec<u8>> {
        let number = number.to_string();
        let mut out = Vec::with_capacity(NAME_BYTES_MAX);
        for part in &self.0 {
            match part {
                Part::Name => out.extend_from_slice(&qname.as_bytes()[..qname.as_bytes().len() - 1]),
                Part::Label(pieces) => {
                    let label = pieces.join(number.as_bytes());
                    if label.len() > LABEL_BYTES_MAX {
                        return None;
                    }
                    out.push(label.len() as u8);
                    out.extend_from_slice(&label);
                }
            }
        }
        out.push(0);
        (out.len() <= NAME_BYTES_MAX).then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pattern: &str, number: u64, qname: &str) -> Option<String> {
        let template: Template = pattern.parse().unwrap();
        let qname: Name = qname.parse().unwrap();
        let bytes = template.fill(number, qname.as_ref())?;
        Some(NameRef::from_bytes(&bytes).unwrap().to_string())
    }

    #[test]
    fn places_are_filled() {
        assert_eq!(filled("q{n}.{name}", 17, "WWW.example").as_deref(), Some("q17.WWW.example."));
        assert_eq!(filled("{n}-{n}.lab.test.", 0, "x").as_deref(), Some("0-0.lab.test."));
        assert_eq!(filled("{name}.lab", 1, "a.b").as_deref(), Some("a.b.lab."));
        assert_eq!(filled("{name}", 1, ".").as_deref(), Some("."));
        assert_eq!(filled("a\\.{n}", 3, ".").as_deref(), Some("a\\.3."));
    }

    #[test]
    fn overlong_names_are_not_made() {
        let label = "a".repeat(62);
        assert_eq!(filled(&format!("{label}{{n}}"), 10, "."), None);
        assert!(filled(&format!("{label}{{n}}"), 9, ".").is_some());
        let long = [label.as_str(); 4].join(".");
        assert_eq!(filled("{n}.{name}", 100, &long), None);
        assert!(filled("{n}.{name}", 1, &long).is_some());
    }

    #[test]
    fn patterns_without_a_valid_name_are_refused() {
        for wrong in ["", "a..b", "x{name}.b", "\u{1}", "\\001.x", "a\tb"] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong:?}");
        }
    }
}
