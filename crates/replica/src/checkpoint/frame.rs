//! Messages between members in a transfer. The peer codec adds the envelope (group and kind of frame).

use super::format::CheckpointId;
use super::limits::{BLOCK_BYTES_MAX, GET_COUNT_MAX};
use crate::bytes::Cursor;
use core::fmt;

/// A part of a checkpoint that is sent in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The table of blocks, cut into blocks itself.
    Table,
    /// The blocks.
    Data,
}

/// One message of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferFrame {
    /// Requests blocks.
    Get {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The part.
        part: Part,
        /// The first block.
        from: u32,
        /// Number of blocks, at least one and at most [`GET_COUNT_MAX`].
        count: u16,
    },
    /// Carries one block.
    Block {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The part.
        part: Part,
        /// Its number.
        number: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The requested member does not have the checkpoint.
    Gone {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
}

/// Why a frame was refused; the peer is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame is too short or too long, or its kind or part is unknown.
    Malformed,
    /// A count or length is beyond its limit.
    TooLarge,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed frame",
            Self::TooLarge => "frame beyond a limit",
        })
    }
}

impl std::error::Error for FrameError {}

const KIND_GET: u8 = 1;
const KIND_BLOCK: u8 = 2;
const KIND_GONE: u8 = 3;

impl TransferFrame {
    /// Appends the bytes of the frame.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Get { checkpoint, part, from, count } => {
                bytes.push(KIND_GET);
                bytes.extend_from_slice(checkpoint);
                bytes.push(*part as u8);
                bytes.extend_from_slice(&from.to_be_bytes());
                bytes.extend_from_slice(&count.to_be_bytes());
            }
            Self::Block { checkpoint, part, number, bytes: block } => {
                bytes.reserve(42 + block.len());
                bytes.push(KIND_BLOCK);
                bytes.extend_from_slice(checkpoint);
                bytes.push(*part as u8);
                bytes.extend_from_slice(&number.to_be_bytes());
                bytes.extend_from_slice(&(block.len() as u32).to_be_bytes());
                bytes.extend_from_slice(block);
            }
            Self::Gone { checkpoint } => {
                bytes.push(KIND_GONE);
                bytes.extend_from_slice(checkpoint);
            }
        }
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`FrameError`]: the peer is at fault.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let mut at = Cursor::new(bytes);
        let frame = Self::parse(&mut at).ok_or(FrameError::Malformed)??;
        if at.is_at_end() { Ok(frame) } else { Err(FrameError::Malformed) }
    }

    fn parse(at: &mut Cursor<'_>) -> Option<Result<Self, FrameError>> {
        let (kind, checkpoint) = (at.u8()?, at.array()?);
        Some(Ok(match kind {
            KIND_GET => {
                let (part, from, count) = (part(at.u8()?)?, at.u32()?, at.u16()?);
                if !(1..=GET_COUNT_MAX).contains(&count) {
                    return Some(Err(FrameError::TooLarge));
                }
                Self::Get { checkpoint, part, from, count }
            }
            KIND_BLOCK => {
                let (part, number, len) = (part(at.u8()?)?, at.u32()?, at.u32()? as usize);
                if len > BLOCK_BYTES_MAX {
                    return Some(Err(FrameError::TooLarge));
                }
                Self::Block { checkpoint, part, number, bytes: at.take(len)?.to_vec() }
            }
            KIND_GONE => Self::Gone { checkpoint },
            _ => return None,
        }))
    }
}

fn part(code: u8) -> Option<Part> {
    match code {
        0 => Some(Part::Table),
        1 => Some(Part::Data),
        _ => None,
    }
}
