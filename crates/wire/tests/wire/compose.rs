//! Composed responses, compared byte by byte where needed.

use crate::support::hex;
use catamaran_wire::compose::ede;
use catamaran_wire::limits::COMPRESSION_ENTRIES_MAX;
use catamaran_wire::{
    Class, Composer, EdnsOut, Full, Message, MessageBuilder, Name, Opcode, Parsed, Rcode, Request, Rtype, Section,
    Serial, ZoneVersionOut, parse_request,
};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn request(bytes: &[u8]) -> Request<'_> {
    match parse_request(bytes) {
        Parsed::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

/// Runs `fill` over a response to `bytes` and returns the response.
fn respond(bytes: &[u8], limit: usize, edns: Option<&EdnsOut<'_>>, fill: impl FnOnce(&mut Composer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0xEE; 65_535];
    let mut composer = Composer::new(&mut buffer, limit);
    composer.start_response(&request(bytes), Rcode::NOERROR, true);
    composer.reserve(edns.map_or(0, EdnsOut::byte_count));
    fill(&mut composer);
    let len = composer.finish(edns);
    assert!(len <= limit);
    buffer.truncate(len);
    buffer
}

fn push(
    composer: &mut Composer<'_>,
    section: Section,
    owner: &str,
    rtype: Rtype,
    rdatas: &[&[u8]],
) -> Result<(), Full> {
    composer.push_rrset(section, name(owner).as_ref(), rtype, Class::IN, 60, rdatas.iter().copied())
}

#[test]
fn a_referral_is_compressed() {
    let query = MessageBuilder::query(0x1234, name("WWW.a.test").as_ref(), Rtype::A).build();
    let response = respond(&query, 512, None, |composer| {
        let (first, second) = (name("ns1.a.test"), name("ns2.a.test"));
        push(composer, Section::Authority, "a.TEST", Rtype::NS, &[first.as_bytes(), second.as_bytes()]).unwrap();
        push(composer, Section::Additional, "ns1.a.test", Rtype::A, &[&[192, 0, 2, 1], &[192, 0, 2, 2]]).unwrap();
        push(composer, Section::Additional, "NS2.a.test", Rtype::AAAA, &[&[0x20; 16]]).unwrap();
        composer.set_aa(false);
    });
    let expected = hex("1234 8000 0001 0000 0002 0003
        03575757 0161 0474657374 00 0001 0001
        c010 0002 0001 0000003c 0006 036e7331 c010
        c010 0002 0001 0000003c 0006 036e7332 c010
        c028 0001 0001 0000003c 0004 c0000201
        c028 0001 0001 0000003c 0004 c0000202
        c03a 001c 0001 0000003c 0010 20202020202020202020202020202020");
    assert_eq!(response, expected);
}

#[test]
fn names_are_compressed_inside_rdata_of_the_old_types_only() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::ANY).build();
    let target = name("x.a.test");
    let srv = [&[0, 1, 0, 2, 0, 3], target.as_bytes()].concat();
    let mx = [&[0, 10], target.as_bytes()].concat();
    let soa = [target.as_bytes(), name("h.x.a.test").as_bytes(), &[7; 20]].concat();
    for (rtype, rdata, sent) in [
        (Rtype::SRV, &srv, srv.clone()),
        (Rtype::DNAME, &target.as_bytes().to_vec(), target.as_bytes().to_vec()),
        (Rtype::SVCB, &[&[0, 1], target.as_bytes()].concat(), [&[0, 1], target.as_bytes()].concat()),
        (Rtype::MX, &mx, hex("000a 0178 c00c")),
        (Rtype::SOA, &soa, [hex("0178 c00c 0168 c024"), vec![7; 20]].concat()),
        // Malformed rdata is sent unchanged.
        (Rtype::MX, &vec![0, 10, 0xC0, 12], vec![0, 10, 0xC0, 12]),
        (Rtype::NS, &[target.as_bytes(), b"x"].concat(), b"\x01x\xC0\x0Cx".to_vec()),
    ] {
        let response = respond(&query, 512, None, |composer| {
            push(composer, Section::Answer, "a.test", rtype, &[rdata]).unwrap();
        });
        assert_eq!(response[12 + 12 + 12..], sent, "{rtype:?}");
    }
}

