//! Measures how soon an acknowledged update is visible. A probe updates one record on one server, and queries all
//! listed servers for the new value.
//!
//! ```text
//!    writer (one thread): UPDATE n -> acknowledged at a(n)      --+
//!    watcher (one thread a server): query, query, ... -> s(n)   --+-> max(0, s(n) - a(n)) for each server and n
//! ```

mod account;
mod probe;
mod watcher;
mod writer;

pub use account::{Freshness, Line, ServerFreshness};
pub use probe::Probe;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use watcher::Observations;
use writer::Acknowledged;

/// A running probe.
#[derive(Debug)]
pub struct RunningProbe {
    stop: Arc<AtomicBool>,
    writer: JoinHandle<Vec<Acknowledged>>,
    watchers: Vec<(SocketAddr, JoinHandle<Observations>)>,
}

impl Probe {
    /// Starts the probe.
    ///
    /// # Errors
    /// If a socket or a thread cannot be created.
    pub fn start(&self) -> io::Result<RunningProbe> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut watchers = Vec::new();
        for &server in &self.watched {
            let watch = watcher::new(server, &self.owner, Arc::clone(&stop))?;
            let thread = std::thread::Builder::new().name("freshness-watch".into()).spawn(watch)?;
            watchers.push((server, thread));
        }
        let write = writer::new(self, Arc::clone(&stop))?;
        let writer = std::thread::Builder::new().name("freshness-write".into()).spawn(write)?;
        Ok(RunningProbe { stop, writer, watchers })
    }
}

impl RunningProbe {
    /// Stops the probe. Returns its results on the clock of a run that began at `start`.
    #[must_use]
    pub fn finish(self, start: Instant) -> Freshness {
        self.stop.store(true, Ordering::Relaxed);
        // A panicked thread has no results.
        let acknowledged = self.writer.join().unwrap_or_default();
        let seen: Vec<_> =
            self.watchers.into_iter().map(|(server, thread)| (server, thread.join().unwrap_or_default())).collect();
        account::account(start, &acknowledged, &seen)
    }
}
