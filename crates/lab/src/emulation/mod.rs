//! Serves a hierarchy on the network: answers UDP and TCP on any address, from that address.
//!
//! ```text
//!    sockets --> Thread (datagrams, streams) --> hierarchy::serve::Emulator --> sockets
//!                                                          \--> Backends: servers under test, one a level
//! ```
//!
//! It needs a namespace in which every address is local (`links::Pair`).

mod backends;
mod datagrams;
mod streams;
mod thread;

pub use backends::{Backends, ToBackends};

use hierarchy::serve::{Emulator, Tally};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;
use thread::{Thread, locked, nanoseconds_since};

/// A running emulation. It is stopped on drop.
pub struct Emulated {
    emulators: Vec<Arc<Mutex<Emulator>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    start: Instant,
}

impl Emulated {
    /// Opens sockets in the namespace of the calling thread, and starts one thread per emulator. All use the same port.
    ///
    /// # Errors
    /// If a socket cannot be opened.
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

    /// Whether all threads and servers run.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// The time in nanoseconds on the clock of the recorded queries.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        nanoseconds_since(self.start)
    }

    /// The number of queries so far.
    #[must_use]
    pub fn query_count(&self) -> u64 {
        self.emulators.iter().map(|emulator| locked(emulator).tally().query_count()).sum()
    }

    /// The queries so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for emulator in &self.emulators {
            sum.add(locked(emulator).tally().clone());
        }
        sum
    }

    /// Stops the threads.
    ///
    /// # Errors
    /// If a thread has failed.
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
            // A failed thread shows in `finish`, or as missing answers.
            let _ended = thread.join();
        }
    }
}
