//! Connections to a peer that acknowledges nothing end, so that it is dialled again and reached as soon as it can be.
//!
//! TCP by itself waits twice as long before each repeat (RFC 6298 5.5): minutes after a cut of minutes.

use crate::limits::PEER_SILENT_MS;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Sends what is written at once, and ends the connection when the other end has been silent for too long.
pub(super) fn prepare(stream: &impl AsFd) -> io::Result<()> {
    let limit = Duration::from_millis(PEER_SILENT_MS);
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    // RFC 5482: how long what was sent may stay without an acknowledgement.
    socket.set_tcp_user_timeout(Some(limit))?;
    // An end that only reads learns of it by asking (RFC 9293 3.8.4), else it would keep a place for ever.
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(limit).with_interval(limit / 5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn a_connection_on_which_nothing_gets_through_ends() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // It stays open, and nobody reads from it.
        let (_silent, _) = listener.accept().unwrap();
        prepare(&stream).unwrap();
        // Without the limit this one ends the test: with an error of another kind.
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
