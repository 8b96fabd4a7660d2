//! The errors that RFC 9267 lists, one test each, and the bounds on work.

use catamaran_wire::limits::{MESSAGE_BYTES_MAX, NAME_STEPS_MAX};
use catamaran_wire::{
    Class, Message, MessageBuilder, Name, NameBuf, NameError, ParseError, Parsed, RejectReason, Rtype, Section,
    parse_request,
};

const HEADER: [u8; 12] = [0; 12];

fn message(body: &[u8]) -> Vec<u8> {
    [&HEADER[..], body].concat()
}

fn read(body: &[u8], at: usize) -> Result<String, NameError> {
    NameBuf::read(&message(body), 12 + at).map(|(name, _)| name.to_string())
}

fn reason(bytes: &[u8]) -> RejectReason {
    match parse_request(bytes) {
        Parsed::Reject(reject) => reject.reason,
        other => panic!("{other:?}"),
    }
}

/// RFC 9267 2: pointers to themselves, forward, into the header, in loops, past the end.
#[test]
fn pointers_only_point_backwards() {
    assert_eq!(read(b"\x01a\0\x01b\xC0\x0C", 3), Ok("b.a.".into()));
    for (body, at) in [
        (&b"\xC0\x0C"[..], 0),
        (b"\xC0\x0E\0\0", 0),
        (b"\xC0\x00", 0),
        (b"\x01a\xC0\x0B", 0),
        (b"\x01a\xC0\x0C", 0),
        (b"\xC0\x0E\xC0\x0C", 2),
        (b"\xC0\xFF", 0),
        (b"\xFF\xFF", 0),
    ] {
        assert_eq!(read(body, at), Err(NameError::Pointer), "{body:?}");
    }
    // Back, but into the labels before the pointer itself.
    assert_eq!(read(b"\x01a\x01b\xC0\x0E", 0), Err(NameError::Pointer));
    assert_eq!(read(b"\x01a\0\xC0", 3), Err(NameError::Short));
}

/// RFC 9267 2: two high bits mark a pointer; the other label types are unused.
#[test]
fn label_types_not_in_use_are_refused() {
    for byte in 0x40..0xC0 {
        assert_eq!(read(&[byte, 0, 0], 0), Err(NameError::Label), "{byte:#x}");
    }
}

/// RFC 9267 3: a name has at most 255 bytes, with or without pointers.
#[test]
fn names_are_bounded_after_decompression() {
    let label = |byte: u8, len: usize| [vec![len as u8], vec![byte; len]].concat();
    let end = [label(b'a', 63), label(b'b', 63), label(b'c', 63), vec![0]].concat();
    let with = |len: usize| [end.clone(), label(b'd', len), vec![0xC0, 0x0C]].concat();
    assert_eq!(NameBuf::read(&message(&with(61)), 12 + end.len()).unwrap().0.as_bytes().len(), 255);
    assert_eq!(read(&with(62), end.len()), Err(NameError::Long));
    // 127 labels of one byte are 255 bytes, 128 are not.
    let labels = |count: usize| [b"\x01a".repeat(count), vec![0]].concat();
    assert_eq!(NameBuf::read(&message(&labels(127)), 12).unwrap().0.as_ref().label_count(), 127);
    assert_eq!(read(&labels(128), 0), Err(NameError::Long));
}

/// RFC 9267 4: the root label must exist, and need not end the message.
#[test]
fn a_name_without_root_label_is_short() {
    for body in [&b""[..], b"\x03", b"\x03ab", b"\x03abc", b"\x03abc\x01"] {
        assert_eq!(read(body, 0), Err(NameError::Short), "{body:?}");
    }
    // A zero byte inside a label ends nothing.
    assert_eq!(read(b"\x03a\0b\0", 0), Ok("a\\000b.".into()));
}

