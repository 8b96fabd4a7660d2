//! The file format of a checkpoint.
//!
//! | part | bytes | what |
//! |---|---|---|
//! | header | 4,096 | magic `CtCp`, version (2), length of the fields after it (2), fields, zeros, CRC-32C (4) |
//! | blocks | up to 256 KiB each | items of one section, each with its length (4) before it |
//! | table | 10 a block | section (2), bytes (4), CRC-32C (4) |
//! | trailer | 56 | magic `CtCe`, version (2), zero (2), blocks (4), bytes of all (8), digest (32), CRC-32C (4) |
//!
//! Fields of the header: cluster id (16), group (4), index (8), term (8), feature level (4), whether a joint
//! configuration ends by itself (1), then four sorted lists of raft ids, each with its count (2) before it: voters,
//! learners, outgoing voters, next learners. Numbers are big-endian. The digest is SHA-256 over header and table; it
//! vouches for every byte, since the table holds a checksum of each block, and it is the checkpoint's id.

use super::limits::{BLOCK_BYTES_MAX, BLOCKS_MAX, MANIFEST_BYTES_MAX, MEMBERS_MAX};
use super::name::{CheckpointRef, checkpoint_file};
use crate::bytes::Cursor;
use core::fmt;
use raft::eraftpb::ConfState;
use ring::digest::{Context, SHA256};

/// SHA-256 over header and table.
pub type CheckpointId = [u8; 32];

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Bytes of the trailer.
pub(crate) const TRAILER_BYTES: usize = 56;
/// Bytes of a block's line in the table.
pub(crate) const LINE_BYTES: usize = 10;
const MAGIC: [u8; 4] = *b"CtCp";
const MAGIC_TRAILER: [u8; 4] = *b"CtCe";
const VERSION: u16 = 1;

/// A kind of item. The replica defines its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Section(pub u16);

/// Description of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointHeader {
    /// The cluster.
    pub cluster: [u8; 16],
    /// The raft group.
    pub group: u32,
    /// Index of the last entry that it contains.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// Feature level of the cluster at that index.
    pub feature_level: u32,
    /// Members at that index. Lists are sorted when encoded, because raft returns them in the order of a hash map.
    pub members: ConfState,
}

/// All that a member must know before it requests blocks. `MsgSnapshot` carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Description of the checkpoint.
    pub header: CheckpointHeader,
    /// Number of blocks.
    pub block_count: u32,
    /// Bytes of all blocks.
    pub data_bytes: u64,
    /// Digest over header and table.
    pub id: CheckpointId,
}

/// A damaged checkpoint. The fault is on the local disk, or with the peer that sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointDamage {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub what: DamageKind,
}

/// Kinds of [`CheckpointDamage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The header.
    Header,
    /// The table of blocks.
    Table,
    /// The trailer, or the size of the file.
    Trailer,
    /// A block.
    Block(u32),
    /// Another checkpoint than the expected one.
    Other,
    /// A format version that this software does not know.
    Version(u16),
}

impl fmt::Display for CheckpointDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match self.what {
            DamageKind::Header => write!(f, "{file}: the header is damaged"),
            DamageKind::Table => write!(f, "{file}: the table of blocks is damaged"),
            DamageKind::Trailer => write!(f, "{file}: the trailer is damaged, or the file is truncated"),
            DamageKind::Block(number) => write!(f, "{file}: block {number} is damaged"),
            DamageKind::Other => write!(f, "{file}: not the expected checkpoint"),
            DamageKind::Version(version) => write!(f, "{file}: format version {version} is unknown"),
        }
    }
}

impl std::error::Error for CheckpointDamage {}

