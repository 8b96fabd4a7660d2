//! A server that answers each query with the query itself, over every transport, with one or more threads.
//! It shows the limits of the load generator, and with injected faults it is used in tests.
//!
//! ```text
//!    socket --> Server (datagrams, streams, quic) --> Fault --> Reply --> socket, at once or later
//! ```

// Its plan, and its counters.
mod counts;
mod plan;
// Injected faults.
mod fault;
// The certificate.
mod certificate;
// One thread: datagrams and connections.
mod connection;
mod datagrams;
mod handler;
mod http;
mod quic;
mod server;

pub use certificate::Certificate;
pub use counts::Counts;
pub use fault::{Fault, Faults, ReceivedQuery};
pub use plan::EchoPlan;

use measure::Transport;
use server::Server;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running server. It is stopped on drop.
pub struct Echo {
    addresses: BTreeMap<Transport, SocketAddr>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Echo {
    /// Opens the sockets and starts the threads.
    ///
    /// # Errors
    /// If a socket cannot be opened, or the certificate is invalid.
    pub fn start(plan: &EchoPlan) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts::default());
        let mut plan = plan.clone();
        let mut threads = Vec::new();
        for index in 0..plan.thread_count.max(1) {
            let sockets = server::Sockets::open(&plan)?;
            // The free ports of the first thread are used by all threads.
            plan.ports = sockets.addresses()?.into_iter().map(|(own, address)| (own, address.port())).collect();
            let (plan, stop, counts) = (plan.clone(), Arc::clone(&stop), Arc::clone(&counts));
            let serve = move || Server::new(&plan, sockets, counts)?.run(&stop);
            threads.push(std::thread::Builder::new().name(format!("echo-{index}")).spawn(serve)?);
        }
        let addresses = plan.ports.iter().map(|(&own, &port)| (own, SocketAddr::new(plan.address, port))).collect();
        Ok(Self { addresses, counts, stop, threads })
    }

    /// The address for a transport.
    ///
    /// # Panics
    /// If it was started without that transport.
    #[must_use]
    pub fn address(&self, transport: Transport) -> SocketAddr {
        self.addresses[&transport]
    }

    /// The current counters.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A failed thread shows as missing answers.
            let _ended = thread.join();
        }
    }
}
