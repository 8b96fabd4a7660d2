//! All sockets of a node. Those for operators and peers are opened first, those for clients once the node can serve. On
//! a port that several nodes share, a node that does not serve yet would fail queries that another one could answer.

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

/// Time limit for a killed process to release its addresses.
const LET_GO_MS: u64 = 5_000;

/// Open files of a runtime: two of epoll, a wakeup, a signal.
const RUNTIME_FILES: usize = 4;

/// The sockets for operators and peers.
pub(super) struct Sockets {
    pub(super) peer: TcpListener,
    pub(super) api: TcpListener,
    /// `None` if it cannot be created; the node works without it.
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

/// Open files for clients without any connections: the sockets of each worker, a second descriptor of UDP sockets to
/// read their drops, and the files of the runtime.
pub(super) fn client_files(config: &Config) -> usize {
    let plain = config.dns.listen.len();
    let (streams, quic) = config.dns.tls.as_ref().map_or((0, 0), |tls| (tls.dot.len() + tls.doh.len(), tls.doq.len()));
    worker_count(config) * (2 * plain + plain + streams + 2 * quic + RUNTIME_FILES)
}

impl Sockets {
    pub(super) fn bind(config: &Config) -> Result<Self, Problem> {
        let deadline = Instant::now() + Duration::from_millis(LET_GO_MS);
        let alone = |address| {
            retry_until(deadline, || tcp(address, Sharing::Alone).map_err(|error| problem(address, "TCP", &error)))
        };
        let path = config.api_socket();
        let local = local_socket::bind(&path).inspect_err(|error| {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot create the Unix socket of the API: set another `socket` in [api]");
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

fn retry_until<T>(deadline: Instant, mut attempt: impl FnMut() -> Result<T, Problem>) -> Result<T, Problem> {
    loop {
        match attempt() {
            Err(Problem { exit: Exit::InUse, .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50))
            }
            done => return done,
        }
    }
}
