//! The bytes of a record, written by hand.

use super::harness::{entry, small_id};
use crate::log::record::{HEADER_BYTES, Header, decode_header, disk_bytes, encode, for_each_entry};
use crate::log::{CheckpointRef, Position};
use raft::eraftpb::{Entry, HardState};

fn header() -> Header {
    Header {
        id: small_id(),
        cleared: true,
        segment: 0x21,
        offset: 0x400,
        number: 0x22,
        body_bytes: 0,
        entry_count: 0,
        first: 0x31,
        last: 0x32,
        hard_state: HardState { term: 0x41, vote: 0x42, commit: 0x31, ..HardState::default() },
        base: Position { index: 0x30, term: 0x40 },
        oldest_segment: 0x20,
        checkpoint: CheckpointRef { index: 0x30, term: 0x40, id: [0xCC; 32] },
        contact_wall_ms: 0x51,
        previous_crc: 0x6162_6364,
        body_crc: 0,
        header_crc: 0,
    }
}

fn golden_header(body_crc: u32) -> Vec<u8> {
    let mut bytes =
        b"\xA5CtLg\x00\x01\x01\x00cluster-of-tests\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x06".to_vec();
    for number in [0x21_u64, 0x400, 0x22] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(b"\x00\x00\x00\x29\x00\x00\x00\x02");
    for number in [0x31_u64, 0x32, 0x41, 0x42, 0x31, 0x30, 0x40, 0x20, 0x30, 0x40] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&[0xCC; 32]);
    bytes.extend_from_slice(&0x51_u64.to_be_bytes());
    bytes.extend_from_slice(b"\x61\x62\x63\x64");
    bytes.extend_from_slice(&body_crc.to_be_bytes());
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    bytes
}

#[test]
fn a_record_has_its_golden_bytes() {
    let mut first = Entry { index: 0x31, term: 0x41, ..Entry::default() };
    first.data = b"data".to_vec().into();
    first.context = b"ctx".to_vec().into();
    let mut second = Entry { index: 0x32, term: 0x41, ..Entry::default() };
    second.set_entry_type(raft::eraftpb::EntryType::EntryConfChangeV2);
    let mut header = header();
    let bytes = encode(&mut header, [&first, &second].into_iter());

    let mut golden_body = b"\x00\x00\x00\x00\x00\x00\x00\x41\x00\x00\x00\x00\x03\x00\x00\x00\x04ctxdata".to_vec();
    golden_body.extend_from_slice(b"\x00\x00\x00\x00\x00\x00\x00\x41\x02\x00\x00\x00\x00\x00\x00\x00\x00");
    assert_eq!(golden_body.len(), 0x29);
    golden_body.resize(512 - 1 - HEADER_BYTES, 0);
    let mut golden = golden_header(crc32c::crc32c(&golden_body));
    assert_eq!(golden.len(), 1 + HEADER_BYTES);
    golden.extend_from_slice(&golden_body);
    assert_eq!(bytes, golden);

    let decoded = decode_header(&bytes).unwrap();
    assert_eq!(decoded, header);
    let mut entries = Vec::new();
    for_each_entry(&decoded, &bytes, |parts| entries.push(parts.to_entry())).unwrap();
    assert_eq!(entries, [first, second]);
}

#[test]
fn entries_survive_the_stamps_and_no_sector_is_all_zero() {
    for size in [0, 1, 297, 298, 299, 510, 511, 512, 513, 5000] {
        let mut zeros = Entry { index: 1, term: 1, ..Entry::default() };
        zeros.data = vec![0; size].into();
        let mut header = header();
        (header.first, header.last) = (1, 1);
        let bytes = encode(&mut header, [&zeros].into_iter());
        assert_eq!(bytes.len() as u64, disk_bytes(header.body_bytes as usize));
        assert!(!crate::log::record::has_unwritten_sector(&bytes), "size {size}");
        let mut entries = Vec::new();
        for_each_entry(&header, &bytes, |parts| entries.push(parts.to_entry())).unwrap();
        assert_eq!(entries, [zeros]);
    }
}

/// 512 entries of 200 bytes in at most 0.2 ms in an optimized build: `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "measures time; wants an optimised build"]
#[expect(clippy::disallowed_methods, reason = "measures")]
fn encoding_is_cheap() {
    let entries: Vec<Entry> = (1..=512).map(|index| entry(index, 1, 200)).collect();
    let mut best = u128::MAX;
    for _ in 0..200 {
        let start = std::time::Instant::now();
        let mut header = header();
        (header.first, header.last) = (1, 512);
        let bytes = encode(&mut header, entries.iter());
        best = best.min(start.elapsed().as_nanos());
        assert!(bytes.len() > 512 * 200);
    }
    println!("512 entries of 200 bytes: {} us", best as f64 / 1000.0);
    assert!(best <= 200_000, "{best} ns");
}
