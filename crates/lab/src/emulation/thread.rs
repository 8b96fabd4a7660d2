//! One thread of the emulated servers.

use super::datagrams::Datagrams;
use super::streams::Streams;
use hierarchy::serve::Emulator;
use mio::{Events, Interest, Poll, Token};
use sockets::limits::EVENTS_MAX;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval of the check whether to stop.
const POLL_TIMEOUT: Duration = Duration::from_millis(50);
/// Interval of the check for idle connections.
const SWEEP: Duration = Duration::from_secs(1);

pub(super) struct Thread {
    emulator: Arc<Mutex<Emulator>>,
    poll: Poll,
    /// One per family. The index is the token.
    datagrams: Vec<Datagrams>,
    streams: Streams,
    start: Instant,
}

impl Thread {
    pub(super) fn open(emulator: Arc<Mutex<Emulator>>, has_ipv6: bool, start: Instant) -> io::Result<Self> {
        let poll = Poll::new()?;
        let families = [false, true].into_iter().take(1 + usize::from(has_ipv6));
        let mut datagrams: Vec<_> = families.map(Datagrams::open).collect::<io::Result<_>>()?;
        for (index, datagrams) in datagrams.iter_mut().enumerate() {
            poll.registry().register(&mut datagrams.socket, Token(index), Interest::READABLE)?;
        }
        let streams = Streams::open(poll.registry(), has_ipv6, datagrams.len())?;
        Ok(Self { emulator, poll, datagrams, streams, start })
    }

    /// Serves until `stop` is set.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut swept = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            match self.poll.poll(&mut events, Some(POLL_TIMEOUT)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            let mut emulator = locked(&self.emulator);
            let at_ns = nanoseconds_since(self.start);
            for event in &events {
                match self.datagrams.get_mut(event.token().0) {
                    Some(datagrams) => datagrams.serve(&mut emulator, at_ns)?,
                    None => self.streams.serve(event, self.poll.registry(), &mut emulator, at_ns),
                }
            }
            emulator.offline();
            drop(emulator);
            // Also accepts connections that had no room before.
            self.streams.accept(self.poll.registry())?;
            if swept.elapsed() > SWEEP {
                self.streams.close_idle(self.poll.registry());
                swept = Instant::now();
            }
        }
        Ok(())
    }
}

/// The counts of a panicked thread are still valid.
pub(super) fn locked(emulator: &Mutex<Emulator>) -> MutexGuard<'_, Emulator> {
    emulator.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn nanoseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
