//! The row of each query of a worker, from sending to the outcome.

use super::chunk::{Answer, Chunk, Fate, Query};
use super::message::Message;
use crate::limits::{PER_QUERY_CHUNKS, PER_QUERY_WAITING_MAX};
use measure::{AnswerCheck, Sent, Transport};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use wire::limits::{HEADER_BYTES, NAME_BYTES_MAX};

/// The transport, server and client of a query.
#[derive(Clone, Copy, Debug)]
pub struct Parties {
    /// The transport.
    pub transport: Transport,
    /// The server.
    pub server: SocketAddr,
    /// The client of the worker. `None` if clients are not distinguished.
    pub client: Option<u32>,
}

/// The rows of one worker. Methods take a [`Sent`] with the number of the row, and ignore one without.
#[derive(Debug)]
pub struct QueryRecorder {
    rows: Vec<Row>,
    free: Vec<u32>,
    /// Timed-out queries in order. They may still be answered.
    timed_out: VecDeque<Sent>,
    /// A query without an answer is finished this long after sending.
    give_up_ns: u64,
    chunk: Option<Chunk>,
    free_chunks: Receiver<Chunk>,
    full: Sender<Message>,
    dropped: Arc<AtomicU64>,
    /// Index of the worker and number of workers, to number clients over all workers.
    share: (usize, usize),
}

/// A query in flight, or a free row.
#[derive(Debug)]
struct Row {
    query: Query,
    name: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Waiting,
    TimedOut,
}

impl QueryRecorder {
    /// A recorder for one worker. Its chunks are allocated before the run.
    pub(super) fn new(share: (usize, usize), timeout_ns: u64, full: Sender<Message>, dropped: Arc<AtomicU64>) -> Self {
        let (give_back, free_chunks) = channel();
        for _ in 0..PER_QUERY_CHUNKS {
            Chunk::new(give_back.clone()).return_to_worker();
        }
        Self {
            // Reserved in advance, so that it never moves. Memory is mapped on use.
            rows: Vec::with_capacity(PER_QUERY_WAITING_MAX),
            free: Vec::new(),
            timed_out: VecDeque::new(),
            give_up_ns: timeout_ns.saturating_mul(2),
            chunk: None,
            free_chunks,
            full,
            dropped,
            share,
        }
    }