impl CheckpointHeader {
    /// The fields, without padding.
    fn encode_fields(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&self.cluster);
        bytes.extend_from_slice(&self.group.to_be_bytes());
        bytes.extend_from_slice(&self.index.to_be_bytes());
        bytes.extend_from_slice(&self.term.to_be_bytes());
        bytes.extend_from_slice(&self.feature_level.to_be_bytes());
        let members = &self.members;
        bytes.push(u8::from(members.auto_leave));
        for list in [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next] {
            assert!(list.len() <= MEMBERS_MAX, "membership is bounded where it changes");
            let mut sorted = list.clone();
            sorted.sort_unstable();
            bytes.extend_from_slice(&(sorted.len() as u16).to_be_bytes());
            sorted.iter().for_each(|id| bytes.extend_from_slice(&id.to_be_bytes()));
        }
        bytes
    }

    fn decode_fields(at: &mut Cursor<'_>) -> Option<Self> {
        let (cluster, group) = (at.array()?, at.u32()?);
        let (index, term, feature_level) = (at.u64()?, at.u64()?, at.u32()?);
        let auto_leave = match at.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let mut list = || -> Option<Vec<u64>> {
            let count = usize::from(at.u16()?);
            if count > MEMBERS_MAX {
                return None;
            }
            let ids: Vec<u64> = (0..count).map(|_| at.u64()).collect::<Option<_>>()?;
            ids.is_sorted_by(|a, b| a < b).then_some(ids)
        };
        let mut members = ConfState { auto_leave, ..ConfState::default() };
        (members.voters, members.learners) = (list()?, list()?);
        (members.voters_outgoing, members.learners_next) = (list()?, list()?);
        Some(Self { cluster, group, index, term, feature_level, members })
    }

    /// The header as it stands in the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let fields = self.encode_fields();
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&(fields.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&fields);
        bytes.resize(HEADER_BYTES - 4, 0);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Reads the header of a file.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DamageKind> {
        let (covered, stored) = bytes.split_last_chunk::<4>().ok_or(DamageKind::Header)?;
        if bytes.len() != HEADER_BYTES || crc32c::crc32c(covered).to_be_bytes() != *stored {
            return Err(DamageKind::Header);
        }
        let mut at = Cursor::new(covered);
        if at.array() != Some(MAGIC) {
            return Err(DamageKind::Header);
        }
        let version = at.u16().ok_or(DamageKind::Header)?;
        if version != VERSION {
            return Err(DamageKind::Version(version));
        }
        let fields = at.u16().and_then(|len| at.take(usize::from(len))).ok_or(DamageKind::Header)?;
        let mut fields = Cursor::new(fields);
        let header = Self::decode_fields(&mut fields).ok_or(DamageKind::Header)?;
        if fields.is_at_end() { Ok(header) } else { Err(DamageKind::Header) }
    }
}

impl Manifest {
    /// The manifest of a checkpoint with this header and table.
    pub(crate) fn new(header: CheckpointHeader, table: &Table) -> Self {
        let id = digest(&header.encode(), &table.bytes);
        Self { header, block_count: table.block_count(), data_bytes: table.data_bytes(), id }
    }

    /// The reference to the checkpoint that the log stores.
    pub fn reference(&self) -> CheckpointRef {
        CheckpointRef { index: self.header.index, term: self.header.term, id: self.id }
    }

    /// Name of its file.
    pub fn file(&self) -> String {
        checkpoint_file(&self.reference())
    }

    /// Size of its file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.trailer_offset() + TRAILER_BYTES as u64
    }

    pub(crate) fn table_offset(&self) -> u64 {
        HEADER_BYTES as u64 + self.data_bytes
    }

    pub(crate) fn table_bytes(&self) -> usize {
        self.block_count as usize * LINE_BYTES
    }

    pub(crate) fn trailer_offset(&self) -> u64 {
        self.table_offset() + self.table_bytes() as u64
    }

    /// The bytes that `MsgSnapshot` carries.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.header.encode_fields());
        bytes.extend_from_slice(&self.block_count.to_be_bytes());
        bytes.extend_from_slice(&self.data_bytes.to_be_bytes());
        bytes.extend_from_slice(&self.id);
        bytes
    }

    /// Decodes a peer's manifest; `None` if it is malformed, of another version or beyond a limit.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MANIFEST_BYTES_MAX {
            return None;
        }
        let mut at = Cursor::new(bytes);
        if at.u16()? != VERSION {
            return None;
        }
        let header = CheckpointHeader::decode_fields(&mut at)?;
        let manifest = Self { header, block_count: at.u32()?, data_bytes: at.u64()?, id: at.array()? };
        let is_bounded = manifest.block_count <= BLOCKS_MAX
            && manifest.data_bytes <= u64::from(manifest.block_count) * BLOCK_BYTES_MAX as u64;
        (is_bounded && at.is_at_end()).then_some(manifest)
    }

    pub(crate) fn encode_trailer(&self) -> Vec<u8> {
        let mut bytes = MAGIC_TRAILER.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.block_count.to_be_bytes());
        bytes.extend_from_slice(&self.data_bytes.to_be_bytes());
        bytes.extend_from_slice(&self.id);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Decodes the trailer of a file with this header.
    pub(crate) fn decode_trailer(header: CheckpointHeader, bytes: &[u8]) -> Option<Self> {
        let mut at = Cursor::new(bytes);
        at.take(8)?;
        let manifest = Self { header, block_count: at.u32()?, data_bytes: at.u64()?, id: at.array()? };
        let is_bounded = manifest.block_count <= BLOCKS_MAX
            && manifest.data_bytes <= u64::from(manifest.block_count) * BLOCK_BYTES_MAX as u64;
        (is_bounded && manifest.encode_trailer() == bytes).then_some(manifest)
    }
}

