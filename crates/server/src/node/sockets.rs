//! All sockets of a node, before anything else is started: an address in use is found at once.

use crate::config::Config;
use crate::listen::batch::BatchSocket;
use crate::listen::sockets::{Sharing, problem, tcp, udp};
use crate::problem::{Exit, Problem};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// How long a node waits for a process that was just killed to let go of its addresses.
const LET_GO_MS: u64 = 5_000;

/// The sockets of a node.
pub(super) struct Sockets {
    /// For each UDP worker, one for each address.
    pub(super) udp: Vec<Vec<BatchSocket>>,
    /// For each TCP runtime, one for each address.
    pub(super) tcp: Vec<Vec<TcpListener>>,
    pub(super) peer: TcpListener,
    pub(super) api: TcpListener,
}

impl Sockets {
    pub(super) fn bind(config: &Config) -> Result<Self, Problem> {
        let workers = match config.dns.udp_workers {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            count => count,
        };
        let deadline = Instant::now() + Duration::from_millis(LET_GO_MS);
        let alone = |address| {
            patiently(deadline, || tcp(address, Sharing::Alone).map_err(|error| problem(address, "TCP", &error)))
        };
        let (peer, api) = (alone(config.peer.listen)?, alone(config.api.listen)?);
        let addresses = &config.dns.listen;
        let udp = (0..workers)
            .map(|_| addresses.iter().map(|address| bind_udp(*address)).collect())
            .collect::<Result<_, _>>()?;
        let listen =
            |address: &SocketAddr| tcp(*address, Sharing::Shared).map_err(|error| problem(*address, "TCP", &error));
        let tcp = (0..workers).map(|_| addresses.iter().map(listen).collect()).collect::<Result<_, _>>()?;
        Ok(Self { udp, tcp, peer, api })
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