#[test]
fn rdata_keeps_its_case_whatever_the_case_of_the_question() {
    let query = MessageBuilder::query(1, name("A.tEsT").as_ref(), Rtype::NS).build();
    let response = respond(&query, 512, None, |composer| {
        let (first, second) = (name("ns1.a.test"), name("ns2.a.test"));
        push(composer, Section::Answer, "a.test", Rtype::NS, &[first.as_bytes(), second.as_bytes()]).unwrap();
        push(composer, Section::Additional, "ns1.a.test", Rtype::A, &[&[192, 0, 2, 1]]).unwrap();
    });
    // The owner is a pointer to the question; the first target is written out, and the second points to it.
    let expected = hex("0001 8400 0001 0002 0000 0001
        0141 0474457354 00 0002 0001
        c00c 0002 0001 0000003c 000c 036e7331 0161 0474657374 00
        c00c 0002 0001 0000003c 0006 036e7332 c028
        c024 0001 0001 0000003c 0004 c0000201");
    assert_eq!(response, expected);
}

#[test]
fn flags_are_copied_or_clear() {
    let root = Name::root();
    for flags in 0..=0x7FFu16 {
        let flags = flags & 0x07FF;
        let mut query = MessageBuilder::query(7, root.as_ref(), Rtype::NS).build();
        query[2] = (flags >> 8) as u8;
        query[3] = flags as u8;
        let response = respond(&query, 512, None, |_| ());
        let header = *Message::parse(&response).unwrap().header();
        assert_eq!((header.id, header.qr, header.opcode, header.aa), (7, true, Opcode::QUERY, true));
        assert_eq!(header.rd, flags & 0x100 != 0);
        assert!(!(header.tc || header.ra || header.z || header.ad || header.cd), "{flags:#x}");
        assert_eq!(response[12..], query[12..], "the question is echoed as sent");
    }
}

#[test]
fn the_response_to_an_update_has_its_opcode_and_zone() {
    let update = MessageBuilder::update(7, name("Example.test").as_ref()).build();
    let response = respond(&update, 512, None, |composer| composer.set_rcode(Rcode::NXRRSET));
    assert_eq!(response[..12], hex("0007 ac08 0001 0000 0000 0000"));
    assert_eq!(response[12..], update[12..]);
}

#[test]
fn data_that_does_not_fit_is_rolled_back() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::TXT).build();
    let text = [vec![200], vec![b'x'; 200]].concat();
    let response = respond(&query, 512, None, |composer| {
        let three: &[&[u8]] = &[&text, &text, &text];
        push(composer, Section::Answer, "y.a.test", Rtype::TXT, &three[..1]).unwrap();
        let before = (composer.byte_count(), composer.record_count(Section::Answer));
        assert_eq!(push(composer, Section::Answer, "z.a.test", Rtype::TXT, three), Err(Full));
        assert_eq!((composer.byte_count(), composer.record_count(Section::Answer)), before);
        // No pointer leads to the removed name.
        push(composer, Section::Answer, "z.a.test", Rtype::TXT, &three[..1]).unwrap();
        assert_eq!(push(composer, Section::Answer, "a.test", Rtype::TXT, &three[..1]), Err(Full));
        assert!(!composer.is_truncated());
    });
    let message = Message::parse(&response).unwrap();
    let owners: Vec<_> = message.records(Section::Answer).map(|r| r.unwrap().owner.to_string()).collect();
    assert_eq!(owners, ["y.a.test.", "z.a.test."]);

    let response = respond(&query, 512, None, |composer| {
        push(composer, Section::Answer, "a.test", Rtype::TXT, &[&text, &text]).unwrap();
        composer.truncate_all();
    });
    assert_eq!(response.len(), query.len());
    assert_eq!(response[..12], hex("0001 8600 0001 0000 0000 0000"));
}