/// Sections, sizes and checksums of all blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    bytes: Vec<u8>,
    /// The offset of each block in the file, and the end of the last one.
    offsets: Vec<u64>,
}

/// One line of a [`Table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) section: Section,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    crc: u32,
}

impl Line {
    /// Whether these are the bytes of the block.
    pub(crate) fn is_block(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.len && (crc32c::crc32c(bytes) == self.crc || planted!(BlockChecksumIgnored))
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), offsets: vec![HEADER_BYTES as u64] }
    }

    /// Adds a block; returns its offset in the file.
    pub(crate) fn push(&mut self, section: Section, block: &[u8]) -> u64 {
        self.bytes.extend_from_slice(&section.0.to_be_bytes());
        self.bytes.extend_from_slice(&(block.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(&crc32c::crc32c(block).to_be_bytes());
        let offset = *self.offsets.last().expect("there is always an end");
        self.offsets.push(offset + block.len() as u64);
        offset
    }

    /// Decodes the table of a manifest and checks its digest.
    pub(crate) fn decode(manifest: &Manifest, bytes: Vec<u8>) -> Option<Self> {
        if bytes.len() != manifest.table_bytes() || digest(&manifest.header.encode(), &bytes) != manifest.id {
            return None;
        }
        let mut offsets = vec![HEADER_BYTES as u64];
        for line in bytes.chunks(LINE_BYTES) {
            let len = u32::from_be_bytes(line[2..6].try_into().ok()?);
            if len as usize > BLOCK_BYTES_MAX {
                return None;
            }
            offsets.push(offsets.last()? + u64::from(len));
        }
        (*offsets.last()? == manifest.table_offset()).then_some(Self { bytes, offsets })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of blocks.
    pub fn block_count(&self) -> u32 {
        (self.bytes.len() / LINE_BYTES) as u32
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        self.offsets.last().expect("there is always an end") - HEADER_BYTES as u64
    }

    pub(crate) fn line(&self, number: u32) -> Option<Line> {
        let mut at = Cursor::new(self.bytes.chunks(LINE_BYTES).nth(number as usize)?);
        let offset = *self.offsets.get(number as usize)?;
        Some(Line { section: Section(at.u16()?), offset, len: at.u32()? as usize, crc: at.u32()? })
    }
}

/// The items of a block.
///
/// # Errors
/// [`DamageKind::Block`] if the lengths do not add up: the block was encoded wrongly or not verified.
pub fn items(number: u32, block: &[u8]) -> impl Iterator<Item = Result<&[u8], DamageKind>> {
    let mut at = Cursor::new(block);
    let mut is_over = false;
    core::iter::from_fn(move || {
        if is_over || at.is_at_end() {
            return None;
        }
        let item = at.u32().and_then(|len| at.take(len as usize));
        is_over = item.is_none();
        Some(item.ok_or(DamageKind::Block(number)))
    })
}

fn digest(header: &[u8], table: &[u8]) -> CheckpointId {
    let mut context = Context::new(&SHA256);
    context.update(header);
    context.update(table);
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}
