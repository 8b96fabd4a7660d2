//! The compared parts of an answer, small enough to keep for a million questions.

use compare::Response;
use compare::response::{Rr, Section, flag};
use measure::Difference;
use ring::digest::{Context, SHA256};
use std::borrow::Cow;
use wire::number::Rtype;

/// Bytes of the type at the start of RRSIG rdata (RFC 4034 3.1).
const TYPE_COVERED_BYTES: usize = 2;
/// Sizes in SOA rdata: from the serial to the end, and of the serial (RFC 1035 3.3.13).
const SOA_NUMBERS_BYTES: usize = 20;
const SERIAL_BYTES: usize = 4;

/// RCODE and section digests of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint {
    /// The RCODE with the upper bits of the OPT record.
    pub rcode: u16,
    /// Whether TC is set. The sections are incomplete then.
    pub is_truncated: bool,
    /// Digest of the answer section as a set. Zero if it is empty.
    pub answer: u64,
    /// Digest of the authority section.
    pub authority: u64,
}

impl Fingerprint {
    /// The fingerprint of a response.
    #[must_use]
    pub fn of(response: &Response) -> Self {
        Self {
            rcode: response.rcode.0,
            is_truncated: response.flags[flag::TC],
            answer: digest(&response.answer, false),
            authority: digest(&response.authority, true),
        }
    }

    /// The first difference between this expected fingerprint and another one.
    #[must_use]
    pub fn difference(&self, got: &Self) -> Option<Difference> {
        if self.rcode != got.rcode {
            return Some(Difference::Rcode);
        }
        if self.is_truncated || got.is_truncated {
            return None;
        }
        let sections =
            [(self.answer != got.answer, Difference::Answer), (self.authority != got.authority, Difference::Authority)];
        sections.into_iter().find(|(differs, _)| *differs).map(|(_, difference)| difference)
    }
}

fn digest(section: &Section, is_authority: bool) -> u64 {
    let mut rrs: Vec<_> =
        section.iter().map(|rr| (&rr.owner, rr.rtype.0, rr.class.0, significant(rr, is_authority))).collect();
    if rrs.is_empty() {
        return 0;
    }
    // The section is also sorted by TTL, which does not count.
    rrs.sort_unstable();
    rrs.dedup();
    let mut context = Context::new(&SHA256);
    for (owner, rtype, class, rdata) in rrs {
        context.update(owner);
        context.update(&[rtype.to_be_bytes(), class.to_be_bytes(), (rdata.len() as u16).to_be_bytes()].concat());
        context.update(&rdata);
    }
    let digest = context.finish();
    let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(first).max(1)
}

/// Rdata without the parts that may change in a correct answer.
fn significant(rr: &Rr, is_authority: bool) -> Cow<'_, [u8]> {
    let rdata = rr.rdata.as_slice();
    match (rr.rtype, rdata.len().checked_sub(SOA_NUMBERS_BYTES)) {
        (Rtype::RRSIG, _) => rdata[..rdata.len().min(TYPE_COVERED_BYTES)].into(),
        (Rtype::SOA, Some(serial)) if is_authority => {
            [&rdata[..serial], &rdata[serial + SERIAL_BYTES..]].concat().into()
        }
        _ => rdata.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"\0\x01\x84\0\0\x01\0\x02\0\0\0\0";
    const QUESTION: &[u8] = b"\x03www\x07example\0\0\x01\0\x01";

    /// A test answer with these addresses and TTLs.
    fn answer(rrs: &[(u8, u32)]) -> Vec<u8> {
        let mut message = [HEADER, QUESTION].concat();
        message[7] = rrs.len() as u8;
        for (last, ttl) in rrs {
            message.extend_from_slice(b"\xc0\x0c\0\x01\0\x01");
            message.extend_from_slice(&ttl.to_be_bytes());
            message.extend_from_slice(&[0, 4, 192, 0, 2, *last]);
        }
        message
    }

    fn of(message: &[u8]) -> Fingerprint {
        Fingerprint::of(&Response::parse(message).unwrap())
    }

    #[test]
    fn order_and_ttl_and_case_do_not_count() {
        let right = of(&answer(&[(1, 60), (2, 60)]));
        assert_eq!(right.difference(&of(&answer(&[(2, 60), (1, 60)]))), None);
        assert_eq!(right.difference(&of(&answer(&[(2, 7), (1, 61)]))), None);
        let mut upper = answer(&[(1, 60), (2, 60)]);
        upper[13..16].make_ascii_uppercase();
        assert_eq!(right.difference(&of(&upper)), None);
    }

    #[test]
    fn rcode_and_records_count() {
        let right = of(&answer(&[(1, 60), (2, 60)]));
        for wrong in [&answer(&[(1, 60)]), &answer(&[(1, 60), (3, 60)]), &answer(&[])] {
            assert_eq!(right.difference(&of(wrong)), Some(Difference::Answer), "{wrong:?}");
        }
        let mut refused = answer(&[(1, 60), (2, 60)]);
        refused[3] = 5;
        assert_eq!(right.difference(&of(&refused)), Some(Difference::Rcode));
        let mut moved = answer(&[(1, 60), (2, 60)]);
        (moved[7], moved[9]) = (1, 1);
        assert_eq!(right.difference(&of(&moved)), Some(Difference::Answer));
        let mut more = answer(&[(1, 60), (2, 60), (3, 60)]);
        (more[7], more[9]) = (2, 1);
        assert_eq!(right.difference(&of(&more)), Some(Difference::Authority));
    }

    #[test]
    fn only_the_rcode_of_a_truncated_answer_counts() {
        let right = of(&answer(&[(1, 60), (2, 60)]));
        let mut truncated = answer(&[]);
        truncated[2] |= 0x02;
        assert_eq!(right.difference(&of(&truncated)), None);
        truncated[3] = 2;
        assert_eq!(right.difference(&of(&truncated)), Some(Difference::Rcode));
    }

    #[test]
    fn a_serial_in_authority_and_the_bytes_of_signatures_do_not_count() {
        let soa = |serial: u8, section: usize| {
            let mut message = answer(&[]);
            message[section] = 1;
            message.extend_from_slice(b"\xc0\x10\0\x06\0\x01\0\0\0\x3c\0\x18\xc0\x0c\xc0\x0c\0\0\0");
            message.push(serial);
            message.extend_from_slice(b"\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04");
            of(&message)
        };
        assert_eq!(soa(1, 9).difference(&soa(2, 9)), None);
        assert_eq!(soa(1, 7).difference(&soa(2, 7)), Some(Difference::Answer));
        let signed = |covered: u8, signature: u8| {
            let mut message = answer(&[]);
            message[7] = 1;
            message.extend_from_slice(b"\xc0\x0c\0\x2e\0\x01\0\0\0\x3c\0\x15\0");
            message.push(covered);
            message.extend_from_slice(&[0; 16]);
            message.extend_from_slice(&[0, 9, signature]);
            of(&message)
        };
        assert_eq!(signed(1, 1).difference(&signed(1, 2)), None);
        assert_eq!(signed(1, 1).difference(&signed(2, 1)), Some(Difference::Answer));
    }
}
