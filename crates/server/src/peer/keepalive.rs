//! Socket options that end a connection to a peer that does not acknowledge data, so that it is dialled again soon.
//!
//! TCP doubles the time between retransmissions (RFC 6298 5.5), so after a network outage of minutes it would wait for
//! minutes.

use crate::limits::PEER_ACK_TIMEOUT_MS;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Disables Nagle, and ends the connection when the other end does not acknowledge data in time.
pub(super) fn configure(stream: &impl AsFd) -> io::Result<()> {
    let limit = Duration::from_millis(PEER_ACK_TIMEOUT_MS);
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    // RFC 5482: the time limit for acknowledgements.
    socket.set_tcp_user_timeout(Some(limit))?;
    // A side that only reads needs keepalive probes (RFC 9293 3.8.4) to notice a dead peer.
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(limit).with_interval(limit / 5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn a_connection_without_acknowledgements_ends() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // The connection stays open, but the peer does not read.
        let (_silent, _) = listener.accept().unwrap();
        configure(&stream).unwrap();
        // Without the option, this limit ends the test with another error.
        stream.set_write_timeout(Some(Duration::from_secs(120))).unwrap();
        let bytes = vec![0; 1 << 20];
        let error = loop {
            if let Err(error) = stream.write_all(&bytes) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }
}
