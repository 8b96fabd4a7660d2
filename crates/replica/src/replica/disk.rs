//! What the log asks of the disk, and what the disk says to it.

use super::Replica;
use super::stop::Stop;
use crate::disk::DiskQueue;
use crate::io::{FatalReason, Output};
use crate::limits::{DISK_HUNG_ABORT_MS, DISK_HUNG_TRANSFER_MS};
use crate::log::{Fetch, Persisted};
use crate::raft::FetchWanted;

impl Replica {
    /// Asks the disk for what the log wants.
    pub(super) fn poll_log(&mut self) {
        while let Some(job) = self.driver.log_mut().poll_job(&mut self.tickets) {
            if job.queue == DiskQueue::Log {
                self.note_log_job(job.ticket);
                self.unwritten_ms.push_back(self.running_ms);
                self.quiet_ticks = 0;
                self.recorded_commit = self.driver.log().hard_state().commit;
                self.recorded_contact_ms = self.driver.log().contact_wall_ms();
                if let Stop::Writing { last: last @ None } = &mut self.stop {
                    *last = Some(job.ticket);
                }
            }
            self.out.push_back(Output::Disk(job));
        }
        for wanted in self.driver.take_fetches_wanted() {
            match self.driver.log_mut().fetch(wanted.low, wanted.high, &mut self.tickets) {
                Ok(Fetch::Read(read)) => {
                    self.fetches.push((read.ticket, wanted));
                    self.out.push_back(Output::ReadFile(read));
                }
                Ok(Fetch::UnderWay(ticket)) => self.fetches.push((ticket, wanted)),
                Ok(Fetch::InMemory) => self.driver.fetched(wanted),
                // Raft asks again with the next heartbeat's answer.
                Ok(Fetch::Busy) | Err(_) => {}
            }
        }
    }

    pub(super) fn handle_persisted(&mut self, queue: DiskQueue, ticket: u64) {
        match self.driver.log_mut().persisted(ticket) {
            Persisted::Record(mark) => {
                self.unwritten_ms.pop_front();
                self.remove_scheduled(ticket);
                if let Some(mark) = mark {
                    let messages = self.driver.persisted(mark);
                    self.send_messages(messages);
                    self.log_persisted();
                }
                self.install_when_durable();
                if let Stop::Writing { last: Some(last) } = self.stop
                    && ticket >= last
                {
                    self.stopped();
                }
            }
            Persisted::Housekeeping => {}
            Persisted::NotOurs => {
                if queue == DiskQueue::Bulk {
                    self.transfer_persisted(ticket);
                }
            }
        }
    }

    pub(super) fn handle_file_read(&mut self, ticket: u64, bytes: Vec<u8>) {
        let is_log = self.fetches.iter().any(|&(read, _)| read == ticket);
        if !is_log {
            return self.transfer_read(ticket, bytes);
        }
        if self.driver.log_mut().fetched(ticket, &bytes).is_err() {
            return self.fatal(FatalReason::Damaged);
        }
        let (done, rest) = core::mem::take(&mut self.fetches).into_iter().partition(|&(read, _)| read == ticket);
        self.fetches = rest;
        let done: Vec<(u64, FetchWanted)> = done;
        for (_, wanted) in done {
            self.driver.fetched(wanted);
        }
    }

    /// A leader whose own disk hangs would stay leader for ever while nothing commits (R/raft_log.rs:425).
    pub(super) fn check_disk(&mut self) {
        let Some(&since_ms) = self.unwritten_ms.front() else { return };
        let hung_ms = self.running_ms - since_ms;
        // A full disk is not a hung disk: its writer keeps trying.
        if hung_ms >= DISK_HUNG_ABORT_MS && !self.is_log_full() {
            return self.fatal(FatalReason::DiskHung);
        }
        if hung_ms >= DISK_HUNG_TRANSFER_MS
            && !planted!(LeaderKeepsHungDisk)
            && self.driver.is_leader()
            && !self.driver.is_transferring()
            && let Some(to) = self.successor()
        {
            self.counters.disk_hung_transfers += 1;
            self.driver.transfer_leader(to);
        }
    }
}
