//! Disk jobs and reads of the log that are under way.

use crate::context::Outputs;
use crate::io::Output;
use crate::limits::CONTACT_NOTE_MS;
use crate::log::{Fetch, Log, ReadError};
use crate::raft::FetchWanted;
use std::collections::VecDeque;

/// Ticks without a record after which the commit index and the last leader contact get a record of their own. So a
/// restarted replica knows which entries were committed, and how stale it is.
const QUIET_TICKS: u64 = 10;

/// The jobs and reads that are under way, and what the newest record of the log holds.
#[derive(Debug)]
pub(crate) struct LogJobs {
    /// Reads of entries: the ticket, and the request of raft that waits for it.
    fetches: Vec<(u64, FetchWanted)>,
    /// When each job was issued, in running time, oldest first.
    unwritten_ms: VecDeque<u64>,
    quiet_ticks: u64,
    /// Commit index in the newest record.
    recorded_commit: u64,
    /// Time of the last leader contact in the newest record.
    recorded_contact_ms: u64,
}

impl LogJobs {
    /// For a log that was just opened.
    pub(crate) const fn new(recorded_commit: u64, recorded_contact_ms: u64) -> Self {
        Self {
            fetches: Vec::new(),
            unwritten_ms: VecDeque::new(),
            quiet_ticks: 0,
            recorded_commit,
            recorded_contact_ms,
        }
    }

    /// The log issued a job that writes a record.
    pub(crate) fn issued(&mut self, log: &Log, running_ms: u64) {
        self.unwritten_ms.push_back(running_ms);
        self.quiet_ticks = 0;
        self.recorded_commit = log.hard_state().commit;
        self.recorded_contact_ms = log.contact_wall_ms();
    }

    /// The oldest job is done.
    pub(crate) fn written(&mut self) {
        self.unwritten_ms.pop_front();
    }

    /// The jobs waited for room. That was not a disk fault, so their time starts again.
    pub(crate) fn restart(&mut self, running_ms: u64) {
        self.unwritten_ms.iter_mut().for_each(|since_ms| *since_ms = running_ms);
    }

    /// How long the oldest job has been under way.
    pub(crate) fn oldest_ms(&self, running_ms: u64) -> Option<u64> {
        self.unwritten_ms.front().map(|since_ms| running_ms - since_ms)
    }

    /// Counts a tick. Returns whether the log needs a record although it got no entry.
    pub(crate) fn tick(&mut self, log: &Log, is_short_of_room: bool) -> bool {
        self.quiet_ticks += 1;
        let is_quiet = self.quiet_ticks >= QUIET_TICKS && !planted!(IdleCommitNotWritten);
        let commit_is_due = is_quiet && log.hard_state().commit > self.recorded_commit;
        let contact_is_due = log.contact_wall_ms().abs_diff(self.recorded_contact_ms) >= CONTACT_NOTE_MS;
        // While the log is short of room, the time of the last contact does not justify a record.
        commit_is_due || contact_is_due && !is_short_of_room && !planted!(ContactNotNoted)
    }

    /// Takes the log's answer to a request of raft for entries. Returns the request if the entries are in memory.
    pub(crate) fn note_fetch(
        &mut self,
        wanted: FetchWanted,
        fetch: Result<Fetch, ReadError>,
        outputs: &mut Outputs,
    ) -> Option<FetchWanted> {
        match fetch {
            Ok(Fetch::Read(read)) => {
                self.fetches.push((read.ticket, wanted));
                outputs.push(Output::ReadFile(read));
            }
            Ok(Fetch::UnderWay(ticket)) => self.fetches.push((ticket, wanted)),
            Ok(Fetch::InMemory) => return Some(wanted),
            // Raft asks again after the next heartbeat.
            Ok(Fetch::Busy) | Err(_) => {}
        }
        None
    }

    /// Whether a read is for the log.
    pub(crate) fn is_fetch(&self, ticket: u64) -> bool {
        self.fetches.iter().any(|&(read, _)| read == ticket)
    }

    /// Removes and returns the requests that wait for a read.
    pub(crate) fn take_fetched(&mut self, ticket: u64) -> Vec<FetchWanted> {
        let (done, rest) = core::mem::take(&mut self.fetches).into_iter().partition(|&(read, _)| read == ticket);
        self.fetches = rest;
        let done: Vec<(u64, FetchWanted)> = done;
        done.into_iter().map(|(_, wanted)| wanted).collect()
    }
}
