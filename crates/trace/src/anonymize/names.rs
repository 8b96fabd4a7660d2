//! Pseudonyms of names, label by label: names below a name stay below its pseudonym.
//!
//! Labels that show the purpose of a name stay: the asterisk, registered labels with a leading underscore, the reverse
//! trees, and suffixes that the user names. A name in a reverse tree (RFC 1035 3.5, RFC 3596 2.5) gets the pseudonym of
//! its address.

use super::addresses::Addresses;
use super::drop_reason::DropReason;
use super::key::Key;
use super::labels::{LabelLengths, Labels};
use super::registered;
use std::collections::BTreeSet;
use wire::limits::NAME_BYTES_MAX;
use wire::{Name, NameRef};

#[derive(Debug)]
pub(super) struct Names {
    labels: Labels,
    kept_suffixes: BTreeSet<Name>,
}

/// The reverse trees and their notation.
const TREES: [(&[u8], Tree); 3] = [
    (b"\x07in-addr\x04arpa\0", Tree::Bytes),
    (b"\x03ip6\x04arpa\0", Tree::Nibbles),
    // RFC 4159: used before ip6.arpa.
    (b"\x03ip6\x03int\0", Tree::Nibbles),
];

#[derive(Clone, Copy)]
enum Tree {
    /// Four labels, each a byte in decimal.
    Bytes,
    /// Thirty-two labels, each a hexadecimal digit.
    Nibbles,
}

impl Names {
    pub(super) fn new(key: &Key, lengths: LabelLengths, kept_suffixes: BTreeSet<Name>) -> Self {
        Self { labels: Labels::new(key, lengths), kept_suffixes }
    }

    /// Returns the pseudonym in wire form and lower case.
    pub(super) fn name(&mut self, name: NameRef<'_>, addresses: &mut Addresses) -> Result<Vec<u8>, DropReason> {
        let labels: Vec<Vec<u8>> = name.labels().map(<[u8]>::to_ascii_lowercase).collect();
        let (mut replaced_count, mut kept_count) = (labels.len(), 0);
        // The longest kept suffix, searched from the leftmost label.
        let mut suffix = Some(name).filter(|_| !self.kept_suffixes.is_empty());
        while let Some(at) = suffix {
            if self.kept_suffixes.contains(&at.to_name()) {
                kept_count = at.label_count();
                break;
            }
            suffix = at.parent();
        }
        replaced_count -= kept_count;
        let mut tail: Vec<Vec<u8>> = labels[replaced_count..].to_vec();
        let tree = TREES.iter().find(|(tree, _)| name.is_at_or_below(NameRef::from_checked(tree)));
        if let Some(&(_, tree)) = tree {
            replaced_count = labels.len() - 2;
            tail = labels[replaced_count..].to_vec();
            let (address_labels, address) = match tree {
                Tree::Bytes => bytes(&labels[..replaced_count], addresses),
                Tree::Nibbles => nibbles(&labels[..replaced_count], addresses),
            };
            replaced_count -= address_labels;
            tail.splice(..0, address);
        }
        let mut out = Vec::with_capacity(NAME_BYTES_MAX);
        for label in &labels[..replaced_count] {
            self.write(label, &mut out)?;
        }
        tail.iter().for_each(|label| push(label, &mut out));
        out.push(0);
        if out.len() > NAME_BYTES_MAX { Err(DropReason::TooLong) } else { Ok(out) }
    }

    fn write(&mut self, label: &[u8], out: &mut Vec<u8>) -> Result<(), DropReason> {
        if label == b"*" || registered::is_registered(label) {
            push(label, out);
            return Ok(());
        }
        // Leading underscores show that it is no host name (RFC 8552). The part after them gets a pseudonym.
        let underscores = label.iter().take_while(|&&byte| byte == b'_').count();
        let (front, rest) = label.split_at(underscores);
        let pseudonym = if rest.is_empty() { rest } else { self.labels.label(rest) };
        let length = u8::try_from(front.len() + pseudonym.len()).ok().filter(|&length| length <= 63);
        out.push(length.ok_or(DropReason::TooLong)?);
        out.extend_from_slice(front);
        out.extend_from_slice(pseudonym);
        Ok(())
    }
}

fn push(label: &[u8], out: &mut Vec<u8>) {
    out.push(label.len() as u8);
    out.extend_from_slice(label);
}

/// The number of leading labels that form an address or a prefix of one, and their pseudonyms.
fn bytes(labels: &[Vec<u8>], addresses: &mut Addresses) -> (usize, Vec<Vec<u8>>) {
    let number = |label: &Vec<u8>| {
        let text = std::str::from_utf8(label).ok()?;
        let number: u8 = text.parse().ok()?;
        // `01` and `+1` are not accepted. Otherwise two names would share a pseudonym.
        (number.to_string() == text).then_some(number)
    };
    let found: Vec<u8> = labels.iter().rev().map_while(number).take(4).collect();
    let mut address = [0; 4];
    address[..found.len()].copy_from_slice(&found);
    let pseudonym = addresses.v4(address);
    (found.len(), pseudonym[..found.len()].iter().rev().map(|byte| byte.to_string().into_bytes()).collect())
}

