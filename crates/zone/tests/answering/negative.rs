//! The SOA of negative responses: that of the version that answers, whatever changed before.

use crate::common::{name, record, set_of, zone_id};
use proptest::prelude::*;
use wire::builder::MessageBuilder;
use wire::number::{Rcode, Rtype, Serial};
use wire::parse::{Message, Parsed, Section, parse_request};
use zone::answer::{AnswerContext, Chaos, Servable, Transport, answer};
use zone::record::{Changeset, Record};
use zone::set::ZoneSet;

const APEX: &str = "Example.test.";

/// An SOA of this serial.
fn soa(serial: u32, ttl: u32, minimum: u32, [mname, rname]: [&str; 2]) -> Record {
    let mut rdata = [name(mname).as_bytes(), name(rname).as_bytes()].concat();
    [serial, 7_200, 900, 1_209_600, minimum].iter().for_each(|number| rdata.extend(number.to_be_bytes()));
    record(APEX, ttl, Rtype::SOA, &rdata)
}

/// RCODE, and TTL and rdata of the only record, which is an SOA in the authority section.
fn denial_of(set: &ZoneSet, qname: &str, rtype: Rtype) -> (Rcode, u32, Vec<u8>) {
    let query = MessageBuilder::query(1, name(qname).as_ref(), rtype).edns(1232, true).build();
    let Parsed::Request(request) = parse_request(&query) else { panic!("a query") };
    let context = AnswerContext {
        transport: Transport::Udp,
        udp_bytes_max: 1232,
        payload: 1232,
        nsid: None,
        cookie: None,
        keepalive: None,
        padding_block: 0,
        chaos: Chaos::default(),
        zone_state: &|_| Servable::Ready,
        tsig_reserve: 0,
    };
    let mut out = [0; 1232];
    let answered = answer(set.head(), &request, &context, &mut out);
    let response = Message::parse(&out[..answered.len]).unwrap();
    assert_eq!(response.records(Section::Answer).count(), 0, "{qname}");
    let records: Vec<_> = response.records(Section::Authority).map(Result::unwrap).collect();
    let [record] = &records[..] else { panic!("{} records for {qname}", records.len()) };
    assert_eq!((record.owner.as_ref(), record.rtype), (name(APEX).as_ref(), Rtype::SOA));
    let mut rdata = Vec::new();
    record.rdata_canonical(&mut rdata).unwrap();
    (answered.rcode, record.ttl, rdata)
}

proptest! {
    #[test]
    fn negative_responses_have_the_soa_of_their_version(
        versions in prop::collection::vec((any::<u16>(), any::<u16>(), 0..5usize), 1..6)
    ) {
        // Below the apex, in its case and in another, elsewhere, and asked for.
        let names = [
            ["ns.example.test.", "hostmaster.example.test."],
            ["ns.EXAMPLE.test.", "Hostmaster.Example.Test."],
            ["ns.dns.example.test.", "admin.dns.example.test."],
            ["ns.provider.test.", "admin.provider.test."],
            ["www.example.test.", "nothing.example.test."],
        ];
        let mut now = soa(0, 100, 50, names[0]);
        let www = record("www.example.test.", 300, Rtype::A, &[192, 0, 2, 1]);
        let mut set = set_of(APEX, &[now.clone(), www]);
        for (serial, (ttl, minimum, which)) in (1..).zip(versions) {
            let next = soa(serial, ttl.into(), minimum.into(), names[which]);
            let changeset = Changeset {
                serial_from: Some(Serial(serial - 1)),
                serial_to: Serial(serial),
                deleted: vec![now],
                added: vec![next.clone()],
            };
            let mut edit = set.edit();
            edit.apply(&zone_id(APEX), &changeset).unwrap();
            let version = edit.seal();
            set.publish(version);
            let mut rdata = next.rdata.to_vec();
            wire::rdata::rdata_lowercase(Rtype::SOA, &mut rdata);
            // RFC 2308 3: the lesser of the SOA's TTL and its MINIMUM.
            let ttl = u32::from(ttl.min(minimum));
            for (qname, rtype, rcode) in [
                ("www.example.test.", Rtype::TXT, Rcode::NOERROR),
                ("WWW.Example.test.", Rtype::TXT, Rcode::NOERROR),
                ("nothing.example.test.", Rtype::A, Rcode::NXDOMAIN),
                ("a.b.dns.example.test.", Rtype::A, Rcode::NXDOMAIN),
                ("example.test.", Rtype::A, Rcode::NOERROR),
            ] {
                let (found, found_ttl, mut found_rdata) = denial_of(&set, qname, rtype);
                wire::rdata::rdata_lowercase(Rtype::SOA, &mut found_rdata);
                prop_assert_eq!((found, found_ttl, &found_rdata), (rcode, ttl, &rdata), "{}", qname);
            }
            now = next;
        }
    }
}