#[test]
fn rollback_removes_everything_after_the_mark() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::A).build();
    let response = respond(&query, 512, None, |composer| {
        push(composer, Section::Answer, "a.test", Rtype::A, &[&[1; 4]]).unwrap();
        let mark = composer.mark();
        push(composer, Section::Authority, "b.test", Rtype::A, &[&[2; 4]]).unwrap();
        composer.rollback(mark);
        push(composer, Section::Answer, "b.test", Rtype::A, &[&[3; 4]]).unwrap();
    });
    let message = Message::parse(&response).unwrap();
    assert_eq!(message.header().counts, [1, 2, 0, 0]);
    assert_eq!(message.records(Section::Answer).nth(1).unwrap().unwrap().owner.to_string(), "b.test.");
}

#[test]
fn the_table_of_names_is_bounded_and_so_are_pointers() {
    let query = MessageBuilder::query(1, Name::root().as_ref(), Rtype::AXFR).build();
    let count = 3_000;
    let response = respond(&query, 65_535, None, |composer| {
        for at in 0..count {
            push(composer, Section::Answer, &format!("n{at}."), Rtype::A, &[&[1; 4]]).unwrap();
        }
        // Pointers lead to the first name, but not to the last one, after the 64th and after 16,383 bytes.
        assert_eq!(push(composer, Section::Answer, "n0.", Rtype::A, &[&[1; 4]]), Ok(()));
        let before = composer.byte_count();
        push(composer, Section::Answer, "n63.", Rtype::A, &[&[1; 4]]).unwrap();
        assert_eq!(composer.byte_count() - before, 2 + 14);
        push(composer, Section::Answer, "n64.", Rtype::A, &[&[1; 4], &[2; 4]]).unwrap();
        assert_eq!(composer.byte_count() - before, 2 + 14 + 2 * (5 + 14), "n{COMPRESSION_ENTRIES_MAX}");
    });
    let message = Message::parse(&response).unwrap();
    let owners: Vec<_> = message.records(Section::Answer).map(|r| r.unwrap().owner.to_string()).collect();
    assert_eq!(owners.len(), count + 4);
    assert!((0..count).all(|at| owners[at] == format!("n{at}.")));
    assert_eq!(owners[count..], ["n0.", "n63.", "n64.", "n64."]);
}

#[test]
fn opt_has_the_given_options() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::A).edns(1232, true).build();
    let edns = EdnsOut {
        payload: 1232,
        dnssec_ok: true,
        nsid: Some(b"n1"),
        zoneversion: Some(ZoneVersionOut { label_count: 2, serial: Serial(0x0102_0304) }),
        expire: Some(1_209_600),
        keepalive: Some(300),
        cookie: Some(b"0123456789abcdef"),
        ede: [Some((ede::INVALID_DATA, "old")), None],
        padding_block: 0,
        behind_bytes: 0,
    };
    let response = respond(&query, 512, Some(&edns), |composer| composer.set_rcode(Rcode::BADCOOKIE));
    let opt = hex("00 0029 04d0 01 00 8000 003b
        000a 0010 30313233343536373839616263646566
        0003 0002 6e31
        0013 0006 0200 01020304
        0009 0004 00127500
        000b 0002 012c
        000f 0005 0018 6f6c64");
    assert_eq!(response[24..], opt);
    assert_eq!(opt.len(), edns.byte_count());
    let message = Message::parse(&response).unwrap();
    assert_eq!(message.rcode(), Rcode::BADCOOKIE);
    assert_eq!(message.edns().unwrap().options().count(), 6);
}

#[test]
fn options_that_do_not_fit_are_left_out_text_first() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::A).edns(1232, false).build();
    let long = "x".repeat(100);
    let edns =
        EdnsOut { payload: 1232, nsid: Some(b"n1"), ede: [Some((20, &long)), Some((14, ""))], ..Default::default() };
    let options = |limit: usize| {
        let mut buffer = [0; 512];
        let mut composer = Composer::new(&mut buffer, limit);
        composer.start_response(&request(&query), Rcode::REFUSED, false);
        let len = composer.finish(Some(&edns));
        let message = Message::parse(&buffer[..len]).unwrap();
        message.edns().map(|edns| edns.options().map(|(code, data)| (code, data.len())).collect::<Vec<_>>())
    };
    let bare = 24 + EdnsOut::FIXED_BYTES;
    assert_eq!(options(512), Some(vec![(3, 2), (15, 102), (15, 2)]));
    assert_eq!(options(bare + 6 + 12), Some(vec![(3, 2), (15, 2), (15, 2)]));
    assert_eq!(options(bare + 6 + 11), Some(vec![(3, 2), (15, 2)]));
    assert_eq!(options(bare + 5), Some(vec![]));
    assert_eq!(options(bare), Some(vec![]));
    assert_eq!(options(bare - 1), None);
}