/// The same for hexadecimal digits.
fn nibbles(labels: &[Vec<u8>], addresses: &mut Addresses) -> (usize, Vec<Vec<u8>>) {
    let digit = |label: &Vec<u8>| match label.as_slice() {
        [digit] => char::from(*digit).to_digit(16),
        _ => None,
    };
    let found: Vec<u32> = labels.iter().rev().map_while(digit).take(32).collect();
    let place = |at: usize| 124 - 4 * at as u32;
    let bits = found.iter().enumerate().fold(0, |bits, (at, digit)| bits | u128::from(*digit) << place(at));
    let pseudonym = u128::from_be_bytes(addresses.v6(bits.to_be_bytes()));
    let digit = |at: usize| char::from_digit((pseudonym >> place(at)) as u32 & 0x0F, 16).map(|digit| digit as u8);
    (found.len(), (0..found.len()).rev().map(|at| digit(at).into_iter().collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Both(Names, Addresses);

    impl Both {
        fn new(lengths: LabelLengths, kept_suffixes: &[&str]) -> Self {
            let key = Key::new([7; 32]);
            let kept_suffixes = kept_suffixes.iter().map(|name| name.parse().unwrap()).collect();
            Self(Names::new(&key, lengths, kept_suffixes), Addresses::new(&key))
        }

        fn name(&mut self, text: &str) -> String {
            let name: Name = text.parse().unwrap();
            let bytes = self.0.name(name.as_ref(), &mut self.1).unwrap();
            NameRef::from_bytes(&bytes).unwrap().to_string()
        }
    }

    fn labels(text: &str) -> Vec<&str> {
        text.trim_end_matches('.').split('.').collect()
    }

    #[test]
    fn labels_are_replaced_and_their_order_stays() {
        let mut both = Both::new(LabelLengths::Keep, &["com", "co.uk"]);
        let (www, mail) = (both.name("www.Example.com"), both.name("mail.example.COM."));
        assert_eq!(labels(&www)[1..], labels(&mail)[1..]);
        assert!(labels(&www)[0] != labels(&mail)[0] && labels(&www)[0] != "www" && labels(&www)[1] != "example");
        assert_eq!(labels(&www)[2], "com");
        assert_eq!(both.name("example.co.uk").strip_prefix(labels(&www)[1]), Some(".co.uk."));
        assert_eq!(both.name("."), ".");
        assert_eq!(both.name("com"), "com.");
        assert!(!both.name("example.uk").ends_with(".uk."));
    }

    #[test]
    fn registered_labels_are_kept() {
        let mut both = Both::new(LabelLengths::Keep, &[]);
        let service = both.name("_kerberos._tcp.*.example");
        assert!(service.starts_with("_kerberos._tcp.*.") && !service.contains("example"), "{service}");
        let pseudonym = both.name("_secretproject._tcp.example");
        assert!(
            pseudonym.starts_with('_') && !pseudonym.contains("secretproject") && labels(&pseudonym)[0].len() == 14,
            "{pseudonym}"
        );
        assert_eq!(labels(&both.name("__.a"))[0], "__");
    }

    #[test]
    fn reverse_names_use_the_pseudonym_of_the_address() {
        let mut both = Both::new(LabelLengths::Keep, &[]);
        let [a, b, c, d] = both.1.v4([192, 0, 2, 7]);
        assert_eq!(both.name("7.2.0.192.IN-ADDR.arpa"), format!("{d}.{c}.{b}.{a}.in-addr.arpa."));
        assert_eq!(both.name("2.0.192.in-addr.arpa"), format!("{c}.{b}.{a}.in-addr.arpa."));
        assert_eq!(both.name("in-addr.arpa"), "in-addr.arpa.");
        let classless = both.name("0/25.2.0.192.in-addr.arpa");
        assert!(classless.ends_with(&format!(".{c}.{b}.{a}.in-addr.arpa.")) && !classless.starts_with("0/25"));
        // Not the canonical form of a byte: treated like any other name.
        assert!(!both.name("07.2.0.192.in-addr.arpa").starts_with("07."));
        let v6: u128 = 0x2001_0DB8_0000_0000_0000_0000_0000_0001;
        let pseudonym = both.1.v6(v6.to_be_bytes());
        let digits = |bytes: [u8; 16]| {
            let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).rev();
            digits.map(|digit| format!("{digit:x}.")).collect::<String>() + "ip6.arpa."
        };
        assert_eq!(both.name(&digits(v6.to_be_bytes())), digits(pseudonym));
        assert_eq!(both.name("8.B.d.0.1.0.0.2.ip6.arpa."), digits(pseudonym)[48..].to_owned());
    }

    #[test]
    fn too_long_names_are_reported() {
        let mut both = Both::new(LabelLengths::Hide, &[]);
        let many: Name = ["a"; 60].join(".").parse().unwrap();
        assert_eq!(both.0.name(many.as_ref(), &mut both.1), Err(DropReason::TooLong));
        let underscores: Name = "_".repeat(60).parse().unwrap();
        assert!(both.0.name(underscores.as_ref(), &mut both.1).is_ok());
        let mixed: Name = format!("{}ab", "_".repeat(60)).parse().unwrap();
        assert_eq!(both.0.name(mixed.as_ref(), &mut both.1), Err(DropReason::TooLong));
    }

    proptest! {
        #[test]
        fn subdomains_and_lengths_are_kept(
            labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=20), 1..8),
        ) {
            let with_length = |label: &Vec<u8>| [&[label.len() as u8], &label[..]].concat();
            let mut bytes: Vec<u8> = labels.iter().flat_map(with_length).collect();
            bytes.push(0);
            let name = NameRef::from_bytes(&bytes).unwrap();
            let mut both = Both::new(LabelLengths::Keep, &[]);
            let pseudonym = both.0.name(name, &mut both.1).unwrap();
            prop_assert_eq!(pseudonym.len(), bytes.len());
            let parent = both.0.name(name.parent().unwrap(), &mut both.1).unwrap();
            let pseudonym = NameRef::from_bytes(&pseudonym).unwrap();
            prop_assert_eq!(pseudonym.parent().unwrap().as_bytes(), parent.as_slice());
        }
    }
}
