//! The sending side of a transfer: answers requests for blocks, a few at a time.

use super::format::{CheckpointDamage, CheckpointId, DamageKind, Manifest, Table};
use super::frame::{Part, TransferFrame};
use super::limits::{BLOCK_BYTES_MAX, OFFER_LEASE_MS, OFFERS_MAX, SERVER_READS_MAX, WAITING_BLOCKS_MAX};
use crate::disk::{ReadFile, Tickets};
use std::collections::{BTreeMap, VecDeque};

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerOutput {
    /// Execute this read.
    Read(ReadFile),
    /// Send a frame.
    Send {
        /// The receiver.
        to: u64,
        /// The frame.
        frame: TransferFrame,
    },
}

/// The checkpoints of this member that peers may request.
#[derive(Debug, Default)]
pub struct CheckpointServer {
    /// Oldest first.
    offers: Vec<Offer>,
    waiting: VecDeque<BlockRequest>,
    /// Blocks being read, by ticket.
    reads: BTreeMap<u64, BlockRequest>,
    frames: VecDeque<(u64, TransferFrame)>,
}

#[derive(Debug)]
struct Offer {
    manifest: Manifest,
    table: Table,
    /// When it was last requested, in milliseconds.
    requested_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct BlockRequest {
    peer: u64,
    checkpoint: CheckpointId,
    part: Part,
    number: u32,
}

impl CheckpointServer {
    /// Offers a durable checkpoint as the newest.
    pub fn offer(&mut self, manifest: Manifest, table: Table) {
        self.offers.retain(|offer| offer.manifest.id != manifest.id);
        self.offers.push(Offer { manifest, table, requested_ms: None });
    }

    /// The newest checkpoint.
    pub fn newest(&self) -> Option<&Manifest> {
        self.offers.last().map(|offer| &offer.manifest)
    }

    /// The lowest index from which a running transfer will need the log. No entry after it should be compacted.
    pub fn pinned_index(&self, now_ms: u64) -> Option<u64> {
        let is_used = |offer: &&Offer| offer.is_leased(now_ms) && !planted!(TransferKeepsNoLog);
        self.offers.iter().filter(is_used).map(|offer| offer.manifest.header.index).min()
    }

    /// Withdraws checkpoints that are no longer needed; returns their files, which may be removed.
    pub fn retire(&mut self, now_ms: u64) -> Vec<String> {
        let older = self.offers.len().saturating_sub(1);
        let over = self.offers.len().saturating_sub(OFFERS_MAX);
        let mut files = Vec::new();
        let mut index = 0;
        let reads = &self.reads;
        self.offers.retain(|offer| {
            let is_read = reads.values().any(|request| request.checkpoint == offer.manifest.id);
            let is_removable = index < older && !is_read && (index < over || !offer.is_leased(now_ms));
            index += 1;
            if is_removable {
                files.push(offer.manifest.file());
            }
            !is_removable
        });
        files
    }

    /// Handles a request; ignores other frames.
    pub fn handle(&mut self, peer: u64, frame: &TransferFrame, now_ms: u64) {
        let TransferFrame::Get { checkpoint, part, from, count } = *frame else { return };
        let Some(offer) = self.offers.iter_mut().find(|offer| offer.manifest.id == checkpoint) else {
            self.refuse(peer, checkpoint);
            return;
        };
        offer.requested_ms = Some(now_ms);
        for number in (from..).take(usize::from(count)) {
            let count_waiting = self.waiting.iter().filter(|request| request.peer == peer).count();
            if count_waiting >= WAITING_BLOCKS_MAX {
                break;
            }
            self.waiting.push_back(BlockRequest { peer, checkpoint, part, number });
        }
    }

    /// Drops the requests of a peer whose connection ended.
    pub fn peer_gone(&mut self, peer: u64) {
        self.waiting.retain(|request| request.peer != peer);
        self.frames.retain(|(to, _)| *to != peer);
    }

    /// The next action.
    pub fn poll(&mut self, tickets: &mut Tickets) -> Option<ServerOutput> {
        loop {
            if let Some((to, frame)) = self.frames.pop_front() {
                return Some(ServerOutput::Send { to, frame });
            }
            if self.reads.len() >= SERVER_READS_MAX {
                return None;
            }
            let request = self.waiting.pop_front()?;
            if let Some(read) = self.serve(request, tickets) {
                return Some(ServerOutput::Read(read));
            }
        }
    }

    /// Takes the result of a read; returns whether the ticket was the server's.
    ///
    /// # Errors
    /// [`CheckpointDamage`]: the file is damaged. It is no longer offered, and the requesting peer is informed.
    pub fn file_read(&mut self, ticket: u64, bytes: Vec<u8>) -> Result<bool, CheckpointDamage> {
        let Some(request) = self.reads.remove(&ticket) else { return Ok(false) };
        let BlockRequest { peer, checkpoint, part, number } = request;
        let Some(index) = self.offers.iter().position(|offer| offer.manifest.id == checkpoint) else {
            self.refuse(peer, checkpoint);
            return Ok(true);
        };
        if !self.offers[index].table.line(number).is_some_and(|line| line.is_block(&bytes)) {
            self.refuse(peer, checkpoint);
            let file = self.offers.remove(index).manifest.file();
            return Err(CheckpointDamage { file, what: DamageKind::Block(number) });
        }
        self.frames.push_back((peer, TransferFrame::Block { checkpoint, part, number, bytes }));
        Ok(true)
    }

    /// Answers from memory, or returns the necessary read.
    fn serve(&mut self, request: BlockRequest, tickets: &mut Tickets) -> Option<ReadFile> {
        let BlockRequest { peer, checkpoint, part, number } = request;
        let Some(offer) = self.offers.iter().find(|offer| offer.manifest.id == checkpoint) else {
            self.refuse(peer, checkpoint);
            return None;
        };
        match part {
            Part::Table => {
                let chunk = offer.table.as_bytes().chunks(BLOCK_BYTES_MAX).nth(number as usize)?;
                let bytes = chunk.to_vec();
                self.frames.push_back((peer, TransferFrame::Block { checkpoint, part, number, bytes }));
                None
            }
            Part::Data => {
                let line = offer.table.line(number)?;
                let ticket = tickets.draw();
                self.reads.insert(ticket, request);
                Some(ReadFile { ticket, file: offer.manifest.file(), offset: line.offset, len: line.len })
            }
        }
    }

    fn refuse(&mut self, peer: u64, checkpoint: CheckpointId) {
        let gone = (peer, TransferFrame::Gone { checkpoint });
        if !self.frames.contains(&gone) {
            self.frames.push_back(gone);
        }
    }
}

impl Offer {
    fn is_leased(&self, now_ms: u64) -> bool {
        self.requested_ms.is_some_and(|requested| now_ms.saturating_sub(requested) < OFFER_LEASE_MS)
    }
}
