//! The head of a chunk: sizes, time range and packing.

use super::index::Span;
use super::{concat_parts, is_sealed, sealed, u32_at, u64_at};
use crate::limits::{CHUNK_MESSAGES_MAX, CHUNK_UNPACKED_BYTES_MAX};

/// First bytes of a chunk.
pub(super) const KIND: [u8; 4] = *b"CHNK";
/// Bytes of its head.
pub(super) const HEAD_BYTES: usize = 44;
const SEAL_AT: usize = HEAD_BYTES - 4;

/// Packing of the columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packing {
    /// Not packed.
    Plain = 0,
    /// One block of LZ4.
    Lz4 = 1,
}

/// The head of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) messages: usize,
    pub(super) packed_bytes: usize,
    pub(super) unpacked_bytes: usize,
    pub(super) earliest_ns: u64,
    pub(super) latest_ns: u64,
    pub(super) packing: Packing,
    /// Checksum of the packed columns.
    pub(super) checksum: u32,
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let bytes_of = |number: usize| (number as u32).to_le_bytes();
        let parts: [&[u8]; 8] = [
            &KIND,
            &bytes_of(self.messages),
            &bytes_of(self.packed_bytes),
            &bytes_of(self.unpacked_bytes),
            &self.earliest_ns.to_le_bytes(),
            &self.latest_ns.to_le_bytes(),
            &bytes_of(self.packing as usize),
            &self.checksum.to_le_bytes(),
        ];
        sealed(concat_parts(&parts), SEAL_AT)
    }

    /// Checks the checksum and the limits before any value is used or memory is allocated.
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Self, &'static str> {
        if !is_sealed(bytes, SEAL_AT) {
            return Err("the head of a chunk is damaged: wrong checksum");
        }
        let [messages, packed_bytes, unpacked_bytes] = [4, 8, 12].map(|at| u32_at(bytes, at) as usize);
        let (earliest_ns, latest_ns) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let packing = match u32_at(bytes, 32) {
            0 => Packing::Plain,
            1 => Packing::Lz4,
            _ => return Err("a chunk is packed in a way that this version does not know"),
        };
        if messages == 0 || messages > CHUNK_MESSAGES_MAX || earliest_ns > latest_ns {
            return Err("the head of a chunk contradicts itself");
        }
        if packed_bytes.max(unpacked_bytes) > CHUNK_UNPACKED_BYTES_MAX {
            return Err("a chunk is larger than any can be");
        }
        let checksum = u32_at(bytes, 36);
        Ok(Self { messages, packed_bytes, unpacked_bytes, earliest_ns, latest_ns, packing, checksum })
    }

    pub(super) fn overlaps(&self, span: Span) -> bool {
        span.overlaps(self.earliest_ns, self.latest_ns)
    }
}
