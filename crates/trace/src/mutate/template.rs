//! Names that are made for queries: a pattern with places for the number of the query and for its name.

use wire::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};
use wire::{Name, NameRef};

/// Stand for the places while the pattern is read as a name; no pattern may have them.
const NUMBER: u8 = 1;
const NAME: u8 = 2;

/// A pattern of names: `{n}` stands for the number of the query in the trace, counted from zero, and as labels of its
/// own `{name}` for the name that it asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// A label: the bytes between numbers, one more than there are numbers.
    Label(Vec<Vec<u8>>),
    /// The name asked for.
    Name,
}

impl std::str::FromStr for Template {
    /// What is wrong with the pattern.
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
    /// The name for a query; `None` when it would be too long (RFC 1035 2.3.4).
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
        Some(NameRef::from_octets(&bytes).unwrap().to_string())
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
    fn what_is_too_long_is_none() {
        let label = "a".repeat(62);
        assert_eq!(filled(&format!("{label}{{n}}"), 10, "."), None);
        assert!(filled(&format!("{label}{{n}}"), 9, ".").is_some());
        let long = [label.as_str(); 4].join(".");
        assert_eq!(filled("{n}.{name}", 100, &long), None);
        assert!(filled("{n}.{name}", 1, &long).is_some());
    }

    #[test]
    fn patterns_that_give_no_name_are_refused() {
        for wrong in ["", "a..b", "x{name}.b", "\u{1}", "\\001.x", "a\tb"] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong:?}");
        }
    }
}
