//! The interface of transports to a worker.

use super::clock::Clock;
use super::worker_stats::WorkerStats;
use std::io;
use std::time::Instant;

/// Receiving may take this long. With less time to the next query it is postponed, up to `RECEIVE_PAUSE_NS_MAX`.
pub(super) const RECEIVE_NS: u64 = 15_000;

/// Drives one transport of a worker.
pub(super) trait TransportDriver {
    /// Queries in flight.
    fn waiting(&self) -> usize;
    /// Sends the queued queries.
    fn flush(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()>;
    /// Reads available answers without blocking, until about `until_ns`. Returns whether there were any.
    fn receive(&mut self, stats: &mut WorkerStats, until_ns: u64) -> io::Result<bool>;
    /// Times out overdue queries.
    fn tick(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()>;
    /// Adds the sockets to poll.
    fn watch(&self, watched: &mut Vec<libc::pollfd>);
    /// Counts the queries that are still in flight.
    fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool) -> io::Result<()>;
    /// Whether connections are being opened.
    fn is_opening(&self) -> bool {
        false
    }
    /// Whether connections failed and none has ever been opened.
    fn has_only_failed(&self) -> bool {
        false
    }
    /// Makes the system calls of a query once, so that the first query is not slower.
    fn warm_up(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Sets the clock when the run starts.
    fn restart(&mut self, clock: Clock);
    /// When it must be called at the latest.
    fn next_timer(&self) -> Option<Instant> {
        None
    }
}
