//! A capture file of IP packets.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The header of a pcap file with nanosecond times.
const MAGIC: u32 = 0xA1B2_3C4D;
/// Packets that begin with their IP header (LINKTYPE_RAW).
const LINK_TYPE: u32 = 101;
/// The port of DNS servers.
const DNS: u16 = 53;

/// A pcap file for packets from and to servers.
pub struct PacketFile {
    out: BufWriter<File>,
    /// Traffic of its own clients is left out.
    resolver: SocketAddr,
    /// Number of packets.
    pub count: u64,
}

impl PacketFile {
    /// Creates a file for the upstream traffic of a resolver.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, resolver: SocketAddr) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create(path)?);
        for word in [MAGIC, 0x0004_0002, 0, 0, 1 << 16, LINK_TYPE] {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Self { out, resolver, count: 0 })
    }

    /// Adds a packet from or to a server. Other packets, and those between the resolver and its clients, are left out.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, at: SystemTime, packet: &[u8]) -> io::Result<()> {
        if !is_upstream(packet, self.resolver) {
            return Ok(());
        }
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let length = packet.len() as u32;
        for word in [since.as_secs() as u32, since.subsec_nanos(), length, length] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.count += 1;
        self.out.write_all(packet)
    }

    /// Writes buffered packets.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.count)
    }
}

/// Whether a packet is from or to a server. Later fragments have no ports and are kept.
fn is_upstream(packet: &[u8], resolver: SocketAddr) -> bool {
    const UDP: u8 = 17;
    const TCP: u8 = 6;
    const FRAGMENT: u8 = 44;
    let (protocol, ends, rest) = match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => {
            let head = usize::from(packet[0] & 0x0F) * 4;
            let address = |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
            let ends: [IpAddr; 2] = [address(12).into(), address(16).into()];
            if (packet[6] & 0x1F, packet[7]) != (0, 0) {
                return packet[9] == UDP;
            }
            (packet[9], ends, packet.get(head..))
        }
        Some(6) if packet.len() >= 40 => {
            let address = |at: usize| {
                let bytes: [u8; 16] = packet[at..at + 16].try_into().unwrap_or_default();
                IpAddr::from(Ipv6Addr::from(bytes))
            };
            (packet[6], [address(8), address(24)], packet.get(40..))
        }
        _ => return false,
    };
    if protocol == FRAGMENT {
        return true;
    }
    let Some(&[a, b, c, d]) = rest.and_then(|rest| rest.first_chunk()) else { return false };
    let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    let is_client_side = ends.iter().zip(ports).any(|(ip, port)| SocketAddr::new(*ip, port) == resolver);
    (protocol == UDP || protocol == TCP) && ports.contains(&DNS) && !is_client_side
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(from.0.iter().chain(&to.0));
        packet.extend(from.1.to_be_bytes().iter().chain(&to.1.to_be_bytes()));
        packet.extend([0; 8]);
        packet
    }

    #[test]
    fn upstream_packets_are_kept_and_client_packets_are_not() {
        let resolver = "127.0.0.1:53".parse().unwrap();
        let (here, there) = ([127, 0, 0, 1], [192, 0, 2, 1]);
        assert!(is_upstream(&packet(17, (here, 4711), (there, 53)), resolver));
        assert!(is_upstream(&packet(6, (there, 53), (here, 4711)), resolver));
        assert!(!is_upstream(&packet(17, (here, 4711), (here, 53)), resolver));
        assert!(!is_upstream(&packet(17, (here, 4711), (there, 443)), resolver));
        assert!(!is_upstream(&packet(1, (here, 4711), (there, 53)), resolver));
        let mut later = packet(17, (there, 1), (here, 1));
        later[7] = 185;
        assert!(is_upstream(&later, resolver));
        for length in 0..28 {
            assert!(!is_upstream(&later[..length.min(8)], resolver));
        }
        assert!(!is_upstream(&[], resolver));
    }
}
