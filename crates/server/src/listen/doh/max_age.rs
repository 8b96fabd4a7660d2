//! How long an HTTP cache may keep a response (RFC 8484 5.1).

use wire::number::Rtype;
use wire::parse::{Message, Section};

/// The lifetime in seconds: the smallest TTL of the answer section and of the negative answer (from the SOA, RFC 2308
/// 5). 0 if there is neither.
pub(super) fn seconds(response: &[u8]) -> u32 {
    let Ok(message) = Message::parse(response) else { return 0 };
    let answer = message.records(Section::Answer).flatten().map(|record| record.ttl);
    let negative = message
        .records(Section::Authority)
        .flatten()
        .filter(|record| record.rtype == Rtype::SOA)
        // MINIMUM is the last field of the rdata.
        .filter_map(|soa| Some(soa.ttl.min(u32::from_be_bytes(*soa.rdata().last_chunk()?))));
    answer.chain(negative).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::compose::Composer;
    use wire::name::Name;
    use wire::number::{Class, Rcode};
    use wire::parse::{Parsed, parse_request};

    /// A response with these records: section, type, TTL, rdata.
    fn response(records: &[(Section, Rtype, u32, &[u8])]) -> Vec<u8> {
        let name: Name = "example.test.".parse().unwrap();
        let query = wire::builder::MessageBuilder::query(0, name.as_ref(), Rtype::A).build();
        let Parsed::Request(request) = parse_request(&query) else { panic!() };
        let mut out = vec![0; 512];
        let mut composer = Composer::new(&mut out, usize::MAX);
        composer.start_response(&request, Rcode::NOERROR, true);
        for (section, rtype, ttl, rdata) in records {
            composer.push_rrset(*section, name.as_ref(), *rtype, Class::IN, *ttl, [*rdata]).unwrap();
        }
        let len = composer.finish(None);
        out.truncate(len);
        out
    }

    #[test]
    fn max_age_is_the_smallest_ttl_or_the_negative_ttl() {
        let soa: Vec<u8> = [&[0u8, 0][..], &[0; 16], &300u32.to_be_bytes()].concat();
        let a = |ttl| (Section::Answer, Rtype::A, ttl, &[192, 0, 2, 1][..]);
        let soa = |ttl| (Section::Authority, Rtype::SOA, ttl, &soa[..]);
        let ns = (Section::Authority, Rtype::NS, 5, &[0u8][..]);
        assert_eq!(seconds(&response(&[a(60)])), 60);
        assert_eq!(seconds(&response(&[a(60), (Section::Answer, Rtype::TXT, 7, &[0])])), 7);
        assert_eq!(seconds(&response(&[soa(3_600)])), 300);
        assert_eq!(seconds(&response(&[soa(30)])), 30);
        assert_eq!(seconds(&response(&[(Section::Answer, Rtype::CNAME, 900, &[0]), soa(3_600)])), 300);
        assert_eq!(seconds(&response(&[ns])), 0, "a referral");
        assert_eq!(seconds(&response(&[])), 0);
        assert_eq!(seconds(b"no message"), 0);
    }
}
