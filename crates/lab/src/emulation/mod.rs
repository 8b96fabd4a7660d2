//! The servers of a hierarchy on the network: datagrams and streams to any address, answered from that address.
//!
//! ```text
//!   sockets --> Thread (datagrams, streams) --> hierarchy::serve::Emulator --> sockets
//!                                                         \--> Backends: servers under test, one a level
//! ```
//!
//! It takes a namespace in which every address is one of the machine's own (`links::Pair`).

mod backends;
mod datagrams;
mod streams;
mod thread;

pub use backends::{Backends, ToBackends};

use hierarchy::serve::{Emulator, Tally};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use thread::Thread;

/// Where servers are asked.
const PORT: u16 = 53;

/// Servers that run; they end with this value.
pub struct Emulated {
    emulators: Vec<Arc<Mutex<Emulator>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    start: Instant,
}

impl Emulated {
    /// Opens sockets in the namespace of the calling thread, and starts a thread for each emulator, with its own
    /// sockets on the same port.
    ///
    /// # Errors
    /// Sockets cannot be opened.
    pub fn start(emulators: Vec<Emulator>, has_ipv6: bool) -> io::Result<Self> {
        let (start, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let mut emulated = Self { emulators: Vec::new(), stop, threads: Vec::new(), start };
        for (index, emulator) in emulators.into_iter().enumerate() {
            let emulator = Arc::new(Mutex::new(emulator));
            let thread = Thread::open(Arc::clone(&emulator), has_ipv6, start)?;
            let stop = Arc::clone(&emulated.stop);
            let named = std::thread::Builder::new().name(format!("emulated-{index}"));
            emulated.threads.push(named.spawn(move || thread.run(&stop))?);
            emulated.emulators.push(emulator);
        }
        Ok(emulated)
    }

    /// Whether all of it answers.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Nanoseconds of the clock that queries are noted with.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        nanoseconds_since(self.start)
    }

    /// Queries so far.
    #[must_use]
    pub fn query_count(&self) -> u64 {
        self.emulators.iter().map(|emulator| locked(emulator).tally().query_count()).sum()
    }

    /// What was asked so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for emulator in &self.emulators {
            sum.add(locked(emulator).tally().clone());
        }
        sum
    }

    /// Ends it.
    ///
    /// # Errors
    /// A thread had failed.
    pub fn finish(mut self) -> io::Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(self.tally())
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that failed is seen by `finish`, or by whoever waits for its answers.
            let _ended = thread.join();
        }
    }
}

/// What a thread that panicked has counted is still right.
fn locked(emulator: &Mutex<Emulator>) -> MutexGuard<'_, Emulator> {
    emulator.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
