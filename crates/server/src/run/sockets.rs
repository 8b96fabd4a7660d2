//! The sockets for operators and peers. They are opened before those for clients.

use crate::listen::sockets::{Sharing, problem, tcp};
use crate::replica_host::generation;
use config::Config;
use config::files::local_socket;
use process::problem::{Exit, Problem};
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Time limit for a killed process to release its addresses.
const LET_GO_MS: u64 = 5_000;

/// The sockets for operators and peers.
pub(super) struct Sockets {
    pub(super) peer: TcpListener,
    pub(super) api: TcpListener,
    /// `None` if it cannot be created; the node works without it.
    pub(super) api_local: Option<UnixListener>,
    /// Kernel events; `None` if the system has none.
    pub(super) generation: Option<File>,
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
