//! Parses mnemonics and numbers.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use wire::number::{Class, Opcode, Rcode, Rtype};

/// Parses a type: a mnemonic in any case, `TYPE123` (RFC 3597 5), or `*`.
#[must_use]
pub fn rtype(text: &str) -> Option<Rtype> {
    static KNOWN: OnceLock<BTreeMap<&str, Rtype>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let by_number = |number| Rtype(number).mnemonic().map(|text| (text, Rtype(number)));
        (0..=u16::MAX).filter_map(by_number).collect()
    });
    let text = text.to_ascii_uppercase();
    let number = || text.strip_prefix("TYPE").and_then(|number| number.parse().ok()).map(Rtype);
    if text == "*" { Some(Rtype::ANY) } else { known.get(text.as_str()).copied().or_else(number) }
}

/// Parses a class: a mnemonic in any case, or `CLASS123` (RFC 3597 5).
#[must_use]
pub fn class(text: &str) -> Option<Class> {
    let text = text.to_ascii_uppercase();
    let known = [Class::IN, Class::CH, Class::HS, Class::NONE, Class::ANY];
    let number = || text.strip_prefix("CLASS").and_then(|number| number.parse().ok()).map(Class);
    known.into_iter().find(|class| class.mnemonic() == Some(&text)).or_else(number)
}

/// Parses an opcode: a mnemonic in any case, or `OPCODE7`.
#[must_use]
pub fn opcode(text: &str) -> Option<Opcode> {
    let text = text.to_ascii_uppercase();
    let number = || text.strip_prefix("OPCODE").and_then(|number| number.parse().ok()).map(Opcode);
    let known = (0..16).map(Opcode).find(|opcode| opcode.mnemonic() == Some(&text));
    known.or_else(number).filter(|opcode| opcode.0 < 16)
}

/// Parses an RCODE: a mnemonic in any case, or `RCODE17`.
#[must_use]
pub fn rcode(text: &str) -> Option<Rcode> {
    let text = text.to_ascii_uppercase();
    let number = || text.strip_prefix("RCODE").and_then(|number| number.parse().ok()).map(Rcode);
    // RCODEs have twelve bits with EDNS (RFC 6891 6.1.3).
    let known = (0..4_096).map(Rcode).find(|rcode| rcode.mnemonic() == Some(&text));
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
    fn numbers_map_to_text_and_back() {
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
