//! Mnemonics and numbers, as text has them.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use wire::number::{Class, Opcode, Rcode, Rtype};

/// A type by its mnemonic in any case, as `TYPE123` (RFC 3597 5), or `*`.
#[must_use]
pub fn rtype(word: &str) -> Option<Rtype> {
    static KNOWN: OnceLock<BTreeMap<&str, Rtype>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let named = |number| Rtype(number).mnemonic().map(|word| (word, Rtype(number)));
        (0..=u16::MAX).filter_map(named).collect()
    });
    let word = word.to_ascii_uppercase();
    let number = || word.strip_prefix("TYPE").and_then(|number| number.parse().ok()).map(Rtype);
    if word == "*" { Some(Rtype::ANY) } else { known.get(word.as_str()).copied().or_else(number) }
}

/// A class by its mnemonic in any case, or as `CLASS123` (RFC 3597 5).
#[must_use]
pub fn class(word: &str) -> Option<Class> {
    let word = word.to_ascii_uppercase();
    let known = [Class::IN, Class::CH, Class::HS, Class::NONE, Class::ANY];
    let number = || word.strip_prefix("CLASS").and_then(|number| number.parse().ok()).map(Class);
    known.into_iter().find(|class| class.mnemonic() == Some(&word)).or_else(number)
}

/// An opcode by its mnemonic in any case, or as `OPCODE7`.
#[must_use]
pub fn opcode(word: &str) -> Option<Opcode> {
    let word = word.to_ascii_uppercase();
    let number = || word.strip_prefix("OPCODE").and_then(|number| number.parse().ok()).map(Opcode);
    let known = (0..16).map(Opcode).find(|opcode| opcode.mnemonic() == Some(&word));
    known.or_else(number).filter(|opcode| opcode.0 < 16)
}

/// An RCODE by its mnemonic in any case, or as `RCODE17`.
#[must_use]
pub fn rcode(word: &str) -> Option<Rcode> {
    let word = word.to_ascii_uppercase();
    let number = || word.strip_prefix("RCODE").and_then(|number| number.parse().ok()).map(Rcode);
    // Twelve bits with EDNS (RFC 6891 6.1.3).
    let known = (0..4_096).map(Rcode).find(|rcode| rcode.mnemonic() == Some(&word));
    known.or_else(number).filter(|rcode| rcode.0 < 4_096)
}

pub(crate) fn rtype_mnemonic(rtype: Rtype) -> String {
    rtype.mnemonic().map_or_else(|| format!("TYPE{}", rtype.0), str::to_owned)
}

pub(crate) fn class_mnemonic(class: Class) -> String {
    class.mnemonic().map_or_else(|| format!("CLASS{}", class.0), str::to_owned)
}

pub(crate) fn opcode_mnemonic(opcode: Opcode) -> String {
    opcode.mnemonic().map_or_else(|| format!("OPCODE{}", opcode.0), str::to_owned)
}

pub(crate) fn rcode_mnemonic(rcode: Rcode) -> String {
    rcode.mnemonic().map_or_else(|| format!("RCODE{}", rcode.0), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_word_and_every_word_its_number() {
        for number in 0..=u16::MAX {
            assert_eq!(rtype(&rtype_mnemonic(Rtype(number))), Some(Rtype(number)));
            assert_eq!(class(&class_mnemonic(Class(number))), Some(Class(number)));
        }
        for number in 0..16 {
            assert_eq!(opcode(&opcode_mnemonic(Opcode(number))), Some(Opcode(number)));
        }
        assert_eq!(
            (rtype("aaaa"), rtype("*"), rtype("TYPE"), rtype("TYPE70000")),
            (Some(Rtype::AAAA), Some(Rtype::ANY), None, None)
        );
        assert_eq!((opcode("OPCODE16"), class("in")), (None, Some(Class::IN)));
        (0..4_096).for_each(|number| assert_eq!(rcode(&rcode_mnemonic(Rcode(number))), Some(Rcode(number))));
        assert_eq!((rcode("nxdomain"), rcode("RCODE4096")), (Some(Rcode::NXDOMAIN), None));
    }
}
