//! Frames of a checkpoint transfer.

use crate::checkpoint::{CheckpointHeader, Manifest, Part, Table, TransferFrame};
use raft::eraftpb::ConfState;

/// Frames and announcements are encoded as they were decoded.
///
/// # Panics
/// If not.
pub fn transfer(bytes: &[u8]) {
    if let Ok(frame) = TransferFrame::decode(bytes) {
        let mut written = Vec::new();
        frame.encode(&mut written);
        assert_eq!(written, bytes);
    }
    if let Some(manifest) = Manifest::decode(bytes) {
        assert_eq!(Manifest::decode(&manifest.encode()), Some(manifest));
    }
    if let Some((announced, table)) = bytes.split_at_checked(bytes.len() / 2)
        && let Some(manifest) = Manifest::decode(announced)
        && let Some(table) = Table::decode(&manifest, table.to_vec())
    {
        assert!((0..table.block_count()).all(|number| table.line(number).is_some()));
    }
    let _ = CheckpointHeader::decode(bytes);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let checkpoint = [7; 32];
    let frames = [
        TransferFrame::Get { checkpoint, part: Part::Data, from: 3, count: 8 },
        TransferFrame::Block { checkpoint, part: Part::Table, number: 0, bytes: vec![5; 40] },
        TransferFrame::Gone { checkpoint },
    ];
    let mut seeds: Vec<Vec<u8>> = frames
        .iter()
        .map(|frame| {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            bytes
        })
        .collect();
    let members = ConfState { voters: vec![1, 2, 3], learners: vec![4], ..ConfState::default() };
    let header = CheckpointHeader { cluster: [1; 16], group: 0, index: 9, term: 2, feature_level: 2, members };
    seeds.push(header.encode());
    let mut table = Table::new();
    table.push(crate::checkpoint::Section(1), b"a block");
    table.push(crate::checkpoint::Section(2), b"another");
    let manifest = Manifest::new(header, &table);
    seeds.push(manifest.encode());
    seeds.push([manifest.encode(), table.as_bytes().to_vec()].concat());
    seeds
}
