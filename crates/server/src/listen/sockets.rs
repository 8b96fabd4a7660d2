//! Opens sockets with the options of this server.

use crate::limits::{TCP_UNSENT_BYTES, UDP_SOCKET_BUFFER_BYTES};
use process::problem::{Exit, Problem};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// Backlog of TCP listeners.
const TCP_BACKLOG: i32 = 4_096;

/// How a port is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    /// With other workers and nodes of the same user; the kernel balances between them (SO_REUSEPORT).
    Shared,
    /// Not shared.
    Alone,
}

/// The protocols that need a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocols {
    Udp,
    Tcp,
    Both,
}

/// Opens a non-blocking UDP socket.
pub(crate) fn udp(address: SocketAddr, sharing: Sharing) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_port(sharing == Sharing::Shared)?;
    // The kernel may grant less. Then bursts are dropped sooner.
    let _ = socket.set_recv_buffer_size(UDP_SOCKET_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(UDP_SOCKET_BUFFER_BYTES);
    socket.bind(&SockAddr::from(address))?;
    Ok(socket.into())
}

/// Opens a non-blocking TCP listener.
pub(crate) fn tcp(address: SocketAddr, sharing: Sharing) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections of an earlier process may linger in TIME_WAIT. This option never shares a port with a live listener.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Shared)?;
    // Accepted connections inherit it.
    socket.set_tcp_notsent_lowat(TCP_UNSENT_BYTES)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(TCP_BACKLOG)?;
    Ok(socket.into())
}

/// The error for an address that cannot be opened, with a hint.
pub(crate) fn problem(address: SocketAddr, protocol: &str, error: &io::Error) -> Problem {
    let (exit, hint) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            Exit::InUse,
            format!(
                "find the process with `ss -lnp 'sport = :{}'` and stop it, or choose other ports \
                 (--port, --dot-port, --api-port ..., or `listen`)",
                address.port()
            ),
        ),
        io::ErrorKind::AddrNotAvailable => {
            (Exit::Input, "name an address that this machine has (`ip address`)".to_owned())
        }
        io::ErrorKind::PermissionDenied => {
            (Exit::Failed, "ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher port, or grant it".to_owned())
        }
        _ => (Exit::Failed, "check the address".to_owned()),
    };
    Problem::new(exit, format!("cannot listen on {protocol} {address}"), error).at(address).hint(hint)
}

/// Checks that no process listens on `address`.
pub(crate) fn check_free(address: SocketAddr, protocols: Protocols) -> Result<(), Problem> {
    if protocols != Protocols::Tcp {
        udp(address, Sharing::Alone).map_err(|error| problem(address, "UDP", &error))?;
    }
    if protocols != Protocols::Udp {
        tcp(address, Sharing::Alone).map_err(|error| problem(address, "TCP", &error))?;
    }
    Ok(())
}

/// Whether this machine has the IPv6 loopback address.
pub(crate) fn has_ipv6_loopback() -> bool {
    UdpSocket::bind("[::1]:0").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_shared_only_when_both_want_it() {
        let first = udp("127.0.0.1:0".parse().unwrap(), Sharing::Shared).unwrap();
        let address = first.local_addr().unwrap();
        let _second = udp(address, Sharing::Shared).unwrap();
        let error = check_free(address, Protocols::Both).unwrap_err().to_string();
        assert!(error.contains("cannot listen on UDP 127.0.0.1:"), "{error}");
        assert!(error.contains("--port"), "{error}");
        let listener = tcp("127.0.0.1:0".parse().unwrap(), Sharing::Alone).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(check_free(address, Protocols::Tcp).is_err());
        drop(listener);
        check_free(address, Protocols::Both).unwrap();
    }
}
