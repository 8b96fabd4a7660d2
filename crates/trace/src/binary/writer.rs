//! Writes binary traces, chunk by chunk.

use super::chunk::{Head, Packing};
use super::chunk_builder::ChunkBuilder;
use super::index::Index;
use super::{END, END_BYTES, HEAD_BYTES, concat_parts, head, sealed};
use crate::limits::{CHUNK_MESSAGES_MAX, MESSAGE_BYTES_MAX};
use crate::message::{Message, has_header};
use lz4_flex::block::{compress_into, get_maximum_output_size};
use std::io::{self, Write};

/// Writes a binary trace. Pass the same output to each call.
pub(crate) struct BinaryWriter {
    builder: ChunkBuilder,
    chunk_messages: usize,
    index: Index,
    at: u64,
    messages: u64,
    unpacked: Vec<u8>,
    packed: Vec<u8>,
}

impl Default for BinaryWriter {
    fn default() -> Self {
        Self::with_chunks_of(CHUNK_MESSAGES_MAX)
    }
}

impl BinaryWriter {
    /// Limits the number of messages in a chunk.
    pub(super) fn with_chunks_of(messages: usize) -> Self {
        Self {
            builder: ChunkBuilder::default(),
            chunk_messages: messages,
            index: Index::default(),
            at: 0,
            messages: 0,
            unpacked: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Writes the head of the file.
    pub(crate) fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.at = HEAD_BYTES as u64;
        out.write_all(&head())
    }

    /// Adds a message. Returns false if the format cannot hold it.
    pub(crate) fn write(&mut self, message: &Message<'_>, out: &mut dyn Write) -> io::Result<bool> {
        let bytes = message.bytes.len();
        if !has_header(message.bytes) || bytes > MESSAGE_BYTES_MAX {
            return Ok(false);
        }
        if self.builder.count() == self.chunk_messages || !self.builder.has_room(bytes) {
            self.flush(out)?;
        }
        self.builder.push(message);
        self.messages += 1;
        Ok(true)
    }

    /// Writes the last chunk, the index and the end.
    pub(crate) fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.flush(out)?;
        out.write_all(&self.index.bytes(self.messages))?;
        let end: [u8; END_BYTES] = sealed(concat_parts(&[&self.at.to_le_bytes(), &[0; 4], &END]), 8);
        out.write_all(&end)
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let messages = self.builder.count();
        if messages == 0 {
            return Ok(());
        }
        let span = self.builder.span_ns();
        self.builder.compose(&mut self.unpacked);
        self.packed.resize(get_maximum_output_size(self.unpacked.len()), 0);
        let packed = compress_into(&self.unpacked, &mut self.packed).map_err(io::Error::other)?;
        let (packing, columns) = if packed < self.unpacked.len() {
            (Packing::Lz4, &self.packed[..packed])
        } else {
            (Packing::Plain, &self.unpacked[..])
        };
        let head = Head {
            messages,
            packed_bytes: columns.len(),
            unpacked_bytes: self.unpacked.len(),
            earliest_ns: span.0,
            latest_ns: span.1,
            packing,
            checksum: crc32c::crc32c(columns),
        };
        let head = head.to_bytes();
        out.write_all(&head)?;
        out.write_all(columns)?;
        self.index.add_chunk(self.at, span);
        self.at += (head.len() + columns.len()) as u64;
        Ok(())
    }
}