    /// Adds a query. Returns its row number for [`Sent`].
    pub fn begin(&mut self, sent: Sent, parties: Parties, message: &[u8]) -> u32 {
        let Some(index) = self.free_row(parties) else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return 0;
        };
        let (workers, worker) = (self.share.1 as u64, self.share.0 as u64);
        let row = &mut self.rows[index as usize];
        row.name.clear();
        let question = question(message);
        row.name.extend_from_slice(question.map_or(&[], |(name, _)| name));
        row.state = State::Waiting;
        row.query = Query {
            planned_ns: sent.planned_ns,
            sent_ns: sent.sent_ns,
            client: parties.client.map(|client| u64::from(client) * workers + worker),
            name_bytes: row.name.len() as u16,
            rtype: question.map_or(0, |(_, rtype)| rtype),
            bytes: message.len() as u32,
            ..blank(parties)
        };
        index + 1
    }

    fn free_row(&mut self, parties: Parties) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        if self.rows.len() == PER_QUERY_WAITING_MAX {
            return None;
        }
        self.rows.push(Row { query: blank(parties), name: Vec::new(), state: State::Free });
        Some(self.rows.len() as u32 - 1)
    }

    /// The kernel did not accept the query, so its row is removed.
    pub fn take_back(&mut self, sent: Sent) {
        if let Some(index) = self.find(sent) {
            self.release(index);
        }
    }

    /// An answer arrived at `at_ns`. The query was written at `written_ns`. After the timeout, the answer counts as
    /// late.
    pub fn answered(&mut self, sent: Sent, at_ns: u64, written_ns: u64, message: &[u8], check: Option<AnswerCheck>) {
        let Some(index) = self.find(sent) else { return };
        let row = &mut self.rows[index];
        row.query.fate = if row.state == State::TimedOut { Fate::Late } else { Fate::Answered };
        row.query.latency_ns = Some(at_ns.saturating_sub(sent.planned_ns));
        row.query.service_ns = Some(at_ns.saturating_sub(written_ns));
        row.query.answer = message.first_chunk::<HEADER_BYTES>().map(|header| Answer {
            rcode: header[3] & 0x0F,
            is_truncated: header[2] & 0x02 != 0,
            bytes: message.len() as u32,
            check,
        });
        self.write(index);
    }

    /// The query has timed out. It may still be answered.
    pub fn timed_out(&mut self, sent: Sent) {
        if let Some(index) = self.find(sent) {
            self.rows[index].state = State::TimedOut;
            self.timed_out.push_back(sent);
        }
    }

    /// The query will never be answered.
    pub fn mark_ended(&mut self, sent: Sent, fate: Fate) {
        if let Some(index) = self.find(sent) {
            self.rows[index].query.fate = fate;
            self.write(index);
        }
    }

    /// Finishes queries that timed out long ago.
    pub fn finish_old_rows(&mut self, now_ns: u64) {
        while let Some(&sent) = self.timed_out.front().filter(|sent| sent.sent_ns + self.give_up_ns < now_ns) {
            self.timed_out.pop_front();
            if let Some(index) = self.find(sent).filter(|&index| self.rows[index].state == State::TimedOut) {
                self.rows[index].query.fate = Fate::TimedOut;
                self.write(index);
            }
        }
    }

    /// Finishes all queries at the end of the run.
    pub fn finish(mut self) {
        self.finish_old_rows(u64::MAX);
        if let Some(chunk) = self.chunk.take() {
            self.hand_over(chunk);
        }
    }

    /// Finds the row of a query. Rows are reused, so a very late answer must not find another query.
    fn find(&self, sent: Sent) -> Option<usize> {
        let index = (sent.row as usize).checked_sub(1)?;
        let row = self.rows.get(index).filter(|row| row.state != State::Free)?;
        let is_its_own = (row.query.planned_ns, row.query.sent_ns) == (sent.planned_ns, sent.sent_ns);
        is_its_own.then_some(index)
    }

    fn write(&mut self, index: usize) {
        if self.chunk.is_none() {
            self.chunk = self.free_chunks.try_recv().ok();
        }
        let row = &self.rows[index];
        match &mut self.chunk {
            Some(chunk) => chunk.push(row.query, &row.name),
            None => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(chunk) = self.chunk.take_if(|chunk| chunk.is_full()) {
            self.hand_over(chunk);
        }
        self.release(index);
    }

    fn release(&mut self, index: usize) {
        self.rows[index].state = State::Free;
        self.free.push(index as u32);
    }

    fn hand_over(&self, chunk: Chunk) {
        if let Err(unsent) = self.full.send(Message::Full(chunk))
            && let Message::Full(chunk) = unsent.0
        {
            // The writer has failed.
            self.dropped.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
    }
}

/// A query without an outcome.
fn blank(parties: Parties) -> Query {
    Query {
        planned_ns: 0,
        sent_ns: 0,
        latency_ns: None,
        service_ns: None,
        transport: parties.transport,
        server: parties.server,
        client: None,
        name_bytes: 0,
        rtype: 0,
        bytes: 0,
        answer: None,
        fate: Fate::TimedOut,
    }
}

/// Name in wire format and type of the first question. `None` without a question.
fn question(message: &[u8]) -> Option<(&[u8], u16)> {
    if message.get(4..6)? == [0, 0] {
        return None;
    }
    let mut end = HEADER_BYTES;
    loop {
        match *message.get(end)? {
            0 => break,
            length if length < 0x40 => end += 1 + usize::from(length),
            _ => return None,
        }
    }
    let name = message.get(HEADER_BYTES..=end).filter(|name| name.len() <= NAME_BYTES_MAX)?;
    let rtype = message.get(end + 1..end + 3)?;
    Some((name, u16::from_be_bytes([rtype[0], rtype[1]])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PER_QUERY_CHUNK_ROWS;

    const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";

    fn recorder() -> (QueryRecorder, Receiver<Message>, Arc<AtomicU64>) {
        let (full, inbox) = channel();
        let dropped = Arc::new(AtomicU64::new(0));
        (QueryRecorder::new((1, 3), 1_000, full, Arc::clone(&dropped)), inbox, dropped)
    }

    fn begin(recorder: &mut QueryRecorder, at_ns: u64) -> Sent {
        let sent = Sent { planned_ns: at_ns, sent_ns: at_ns + 5, client: 2, row: 0 };
        let server = SocketAddr::from(([127, 0, 0, 1], 53));
        let parties = Parties { transport: Transport::Udp, server, client: Some(2) };
        Sent { row: recorder.begin(sent, parties, QUERY), ..sent }
    }

    fn rows(inbox: &Receiver<Message>) -> Vec<Query> {
        let mut rows = Vec::new();
        while let Ok(Message::Full(chunk)) = inbox.try_recv() {
            for (query, name) in chunk.iter() {
                assert_eq!(name, &QUERY[12..25]);
                rows.push(*query);
            }
            chunk.return_to_worker();
        }
        rows
    }

    #[test]
    fn each_query_has_one_row_with_its_fate() {
        let (mut recorder, inbox, dropped) = recorder();
        let sent: Vec<_> = (0..5).map(|at| begin(&mut recorder, at * 10)).collect();
        let mut answer = QUERY.to_vec();
        (answer[2], answer[3]) = (0x82, 0x03);
        recorder.answered(sent[0], 300, 105, &answer, Some(AnswerCheck::Right));
        recorder.timed_out(sent[1]);
        recorder.timed_out(sent[2]);
        recorder.answered(sent[1], 1_500, 15, &answer, None);
        // A second answer is ignored.
        recorder.answered(sent[1], 1_600, 15, &answer, None);
        recorder.mark_ended(sent[3], Fate::ConnectionLost);
        recorder.take_back(sent[4]);
        recorder.finish_old_rows(1_500);
        recorder.finish();
        let rows = rows(&inbox);
        let fates: Vec<_> = rows.iter().map(|row| (row.fate, row.latency_ns)).collect();
        assert_eq!(
            fates,
            [
                (Fate::Answered, Some(300)),
                (Fate::Late, Some(1_490)),
                (Fate::ConnectionLost, None),
                (Fate::TimedOut, None),
            ]
        );
        let first = rows[0];
        assert_eq!((first.service_ns, first.client, first.rtype, first.bytes), (Some(195), Some(7), 1, 29));
        assert_eq!(
            first.answer,
            Some(Answer { rcode: 3, is_truncated: true, bytes: 29, check: Some(AnswerCheck::Right) })
        );
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_answer_to_a_reused_row_is_ignored() {
        let (mut recorder, inbox, _) = recorder();
        let old = begin(&mut recorder, 0);
        recorder.timed_out(old);
        recorder.finish_old_rows(3_000);
        let new = begin(&mut recorder, 4_000);
        assert_eq!(old.row, new.row);
        recorder.answered(old, 4_100, 5, QUERY, None);
        recorder.mark_ended(new, Fate::Interrupted);
        recorder.finish();
        let fates: Vec<_> = rows(&inbox).iter().map(|row| row.fate).collect();
        assert_eq!(fates, [Fate::TimedOut, Fate::Interrupted]);
    }

    #[test]
    fn without_an_empty_chunk_rows_are_dropped_and_counted() {
        let (mut recorder, inbox, dropped) = recorder();
        let room = (PER_QUERY_CHUNKS * PER_QUERY_CHUNK_ROWS) as u64;
        for at in 0..room + 7 {
            let sent = begin(&mut recorder, at);
            recorder.mark_ended(sent, Fate::ConnectionLost);
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 7);
        assert_eq!(rows(&inbox).len() as u64, room);
        // Returned chunks can be used again.
        let sent = begin(&mut recorder, room + 7);
        recorder.mark_ended(sent, Fate::ConnectionLost);
        recorder.finish();
        assert_eq!((rows(&inbox).len(), dropped.load(Ordering::Relaxed)), (1, 7));
    }

    #[test]
    fn a_message_without_a_question_has_no_name() {
        assert_eq!(question(QUERY), Some((&QUERY[12..25], 1)));
        for message in [&QUERY[..11], &QUERY[..20], &QUERY[..26], b"\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01"] {
            assert_eq!(question(message), None, "{message:?}");
        }
        let pointer = [&QUERY[..12], &[0xC0, 12, 0, 1, 0, 1]].concat();
        assert_eq!(question(&pointer), None);
    }
}
