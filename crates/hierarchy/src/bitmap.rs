//! The types that an NSEC lists (RFC 4034 4.1.2).

use std::collections::{BTreeMap, BTreeSet};
use wire::name::NameRef;
use wire::number::Rtype;

/// Appends the type bitmap.
pub(crate) fn push(types: &BTreeSet<Rtype>, rdata: &mut Vec<u8>) {
    let mut windows: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for Rtype(number) in types {
        let [window, low] = number.to_be_bytes();
        let bits = windows.entry(window).or_default();
        let at = usize::from(low / 8);
        bits.resize(bits.len().max(at + 1), 0);
        bits[at] |= 0x80 >> (low % 8);
    }
    for (window, bits) in windows {
        // A window has at most 32 bytes.
        rdata.extend([window, bits.len() as u8]);
        rdata.extend(bits);
    }
}

/// Whether the rdata of an NSEC lists a type.
pub(crate) fn has(rdata: &[u8], rtype: Rtype) -> bool {
    let [wanted, low] = rtype.0.to_be_bytes();
    let mut rest = NameRef::split_from(rdata).map_or(&[][..], |(_, bitmap)| bitmap);
    while let [window, len, behind @ ..] = rest {
        let Some((bits, next)) = behind.split_at_checked(usize::from(*len)) else { return false };
        if *window == wanted {
            return bits.get(usize::from(low / 8)).is_some_and(|byte| byte & 0x80 >> (low % 8) != 0);
        }
        rest = next;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_types_are_found() {
        let types = BTreeSet::from([Rtype::A, Rtype::NSEC, Rtype::RRSIG, Rtype::CAA, Rtype(65_280)]);
        let mut rdata = vec![0];
        push(&types, &mut rdata);
        assert!(wire::rdata::rdata_check(Rtype::NSEC, &rdata).is_ok());
        for number in 0..=u16::MAX {
            assert_eq!(has(&rdata, Rtype(number)), types.contains(&Rtype(number)), "{number}");
        }
    }
}
