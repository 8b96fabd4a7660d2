//! The sockets for clients. They are opened once the node can serve. On a port that several nodes share, a node that
//! does not serve yet would fail queries that another one could answer.

use super::batch::BatchSocket;
use super::sockets::{Sharing, problem, tcp, udp};
use config::Config;
use config::tls::Tls;
use process::problem::Problem;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// Open files of a runtime: two of epoll, a wakeup, a signal.
const RUNTIME_FILES: usize = 4;

/// The sockets for clients.
pub(crate) struct ClientSockets {
    /// For each UDP worker, one socket per address.
    pub(crate) udp: Vec<Vec<BatchSocket>>,
    /// The sockets of each runtime of connections.
    pub(crate) streams: Vec<StreamSockets>,
}

/// The sockets of one runtime of connections: one for each address.
pub(crate) struct StreamSockets {
    pub(crate) tcp: Vec<TcpListener>,
    pub(crate) dot: Vec<TcpListener>,
    pub(crate) doh: Vec<TcpListener>,
    pub(crate) doq: Vec<UdpSocket>,
}

/// Number of workers of each transport.
pub(crate) fn worker_count(config: &Config) -> usize {
    match config.dns.udp_workers {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        count => count,
    }
}

/// Open files for clients without any connections: the sockets of each worker, a second descriptor of UDP sockets to
/// read their drops, and the files of the runtime.
pub(crate) fn client_files(config: &Config) -> usize {
    let plain = config.dns.listen.len();
    let (streams, quic) = config.dns.tls.as_ref().map_or((0, 0), |tls| (tls.dot.len() + tls.doh.len(), tls.doq.len()));
    worker_count(config) * (2 * plain + plain + streams + 2 * quic + RUNTIME_FILES)
}

impl ClientSockets {
    pub(crate) fn bind(config: &Config) -> Result<Self, Problem> {
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
