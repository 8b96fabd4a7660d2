//! The bytes of header, table, trailer and manifest, written by hand; and limits of peers' messages.

use super::header;
use crate::checkpoint::format::{CheckpointHeader, DamageKind, HEADER_BYTES, Section, Table};
use crate::checkpoint::limits::{BLOCK_BYTES_MAX, GET_COUNT_MAX, MANIFEST_BYTES_MAX};
use crate::checkpoint::{FrameError, Manifest, Part, TransferFrame};
use proptest::prelude::*;

fn golden_fields() -> Vec<u8> {
    let mut bytes = b"cluster-of-tests\x00\x00\x00\x06".to_vec();
    bytes.extend_from_slice(b"\x00\x00\x00\x00\x00\x00\x00\x31\x00\x00\x00\x00\x00\x00\x00\x41");
    bytes.extend_from_slice(b"\x00\x00\x00\x02\x01");
    bytes.extend_from_slice(b"\x00\x03");
    for id in [1_u64, 2, 3] {
        bytes.extend_from_slice(&id.to_be_bytes());
    }
    bytes.extend_from_slice(b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00");
    bytes
}

#[test]
fn a_checkpoint_has_its_golden_bytes() {
    let mut golden = b"CtCp\x00\x01\x00\x51".to_vec();
    golden.extend_from_slice(&golden_fields());
    assert_eq!(golden.len(), 8 + 0x51);
    golden.resize(HEADER_BYTES - 4, 0);
    let crc = crc32c::crc32c(&golden);
    golden.extend_from_slice(&crc.to_be_bytes());
    assert_eq!(header().encode(), golden);

    let mut table = Table::new();
    assert_eq!(table.push(Section(0x0102), b"123456789"), 4096);
    assert_eq!(table.push(Section(3), b""), 4105);
    // The check value of CRC-32C is E3069283.
    assert_eq!(table.as_bytes(), b"\x01\x02\x00\x00\x00\x09\xE3\x06\x92\x83\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00");

    let manifest = Manifest::new(header(), &table);
    let digest = ring::digest::digest(&ring::digest::SHA256, &[header().encode(), table.as_bytes().to_vec()].concat());
    assert_eq!(manifest.id, digest.as_ref());
    let mut trailer = b"CtCe\x00\x01\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x09".to_vec();
    trailer.extend_from_slice(&manifest.id);
    trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_be_bytes());
    assert_eq!(manifest.encode_trailer(), trailer);
    assert_eq!(manifest.file_bytes(), 4096 + 9 + 20 + 56);
    let [a, b, c, d, ..] = manifest.id;
    assert_eq!(manifest.file(), format!("checkpoint-0000000000000031-{a:02x}{b:02x}{c:02x}{d:02x}"));

    let mut golden = b"\x00\x01".to_vec();
    golden.extend_from_slice(&golden_fields());
    golden.extend_from_slice(b"\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x09");
    golden.extend_from_slice(&manifest.id);
    assert_eq!(manifest.encode(), golden);
    let decoded = Manifest::decode(&golden).unwrap();
    assert_eq!((decoded.encode(), decoded.header.members.voters), (golden, vec![1, 2, 3]));
}

#[test]
fn frames_have_their_golden_bytes() {
    let checkpoint = [0xCC; 32];
    let get = TransferFrame::Get { checkpoint, part: Part::Data, from: 0x0102, count: 8 };
    let block = TransferFrame::Block { checkpoint, part: Part::Table, number: 3, bytes: b"xyz".to_vec() };
    let gone = TransferFrame::Gone { checkpoint };
    for (frame, head, tail) in [
        (get, b"\x01", &b"\x01\x00\x00\x01\x02\x00\x08"[..]),
        (block, b"\x02", b"\x00\x00\x00\x00\x03\x00\x00\x00\x03xyz"),
        (gone, b"\x03", b""),
    ] {
        let golden = [&head[..], &checkpoint, tail].concat();
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        assert_eq!(bytes, golden);
        assert_eq!(TransferFrame::decode(&bytes), Ok(frame));
        for len in 0..bytes.len() {
            assert_eq!(TransferFrame::decode(&bytes[..len]), Err(FrameError::Malformed));
        }
        bytes.push(0);
        assert_eq!(TransferFrame::decode(&bytes), Err(FrameError::Malformed));
    }
}

#[test]
fn what_a_peer_sends_is_bounded() {
    for count in [0, GET_COUNT_MAX + 1] {
        let mut bytes = Vec::new();
        TransferFrame::Get { checkpoint: [0; 32], part: Part::Data, from: 0, count }.encode(&mut bytes);
        assert_eq!(TransferFrame::decode(&bytes), Err(FrameError::TooLarge));
    }
    let mut bytes = Vec::new();
    let block = vec![0; BLOCK_BYTES_MAX + 1];
    TransferFrame::Block { checkpoint: [0; 32], part: Part::Data, number: 0, bytes: block }.encode(&mut bytes);
    assert_eq!(TransferFrame::decode(&bytes), Err(FrameError::TooLarge));

    let manifest = Manifest::new(header(), &Table::new());
    assert!(Manifest::decode(&Manifest { block_count: u32::MAX, ..manifest.clone() }.encode()).is_none());
    assert!(Manifest::decode(&Manifest { data_bytes: 1, ..manifest.clone() }.encode()).is_none());
    assert!(Manifest::decode(&vec![0; MANIFEST_BYTES_MAX + 1]).is_none());
    // Lists are sorted without repeats; otherwise one configuration could have two digests.
    let mut bytes = manifest.encode();
    let voters = bytes.windows(8).position(|window| window == [0, 0, 0, 0, 0, 0, 0, 2]).unwrap();
    bytes[voters + 7] = 1;
    assert!(Manifest::decode(&bytes).is_none());
}

#[test]
fn another_version_is_named() {
    let mut bytes = header().encode();
    bytes[5] = 9;
    let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(CheckpointHeader::decode(&bytes), Err(DamageKind::Version(9)));
}

proptest! {
    #[test]
    fn no_bytes_of_a_peer_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0_u8..4) {
        let _ = TransferFrame::decode(&bytes);
        let _ = TransferFrame::decode(&[&[kind][..], &bytes].concat());
        let _ = Manifest::decode(&bytes);
        let _ = Manifest::decode(&[&[0, 1][..], &bytes].concat());
        let _ = crate::checkpoint::items(0, &bytes).count();
    }
}
