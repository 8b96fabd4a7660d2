//! Programs that tests start.

use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Output;
use std::time::{Duration, Instant};

/// The program under test.
pub(crate) const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");
/// How long a test waits for a condition.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The exit code, the output and the error output of a program; -1 if a signal ended it.
pub(crate) fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// A UDP address where nobody listens. The socket holds the port. It is connected to itself, and so it does not get the
/// datagrams of others.
pub(crate) fn closed_udp() -> (UdpSocket, SocketAddr) {
    let holder = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = holder.local_addr().unwrap();
    holder.connect(address).unwrap();
    (holder, address)
}

/// The same over TCP: the socket does not listen.
pub(crate) fn closed_tcp() -> (Socket, SocketAddr) {
    let holder = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    holder.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let address = holder.local_addr().unwrap().as_socket().unwrap();
    (holder, address)
}

/// Waits for a condition. Fails with this message after the time limit.
#[track_caller]
pub(crate) fn until(message: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "{message}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
