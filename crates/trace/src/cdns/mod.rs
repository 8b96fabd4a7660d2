//! C-DNS (RFC 8618): queries and responses in blocks of CBOR, with shared data stored once.
//!
//! ```text
//!   stream (one block at a time) --> block (tables and events) --> rebuild --> MessageQueue
//! ```
//!
//! The format does not store messages. They are rebuilt from the tables, with uncompressed names. A message with parts
//! that were not recorded is counted, but not rebuilt.

// CBOR in memory, and from a file.
mod cbor;
mod stream;
// Tables of a block.
mod block;
// Messages from the tables.
mod rebuild;

#[cfg(test)]
mod tests;

use crate::error::TraceError;
use crate::limits::CDNS_PARAMETERS_MAX;
use crate::message::Message;
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, UnreadReason};
use block::{Block, Parameters};
use cbor::{Item, fields, item_at, number};
use rebuild::RebuiltMessage;
use std::io::BufRead;
use stream::Stream;

/// First item of a file's array (RFC 8618 7.3).
const NAME: &[u8] = b"C-DNS";
/// The version of RFC 8618.
const MAJOR_VERSION: u64 = 1;

/// Whether a file starts like C-DNS: an array with the text `C-DNS`.
pub(crate) fn is_cdns(first: &[u8]) -> bool {
    matches!(first, [0x83 | 0x9F, 0x65, rest @ ..] if rest.starts_with(NAME))
}

/// Reads a C-DNS file.
pub(crate) struct CdnsReader {
    stream: Stream,
    parameters: Vec<Parameters>,
    /// Remaining blocks. `None` if a break ends them.
    blocks: Option<u64>,
    is_begun: bool,
    is_ended: bool,
    block: Block,
}

impl CdnsReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self {
            stream: Stream::new(bytes),
            parameters: Vec::new(),
            blocks: Some(0),
            is_begun: false,
            is_ended: false,
            block: Block::default(),
        }
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        loop {
            if let Some(event) = self.block.next() {
                tally.records += 1;
                match rebuild::message(&self.block, event) {
                    Ok(RebuiltMessage { source, destination, transport, bytes }) => {
                        queue.push(Message { at_ns: event.at_ns, source, destination, transport, bytes: &bytes });
                        tally.messages += 1;
                    }
                    Err(unread) => tally.count(unread),
                }
                return Ok(true);
            }
            if self.is_ended {
                return Ok(false);
            }
            // Nothing is read after an error or the end.
            self.is_ended = true;
            if !self.read_block(tally)? {
                return Ok(false);
            }
            self.is_ended = false;
        }
    }

    /// Reads the next block. Returns false at the end.
    fn read_block(&mut self, tally: &mut Tally) -> Result<bool, TraceError> {
        if !self.is_begun {
            self.begin()?;
        }
        match &mut self.blocks {
            Some(0) => return Ok(false),
            Some(items_left) => *items_left -= 1,
            None if self.stream.takes_break()? => return Ok(false),
            None => {}
        }
        let at = self.stream.at();
        let mut bytes = std::mem::take(&mut self.block).into_bytes();
        bytes.clear();
        self.stream.item(&mut bytes)?;
        self.block = Block::read(bytes, &self.parameters).map_err(|what| stream::format_error(at, what))?;
        for _ in 0..self.block.other_count() {
            tally.records += 1;
            tally.count(UnreadReason::OtherRecord);
        }
        Ok(true)
    }

    fn begin(&mut self) -> Result<(), TraceError> {
        self.is_begun = true;
        let mut bytes = Vec::new();
        let is_array = self.stream.array()?.is_none_or(|items| items == 3);
        self.stream.item(&mut bytes)?;
        let is_named = matches!(item_at(&bytes, 0), Some(Item::Bytes(name)) if &bytes[name.clone()] == NAME);
        if !is_array || !is_named {
            return Err(stream::format_error(0, "not C-DNS: the file does not start with its name"));
        }
        bytes.clear();
        self.stream.item(&mut bytes)?;
        let Some(Item::Map(preamble)) = item_at(&bytes, 0) else {
            return Err(stream::format_error(self.stream.at(), "no preamble"));
        };
        let [major, _, _, parameters] = fields::<4>(&bytes, preamble);
        if number(&major) != Some(MAJOR_VERSION) {
            return Err(stream::format_error(self.stream.at(), "unsupported version; only 1 is (RFC 8618)"));
        }
        if let Some(Item::Array(parameters)) = parameters {
            let each = cbor::Items::new(&bytes, parameters).take(CDNS_PARAMETERS_MAX);
            self.parameters = each.map(|(_, item)| Parameters::read(&bytes, &item)).collect();
        }
        self.blocks = self.stream.array()?;
        Ok(())
    }
}