#[test]
fn records_are_dropped_for_an_unreserved_opt() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::A).edns(512, false).build();
    let mut buffer = [0; 512];
    let mut composer = Composer::new(&mut buffer, 24 + 2 * 16 + 10);
    composer.start_response(&request(&query), Rcode::NOERROR, true);
    push(&mut composer, Section::Answer, "a.test", Rtype::A, &[&[1; 4], &[2; 4]]).unwrap();
    let len = composer.finish(Some(&EdnsOut { payload: 1232, ..Default::default() }));
    let message = Message::parse(&buffer[..len]).unwrap();
    assert!(message.header().tc);
    assert_eq!(message.header().counts, [1, 0, 0, 1]);
}

#[test]
fn twelve_bit_rcodes_need_opt() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::A).edns_version(1).build();
    let Parsed::Reject(reject) = parse_request(&query) else { panic!() };
    for (edns, rcode) in
        [(Some(EdnsOut { payload: 1232, ..Default::default() }), Rcode::BADVERS), (None, Rcode::SERVFAIL)]
    {
        let mut buffer = [0; 512];
        let mut composer = Composer::new(&mut buffer, 512);
        composer.start_reject(&reject);
        let len = composer.finish(edns.as_ref());
        assert_eq!(Message::parse(&buffer[..len]).unwrap().rcode(), rcode);
        assert_eq!(buffer[12..24], query[12..24]);
    }
}

#[test]
fn rejects_without_question_are_a_header() {
    let update = hex("abcd 2910 0000 0001 0002 0003");
    let Parsed::Reject(reject) = parse_request(&update) else { panic!() };
    let mut buffer = [0xEE; 512];
    let mut composer = Composer::new(&mut buffer, 512);
    composer.start_reject(&reject);
    let len = composer.finish(None);
    assert_eq!(buffer[..len], hex("abcd a901 0000 0000 0000 0000"));
}

#[test]
fn padding_fills_blocks() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::A).edns(1232, false).option(12, &[]).build();
    let edns = EdnsOut { payload: 1232, padding_block: 468, ..Default::default() };
    for extra in 0..480 {
        let text = [&[extra as u8 & 0x7F][..], &vec![b'x'; extra & 0x7F]].concat();
        let response = respond(&query, 4096, Some(&edns), |composer| {
            push(composer, Section::Answer, "a.test", Rtype::TXT, &[&text]).unwrap();
        });
        assert_eq!(response.len() % 468, 0);
        // Bytes appended later count.
        let signed = EdnsOut { behind_bytes: 83, ..edns };
        let response = respond(&query, 4096, Some(&signed), |composer| {
            push(composer, Section::Answer, "a.test", Rtype::TXT, &[&text]).unwrap();
        });
        assert_eq!((response.len() + 83) % 468, 0);
    }
    // Without room for a whole block, all remaining room is padded.
    assert_eq!(respond(&query, 100, Some(&edns), |_| ()).len(), 100);
}

#[test]
fn buffers_too_small_are_not_overrun() {
    let query = MessageBuilder::query(1, name("a.test").as_ref(), Rtype::A).edns(1232, false).build();
    for size in 0..64 {
        let mut buffer = vec![0; size];
        let mut composer = Composer::new(&mut buffer, 512);
        composer.start_response(&request(&query), Rcode::NOERROR, true);
        let _ = push(&mut composer, Section::Answer, "a.test", Rtype::A, &[&[1; 4]]);
        let len = composer.finish(Some(&EdnsOut { payload: 1232, ..Default::default() }));
        assert!(len <= size);
        assert_eq!(len == 0, size < 12, "{size}");
        assert!(size < 12 || Message::parse(&buffer[..len]).is_ok(), "{size}");
    }
}