/// RFC 9267 5: RDLENGTH is too large or too small.
#[test]
fn rdlength_is_checked_against_the_message() {
    let root = Name::root();
    let record = |rdata: &[u8]| {
        MessageBuilder::query(1, root.as_ref(), Rtype::A)
            .record(Section::Additional, root.as_ref(), Rtype::A, Class::IN, 0, rdata)
            .build()
    };
    let good = record(&[1, 2, 3, 4]);
    assert!(Message::parse(&good).is_ok());
    let with_len = |len: u16| {
        let mut bytes = good.clone();
        let at = bytes.len() - 6;
        bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
        bytes
    };
    assert_eq!(reason(&with_len(5)), RejectReason::PastEnd);
    assert_eq!(reason(&with_len(65_535)), RejectReason::PastEnd);
    assert_eq!(reason(&with_len(3)), RejectReason::LeftOver);
}

/// RFC 9267 6: counts that are too large or too small.
#[test]
fn counts_are_checked_against_the_message() {
    let root = Name::root();
    let good = MessageBuilder::query(1, root.as_ref(), Rtype::A).edns(1232, false).build();
    for section in [6, 8, 10] {
        let mut bytes = good.clone();
        bytes[section] = 0xFF;
        assert_eq!(reason(&bytes), RejectReason::PastEnd, "count at {section}");
    }
    let mut bytes = good;
    bytes[11] = 0;
    assert_eq!(reason(&bytes), RejectReason::LeftOver);
}

/// Every owner of a message of the largest size is a chain of pointers. The total work is bounded, and the bound is the
/// reason for the refusal.
#[test]
fn pointer_chains_do_not_multiply() {
    let root = Name::root();
    // The rdata of the first record is a ladder: each rung a label and a pointer to the rung before.
    let first_rung = 12 + 1 + 4 + 11;
    let mut ladder = b"\x01a\0".to_vec();
    let mut at = first_rung;
    for _ in 0..125 {
        let pointer = 0xC000 | at as u16;
        at = first_rung + ladder.len();
        ladder.extend_from_slice(b"\x01a");
        ladder.extend_from_slice(&pointer.to_be_bytes());
    }
    let mut bytes = MessageBuilder::update(1, root.as_ref())
        .record(Section::UPDATE, root.as_ref(), Rtype::NULL, Class::IN, 0, &ladder)
        .build();
    let last_rung = (0xC000 | at as u16).to_be_bytes();
    let mut count = 1u16;
    while bytes.len() + 12 <= MESSAGE_BYTES_MAX {
        bytes.extend_from_slice(&last_rung);
        bytes.extend_from_slice(&[0, 1, 0, 255, 0, 0, 0, 0, 0, 0]);
        count += 1;
        bytes[8..10].copy_from_slice(&count.to_be_bytes());
        if count == 1000 {
            // The number of records that an UPDATE may have by default is accepted.
            assert!(matches!(parse_request(&bytes), Parsed::Request(_)));
        }
    }
    assert!(u32::from(count) * 250 > NAME_STEPS_MAX, "{count} owners of 250 steps are too few for this test");
    assert_eq!(reason(&bytes), RejectReason::NameMalformed);
    assert_eq!(Message::parse(&bytes).unwrap_err(), ParseError::Name(NameError::Pointer));
}

/// A message full of records with different owners is read completely.
#[test]
fn a_message_full_of_records_is_read() {
    let mut builder = MessageBuilder::update(1, Name::root().as_ref());
    let mut count = 0u16;
    while builder.byte_count() + 20 <= MESSAGE_BYTES_MAX {
        let owner: Name = format!("{count}.").parse().unwrap();
        builder = builder.delete_rrset(owner.as_ref(), Rtype::A);
        count += 1;
    }
    let bytes = builder.build();
    let Parsed::Request(request) = parse_request(&bytes) else { panic!("{:?}", parse_request(&bytes)) };
    let records: Vec<_> = request.records(Section::UPDATE).map(Result::unwrap).collect();
    assert_eq!(records.len(), usize::from(count));
    assert_eq!(records[4_000].owner.to_string(), "4000.");
}
