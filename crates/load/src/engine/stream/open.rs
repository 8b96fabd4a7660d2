//! Opens connections, and explains failures.

use super::connection::{CloseReason, Connection, Protocol};
use super::http::{HttpClient, HttpPlan};
use super::ports::PortRotation;
use crate::engine::connection_pool::ConnectionState;
use crate::engine::endpoint::{ConnectionPolicy, Endpoint};
use crate::engine::plan::Plan;
use crate::engine::tls::{TlsConfigs, TlsPlan, explain, server_name};
use measure::Transport;
use mio::{Interest, Registry, Token};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustls::{ClientConnection, Error};
use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};
use sockets::{Framing, Link};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

/// Opens connections according to the plan.
pub(super) struct Opener {
    pub(super) http: HttpPlan,
    tls: TlsPlan,
    dot: Option<TlsConfigs>,
    doh: Option<TlsConfigs>,
    sources: Vec<IpAddr>,
    ports: PortRotation,
    worker: usize,
    rng: ChaCha8Rng,
}

/// Why a connection could not be opened.
pub(super) enum OpenError {
    /// A limit of this machine, so retrying is useless.
    Fatal(io::Error),
    /// The server or the network.
    Failed(String),
}

impl Opener {
    pub(super) fn new(plan: &Plan, index: usize, clients: &[Endpoint]) -> io::Result<Self> {
        let configs = |transport: Transport| {
            let is_used = clients.iter().any(|client| client.transport == transport);
            is_used.then(|| TlsConfigs::new(&plan.tls, transport)).transpose().map_err(io::Error::other)
        };
        let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
        rng.set_stream(1_000 + index as u64);
        Ok(Self {
            http: plan.http.clone(),
            tls: plan.tls.clone(),
            dot: configs(Transport::Dot)?,
            doh: configs(Transport::Doh)?,
            sources: plan.sources.clone(),
            // Parallel processes also start at different ports.
            ports: PortRotation::of_kernel(index + std::process::id() as usize),
            worker: index,
            rng,
        })
    }

    /// Draws true with this probability.
    pub(super) fn draws(&mut self, share: f64) -> bool {
        share >= 1.0 || self.rng.random::<f64>() < share
    }

    /// Starts a connection.
    pub(super) fn open(
        &mut self,
        endpoint: Endpoint,
        policy: &ConnectionPolicy,
        client: u32,
        registry: &Registry,
        token: Token,
    ) -> Result<Connection, OpenError> {
        let of_all = self.sources.get((client as usize + self.worker) % self.sources.len().max(1)).copied();
        let source = endpoint.source.or(of_all);
        let stream = connect(endpoint.server, source, &mut self.ports).map_err(|error| refusal(error, source))?;
        let mut socket = mio::net::TcpStream::from_std(stream);
        registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE).map_err(OpenError::Fatal)?;
        let tls = match endpoint.transport {
            Transport::Dot => self.dot.as_ref(),
            Transport::Doh => self.doh.as_ref(),
            _ => None,
        };
        let mut authority: Arc<str> = "".into();
        let tls = match tls {
            None => None,
            Some(configs) => {
                let name = server_name(&self.tls, endpoint.server).map_err(OpenError::Failed)?;
                let config = configs.of(policy.session(&mut self.rng));
                let client = ClientConnection::new(config, name);
                let client = client.map_err(|error| OpenError::Failed(error.to_string()))?;
                authority = match &self.tls.name {
                    Some(name) => format!("{name}:{}", endpoint.server.port()).into(),
                    None => endpoint.server.to_string().into(),
                };
                Some(Box::new(rustls::Connection::from(client)))
            }
        };
        let protocol = match endpoint.transport {
            Transport::Doh => Protocol::Http(Box::new(HttpClient::new().map_err(OpenError::Failed)?)),
            _ => Protocol::Framed(Framing::default()),
        };
        Ok(Connection {
            link: Link::new(socket, tls, false),
            protocol,
            transport: endpoint.transport,
            server: endpoint.server,
            authority,
            state: ConnectionState::new(client, policy.in_flight_max),
            is_certificate_refused: false,
        })
    }

    /// Why a connection broke.
    pub(super) fn reason(&self, connection: &mut Connection, error: &io::Error) -> CloseReason {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        if let Some(tls) = tls {
            connection.is_certificate_refused = matches!(tls, Error::InvalidCertificate(_));
        }
        if connection.state.is_open {
            return CloseReason::ByPeer;
        }
        CloseReason::Failed(match tls {
            Some(tls) => explain(tls, &self.tls, connection.server),
            None => plain_reason(error, connection),
        })
    }

    /// The server closed the connection.
    pub(super) fn closed(&self, connection: &Connection) -> CloseReason {
        if connection.state.is_open {
            return CloseReason::ByPeer;
        }
        CloseReason::Failed("it closed the connection during the handshake".into())
    }
}

fn plain_reason(error: &io::Error, connection: &Connection) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "the connection was refused: nobody listens there".into(),
        ErrorKind::ConnectionReset if connection.link.is_connected() => {
            "it reset the connection during the handshake".into()
        }
        _ => format!("no connection: {error}"),
    }
}

/// A limit of this machine, so retrying is useless.
fn refusal(error: io::Error, source: Option<IpAddr>) -> OpenError {
    let sentence = match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => {
            let limit = sockets::system::raise_open_files();
            format!(
                "no more connections: this process may have {limit} files open (ulimit -Hn); use fewer clients, or \
                 a second process"
            )
        }
        Some(libc::EADDRNOTAVAIL) => match source {
            Some(source) => format!(
                "no more connections: every port of {source} is in use, or it is not an address of this machine; \
                 name more addresses with --source"
            ),
            None => "no more connections: every local port is in use; name addresses with --source, on loopback \
                     127.0.0.2,127.0.0.3"
                .into(),
        },
        _ => return OpenError::Failed(format!("no connection: {error}")),
    };
    OpenError::Fatal(io::Error::new(error.kind(), sentence))
}

fn connect(server: SocketAddr, source: Option<IpAddr>, ports: &mut PortRotation) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM.nonblocking(), Some(SocketProtocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    // Without timestamps, the time of reading counts.
    let _stamped = sockets::system::enable_stamps(&socket);
    if let Some(source) = source {
        // connect(2) chooses the port, so that every port can be used for each server.
        sockets::system::leave_port_to_connect(&socket)?;
        if source.is_ipv6() {
            // Allows source addresses that are routed as local but not on an interface (ipv6(7)).
            socket.set_freebind_v6(true)?;
        }
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    match ports.connect(&socket, &server.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        _ => {}
    }
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    /// Nagle's algorithm would delay a query until the previous one is acknowledged.
    #[test]
    fn connections_disable_nagle() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for source in [None, Some(Ipv4Addr::new(127, 0, 0, 7).into())] {
            let connection = connect(server.local_addr().unwrap(), source, &mut PortRotation::of_kernel(0)).unwrap();
            assert!(connection.nodelay().unwrap(), "{source:?}");
            assert_eq!(source.unwrap_or(Ipv4Addr::LOCALHOST.into()), connection.local_addr().unwrap().ip());
        }
    }
}
