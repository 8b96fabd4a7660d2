//! One thread of the servers: waits, and answers what has come.

use super::datagrams::Datagrams;
use super::streams::Streams;
use super::{locked, nanoseconds_since};
use crate::limits::EVENTS_MAX;
use hierarchy::serve::Emulator;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often a thread looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often it looks for connections that are silent.
const SWEEP: Duration = Duration::from_secs(1);

pub(super) struct Thread {
    emulator: Arc<Mutex<Emulator>>,
    poll: Poll,
    /// Of each family; their tokens are their places.
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

    /// Serves until it is to end.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut swept = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            match self.poll.poll(&mut events, Some(PATIENCE)) {
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
            // Also what found no room before.
            self.streams.accept(self.poll.registry())?;
            if swept.elapsed() > SWEEP {
                self.streams.close_idle(self.poll.registry());
                swept = Instant::now();
            }
        }
        Ok(())
    }
}
