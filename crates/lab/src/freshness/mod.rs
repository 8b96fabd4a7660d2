//! How soon an acknowledged update is seen: a probe that updates one record through one server and looks for the new
//! value at all servers that are listed.
//!
//! ```text
//!   writer (one thread): UPDATE n -> acknowledged at a(n)      --+
//!   watcher (one thread a server): query, query, ... -> s(n)   --+-> max(0, s(n) - a(n)) for each server and n
//! ```

mod account;
mod watcher;
mod writer;

pub use account::{Freshness, Line, ServerFreshness};

use crate::workload::TsigKey;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use watcher::Watched;
use wire::name::Name;
use writer::Acknowledged;

/// What is updated, where, and who is watched.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Takes the updates.
    pub server: SocketAddr,
    /// Are looked at.
    pub watched: Vec<SocketAddr>,
    /// The zone.
    pub zone: Name,
    /// The name whose TXT record is the probe's; it is deleted at the end.
    pub owner: Name,
    /// Signs the updates; `None` where the server takes them by address.
    pub key: Option<TsigKey>,
    /// From one update to the next.
    pub interval: Duration,
}

/// A probe that goes on.
#[derive(Debug)]
pub struct Running {
    stop: Arc<AtomicBool>,
    writer: JoinHandle<Vec<Acknowledged>>,
    watchers: Vec<(SocketAddr, JoinHandle<Watched>)>,
}

impl Probe {
    /// Starts it.
    ///
    /// # Errors
    /// When a socket or a thread cannot be had.
    pub fn start(&self) -> io::Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut watchers = Vec::new();
        for &server in &self.watched {
            let watch = watcher::new(server, &self.owner, Arc::clone(&stop))?;
            let thread = std::thread::Builder::new().name("freshness-watch".into()).spawn(watch)?;
            watchers.push((server, thread));
        }
        let write = writer::new(self, Arc::clone(&stop))?;
        let writer = std::thread::Builder::new().name("freshness-write".into()).spawn(write)?;
        Ok(Running { stop, writer, watchers })
    }
}

impl Running {
    /// Ends it and tells what was seen, on the clock of a run that began at `start`.
    #[must_use]
    pub fn finish(self, start: Instant) -> Freshness {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has seen nothing.
        let acknowledged = self.writer.join().unwrap_or_default();
        let seen: Vec<_> =
            self.watchers.into_iter().map(|(server, thread)| (server, thread.join().unwrap_or_default())).collect();
        account::account(start, &acknowledged, &seen)
    }
}
