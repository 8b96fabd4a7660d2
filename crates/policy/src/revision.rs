//! Identifies the contents of a policy. A client that changes rules names the revision that it started from.

use crate::table::Policy;
use core::fmt;
use core::str::FromStr;
use ring::digest::{SHA256, digest};
use zone::codec::Encoder;

/// A hash of the rules of a policy. Equal rules have the same revision in every cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revision(pub u64);

/// Hex digits of a revision.
const DIGITS: usize = 16;

impl Policy {
    /// The revision of these rules. An empty policy has one too.
    #[must_use]
    pub fn revision(&self) -> Revision {
        let mut out = Encoder::new();
        self.encode(&mut out);
        let bytes = digest(&SHA256, &out.finish());
        Revision(bytes.as_ref().iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}", self.0)
    }
}

impl FromStr for Revision {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_one = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_one);
        number.map(Self).ok_or("a revision has 16 hex digits, as `policy show` prints them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_policy;

    #[test]
    fn a_revision_depends_only_on_the_rules() {
        let revision = |text: &str| parse_policy(text).unwrap().revision();
        let one = revision("grant key. zonesub A;");
        assert_eq!(revision("# with a comment\n grant \"KEY\"  zonesub A ;"), one);
        assert_eq!(one.to_string().parse(), Ok(one));
        assert_eq!(Revision(7).to_string(), "0000000000000007");
        for other in ["", "deny key. zonesub A;", "grant key. zonesub A;\ngrant key. zonesub A;"] {
            assert_ne!(revision(other), one, "{other}");
        }
        for none in ["", "7", "+000000000000007", "000000000000000g", "00000000000000007"] {
            assert!(none.parse::<Revision>().is_err(), "{none}");
        }
    }
}
