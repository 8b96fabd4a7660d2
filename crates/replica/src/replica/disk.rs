//! Disk jobs of the log and their results.

use super::Replica;
use crate::context::{Context, Stop};
use crate::disk::DiskQueue;
use crate::io::{FatalReason, Output};
use crate::limits::{DISK_HUNG_ABORT_MS, DISK_HUNG_TRANSFER_MS};
use crate::log::Persisted;

impl Replica {
    /// Issues the disk jobs of the log.
    pub(super) fn poll_log(&mut self) {
        while let Some(job) = self.driver.log_mut().poll_job(&mut self.outputs.tickets) {
            if job.queue == DiskQueue::Log {
                self.transfers.note_log_job(job.ticket);
                self.log_jobs.issued(self.driver.log(), self.local.running_ms);
                if let Stop::Writing { last: last @ None } = &mut self.local.lifecycle.stop {
                    *last = Some(job.ticket);
                }
            }
            self.outputs.push(Output::Disk(job));
        }
        self.fetch_entries();
    }

    /// Reads entries that raft wants to send and that are no longer in memory.
    fn fetch_entries(&mut self) {
        for wanted in self.driver.take_fetches_wanted() {
            let fetch = self.driver.log_mut().fetch(wanted.low, wanted.high, &mut self.outputs.tickets);
            if let Some(in_memory) = self.log_jobs.note_fetch(wanted, fetch, &mut self.outputs) {
                self.driver.fetched(in_memory);
            }
        }
    }

    /// The waiting job is running again. The wait was not a disk fault.
    pub(super) fn handle_disk_room(&mut self, queue: DiskQueue) {
        self.full.set(queue, false);
        if queue == DiskQueue::Log {
            self.log_jobs.restart(self.local.running_ms);
        }
    }

    /// More of the log is durable. A leader informs waiting followers, a follower commits what it can.
    pub(crate) fn log_persisted(&mut self) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        if self.driver.is_leader() {
            self.follower_commit.send_durable(&context, &mut self.outputs);
        } else if let Some((term, index)) = self.follower_commit.to_commit(&context) {
            self.driver.commit_as_follower(term, index);
        }
    }

    pub(super) fn handle_persisted(&mut self, queue: DiskQueue, ticket: u64) {
        match self.driver.log_mut().persisted(ticket) {
            Persisted::Record(mark) => {
                self.log_jobs.written();
                self.transfers.remove_scheduled(ticket, &mut self.outputs);
                if let Some(mark) = mark {
                    let messages = self.driver.persisted(mark);
                    self.send_messages(messages);
                    self.log_persisted();
                }
                self.install_when_durable();
                if let Stop::Writing { last: Some(last) } = self.local.lifecycle.stop
                    && ticket >= last
                {
                    self.local.lifecycle.stopped(&mut self.outputs);
                }
            }
            Persisted::Housekeeping => {}
            Persisted::NotOurs => {
                if queue == DiskQueue::Bulk {
                    self.checkpoint_persisted(ticket);
                }
            }
        }
    }

    pub(super) fn handle_file_read(&mut self, ticket: u64, bytes: Vec<u8>) {
        if !self.log_jobs.is_fetch(ticket) {
            return self.transfer_read(ticket, bytes);
        }
        if self.driver.log_mut().fetched(ticket, &bytes).is_err() {
            return self.local.lifecycle.end(FatalReason::Damaged, &mut self.outputs);
        }
        for wanted in self.log_jobs.take_fetched(ticket) {
            self.driver.fetched(wanted);
        }
    }

    /// A leader with a hung disk would remain leader forever while nothing commits (R/raft_log.rs:425).
    pub(super) fn check_disk(&mut self) {
        let Some(hung_ms) = self.log_jobs.oldest_ms(self.local.running_ms) else { return };
        // A full disk is not a hung disk: its writer keeps trying.
        if hung_ms >= DISK_HUNG_ABORT_MS && !self.full.is_log_full() {
            return self.local.lifecycle.end(FatalReason::DiskHung, &mut self.outputs);
        }
        if hung_ms >= DISK_HUNG_TRANSFER_MS
            && !planted!(LeaderKeepsHungDisk)
            && self.driver.is_leader()
            && !self.driver.is_transferring()
            && let Some(to) = self.successor()
        {
            self.outputs.counters.disk_hung_transfers += 1;
            self.driver.transfer_leader(to);
        }
    }
}
