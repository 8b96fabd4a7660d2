//! The users that listen on a TCP port of this machine, from `/proc/net/tcp`.

use crate::limits::LISTENERS_BYTES_MAX;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The kernel's number for the state LISTEN.
const LISTEN: &str = "0A";

/// The users whose processes would get a connection to `address`. Empty if the address does not belong to this machine.
pub(super) fn users(address: SocketAddr) -> io::Result<Vec<u32>> {
    // Only an address of this machine can be bound.
    if UdpSocket::bind((address.ip(), 0)).is_err() {
        return Ok(Vec::new());
    }
    let mut users = users_in(&read("/proc/net/tcp")?, address);
    match read("/proc/net/tcp6") {
        Ok(table) => users.extend(users_in(&table, address)),
        // A machine without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The kernel may list a socket twice if other sockets come and go meanwhile.
    users.sort_unstable();
    users.dedup();
    Ok(users)
}

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    let length = std::fs::File::open(path)?.take(LISTENERS_BYTES_MAX).read_to_string(&mut text)? as u64;
    if length < LISTENERS_BYTES_MAX { Ok(text) } else { Err(io::Error::other(format!("{path} is too long"))) }
}

/// The same from one table. Each line is a socket: its address, the peer's address, its state, and later its user.
fn users_in(table: &str, address: SocketAddr) -> Vec<u32> {
    let user = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (own, state) = (address_in(fields.nth(1)?)?, fields.nth(1)?);
        let user = fields.nth(3)?.parse().ok()?;
        let is_there =
            own.port() == address.port() && (is_any(own.ip()) || is_any(address.ip()) || own.ip() == ip(address));
        (state == LISTEN && is_there).then_some(user)
    };
    table.lines().skip(1).filter_map(user).collect()
}

fn ip(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

fn is_any(ip: IpAddr) -> bool {
    ip.is_unspecified()
}

/// Parses an address: its 32-bit words in native byte order, in hexadecimal, and the port.
fn address_in(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(words.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match words.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (index, four) in bytes.chunks_mut(4).enumerate() {
                four.copy_from_slice(&word(index * 8)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F76 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F76 0100007F:A000 01 00000000:00000000 00:00000000 00000000   999        0 2 1 0 100 0 0 10 0
   2: 00000000:1F77 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 3 1 0 100 0 0 10 0
   3: 0200007F:1F76 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 4 1 0 100 0 0 10 0
";

    #[test]
    fn the_table_is_read_by_port_and_address() {
        if cfg!(target_endian = "big") {
            return;
        }
        let users = |address: &str| users_in(TABLE, address.parse().unwrap());
        assert_eq!(users("127.0.0.1:8054"), [1000], "the connection of 999 does not listen");
        assert_eq!(users("127.0.0.2:8054"), [1002]);
        assert_eq!(users("127.0.0.1:8055"), [1001], "it listens on all addresses");
        assert_eq!(users("0.0.0.0:8054"), [1000, 1002]);
        assert!(users("127.0.0.1:8056").is_empty() && users("127.0.0.3:8054").is_empty());
    }

    #[test]
    fn a_listener_of_our_own_is_found() {
        let own = process::user::effective_user();
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(local) else { continue };
            let address = listener.local_addr().unwrap();
            assert_eq!(users(address).unwrap(), [own]);
            drop(listener);
            assert!(users(address).unwrap().is_empty());
        }
    }
}
