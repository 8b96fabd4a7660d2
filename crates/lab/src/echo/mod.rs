//! A server that answers each query with the query: what the tool is measured against, and, with faults that are known,
//! what its tests are. Over every transport, from one thread each.
//!
//! ```text
//!   socket --> Server (datagrams, streams, quic) --> Fault --> Reply --> socket, at once or later
//! ```

// What goes wrong.
mod fault;
// Who signs for it.
mod certificate;
// One thread: datagrams and connections.
mod connection;
mod http;
mod quic;
mod server;

pub use certificate::Certificate;
pub use fault::{Fault, Faults, ReceivedQuery};

use crate::engine::Transport;
use server::Server;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// What to start.
#[derive(Clone)]
pub struct EchoPlan {
    /// Where.
    pub address: IpAddr,
    /// The port of each transport; zero for any.
    pub ports: BTreeMap<Transport, u16>,
    /// What goes wrong.
    pub faults: Faults,
    /// The certificate of encrypted transports.
    pub certificate: Arc<Certificate>,
    /// Threads; each has its own sockets on the same ports.
    pub thread_count: usize,
    /// TLS 1.2 and nothing newer; DoQ is without it.
    pub is_tls12: bool,
}

impl EchoPlan {
    /// Without faults, on loopback, on any ports, in one thread.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn new(transports: &[Transport]) -> io::Result<Self> {
        Ok(Self {
            address: Ipv4Addr::LOCALHOST.into(),
            ports: transports.iter().map(|&transport| (transport, 0)).collect(),
            faults: Arc::new(|_| Fault::None),
            certificate: Arc::new(Certificate::new()?),
            thread_count: 1,
            is_tls12: false,
        })
    }
}

/// What a server counted; each is the sum of its threads.
#[derive(Debug, Default)]
pub struct Counts {
    /// Queries by transport, in the order of [`Transport::ALL`].
    pub queries: [AtomicU64; 5],
    /// Connections by transport.
    pub connections: [AtomicU64; 5],
    /// Of these: open.
    pub open: [AtomicU64; 5],
}

impl Counts {
    /// Queries that came over a transport.
    #[must_use]
    pub fn queries_of(&self, transport: Transport) -> u64 {
        self.queries[transport as usize].load(Ordering::Relaxed)
    }

    /// Connections that were made over a transport.
    #[must_use]
    pub fn connections_of(&self, transport: Transport) -> u64 {
        self.connections[transport as usize].load(Ordering::Relaxed)
    }

    /// Connections that are open.
    #[must_use]
    pub fn open_of(&self, transport: Transport) -> u64 {
        self.open[transport as usize].load(Ordering::Relaxed)
    }
}

/// A running server; it ends with this value.
pub struct Echo {
    addresses: BTreeMap<Transport, SocketAddr>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Echo {
    /// Opens its sockets and starts its threads.
    ///
    /// # Errors
    /// When sockets cannot be opened, or the certificate is not good.
    pub fn start(plan: &EchoPlan) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts::default());
        let mut plan = plan.clone();
        let mut threads = Vec::new();
        for index in 0..plan.thread_count.max(1) {
            let sockets = server::Sockets::open(&plan)?;
            // The ports that the first thread was given are those of all.
            plan.ports = sockets.addresses()?.into_iter().map(|(own, address)| (own, address.port())).collect();
            let (plan, stop, counts) = (plan.clone(), Arc::clone(&stop), Arc::clone(&counts));
            let serve = move || Server::new(&plan, sockets, counts)?.run(&stop);
            threads.push(std::thread::Builder::new().name(format!("echo-{index}")).spawn(serve)?);
        }
        let addresses = plan.ports.iter().map(|(&own, &port)| (own, SocketAddr::new(plan.address, port))).collect();
        Ok(Self { addresses, counts, stop, threads })
    }

    /// Where it answers over a transport.
    ///
    /// # Panics
    /// When it was started without that transport.
    #[must_use]
    pub fn address(&self, transport: Transport) -> SocketAddr {
        self.addresses[&transport]
    }

    /// What it counted so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that failed is seen by whoever waits for its answers.
            let _ended = thread.join();
        }
    }
}
