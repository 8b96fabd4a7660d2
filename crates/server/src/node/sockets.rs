//! All sockets of a node. Those for operators and peers come first; those for clients once the node can answer them: on
//! a port that several nodes share, a node that cannot answer yet would fail queries that another could have answered.

use super::generation;
use crate::config::Config;
use crate::config::tls::Tls;
use crate::files::local_socket;
use crate::listen::batch::BatchSocket;
use crate::listen::sockets::{Sharing, problem, tcp, udp};
use crate::problem::{Exit, Problem};
use std::fs::File;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// How long a node waits for a process that was just killed to let go of its addresses.
const LET_GO_MS: u64 = 5_000;

/// Files that a runtime waits with: two of epoll, a wake-up, a signal.
const RUNTIME_FILES: usize = 4;

/// The sockets for operators and peers.
pub(super) struct Sockets {
    pub(super) peer: TcpListener,
    pub(super) api: TcpListener,
    /// The node does without where it cannot be made.
    pub(super) api_local: Option<UnixListener>,
    /// Kernel events; `None` if the system has none.
    pub(super) generation: Option<File>,
}

/// The sockets for clients.
pub(super) struct ClientSockets {
    /// For each UDP worker, one for each address.
    pub(super) udp: Vec<Vec<BatchSocket>>,
    /// For each runtime of connections.
    pub(super) streams: Vec<StreamSockets>,
}

/// The sockets of one runtime of connections: one for each address.
pub(super) struct StreamSockets {
    pub(super) tcp: Vec<TcpListener>,
    pub(super) dot: Vec<TcpListener>,
    pub(super) doh: Vec<TcpListener>,
    pub(super) doq: Vec<UdpSocket>,
}

/// Workers for each transport.
pub(super) fn worker_count(config: &Config) -> usize {
    match config.dns.udp_workers {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        count => count,
    }
}

/// Files that are open for clients whatever connections there are: the sockets of each worker, those of UDP twice as
/// their drops are read from a copy, and what its runtime waits with.
pub(super) fn client_files(config: &Config) -> usize {
    let plain = config.dns.listen.len();
    let (streams, quic) = config.dns.tls.as_ref().map_or((0, 0), |tls| (tls.dot.len() + tls.doh.len(), tls.doq.len()));
    worker_count(config) * (2 * plain + plain + streams + 2 * quic + RUNTIME_FILES)
}

impl Sockets {
    pub(super) fn bind(config: &Config) -> Result<Self, Problem> {
        let deadline = Instant::now() + Duration::from_millis(LET_GO_MS);
        let alone = |address| {
            patiently(deadline, || tcp(address, Sharing::Alone).map_err(|error| problem(address, "TCP", &error)))
        };
        let path = config.api_socket();
        let local = local_socket::bind(&path).inspect_err(|error| {
            let path = path.display();
            tracing::warn!(%path, %error, "the API has no Unix socket: name another place with `socket` in [api]");
        });
        let (peer, api) = (alone(config.peer.listen)?, alone(config.api.listen)?);
        Ok(Self { peer, api, api_local: local.ok(), generation: generation::listen() })
    }
}

impl ClientSockets {
    pub(super) fn bind(config: &Config) -> Result<Self, Problem> {
        let workers = worker_count(config);
        let addresses = &config.dns.listen;
        let udp = (0..workers)
            .map(|_| addresses.iter().map(|address| bind_udp(*address)).collect())
            .collect::<Result<_, _>>()?;
        let streams = (0..workers).map(|_| StreamSockets::bind(config)).collect::<Result<_, _>>()?;
        Ok(Self { udp, streams })
    }
}

impl StreamSockets {
    fn bind(config: &Config) -> Result<Self, Problem> {
        let listen = |addresses: &[SocketAddr]| -> Result<Vec<TcpListener>, Problem> {
            let one =
                |address: &SocketAddr| tcp(*address, Sharing::Shared).map_err(|error| problem(*address, "TCP", &error));
            addresses.iter().map(one).collect()
        };
        let tls = config.dns.tls.as_ref();
        let of = |addresses: fn(&Tls) -> &[SocketAddr]| tls.map_or(&[][..], addresses);
        let quic =
            |address: &SocketAddr| udp(*address, Sharing::Shared).map_err(|error| problem(*address, "UDP", &error));
        Ok(Self {
            tcp: listen(&config.dns.listen)?,
            dot: listen(of(|tls| &tls.dot))?,
            doh: listen(of(|tls| &tls.doh))?,
            doq: of(|tls| &tls.doq).iter().map(quic).collect::<Result<_, _>>()?,
        })
    }
}

fn bind_udp(address: SocketAddr) -> Result<BatchSocket, Problem> {
    udp(address, Sharing::Shared).and_then(BatchSocket::new).map_err(|error| problem(address, "UDP", &error))
}

fn patiently<T>(deadline: Instant, mut attempt: impl FnMut() -> Result<T, Problem>) -> Result<T, Problem> {
    loop {
        match attempt() {
            Err(Problem { exit: Exit::InUse, .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50))
            }
            done => return done,
        }
    }
}
