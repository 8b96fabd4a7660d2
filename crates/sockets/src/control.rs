//! Control messages (cmsg(3)) and socket addresses in memory that the kernel reads and writes.

use std::net::{IpAddr, SocketAddr};
/// Size of a timestamp and a destination address, each with its header.
pub(super) const CONTROL_BYTES: usize = 96;
/// Size of a socket address of either family.
pub(super) const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();

#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct ControlBytes(pub(super) [u8; CONTROL_BYTES]);

#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct SocketAddressBytes(pub(super) [u8; NAME_BYTES]);

/// Writes the control message with the segment length of a large datagram (UDP_SEGMENT of udp(7)). Returns its size.
pub(super) fn put_segment(control: &mut [u8], length: usize) -> usize {
    put_control(control, libc::SOL_UDP, libc::UDP_SEGMENT, &(length as u16).to_ne_bytes())
}

/// Writes the control message with the source address of a datagram (IP_PKTINFO of ip(7), RFC 3542 6.1): interface,
/// source and an unused field, or source and interface. Returns its size.
pub(super) fn put_source(control: &mut [u8], source: IpAddr) -> usize {
    match source {
        IpAddr::V4(source) => {
            let mut info = [0; 12];
            info[4..8].copy_from_slice(&source.octets());
            put_control(control, libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
        }
        IpAddr::V6(source) => {
            let mut info = [0; 20];
            info[..16].copy_from_slice(&source.octets());
            put_control(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
        }
    }
}

/// Writes a control message: total length (a word), level, type and data (cmsg(3)). Returns its size, padded to whole
/// words.
fn put_control(control: &mut [u8], level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
    let length = HEAD_BYTES + data.len();
    control[..8].copy_from_slice(&length.to_ne_bytes());
    control[8..12].copy_from_slice(&level.to_ne_bytes());
    control[12..16].copy_from_slice(&kind.to_ne_bytes());
    control[HEAD_BYTES..length].copy_from_slice(data);
    length.next_multiple_of(8)
}

/// Size of the header of a control message.
const HEAD_BYTES: usize = 16;

/// The destination address of a datagram, from its control data.
pub(super) fn destination_of(mut control: &[u8]) -> Option<IpAddr> {
    loop {
        let length = usize::from_ne_bytes(control.get(..8)?.try_into().ok()?);
        let half = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
        let data = control.get(HEAD_BYTES..length)?;
        match (half(8)?, half(12)?) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                return Some(<[u8; 4]>::try_from(data.get(8..12)?).ok()?.into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                return Some(<[u8; 16]>::try_from(data.get(..16)?).ok()?.into());
            }
            _ => control = control.get(length.next_multiple_of(8)..)?,
        }
    }
}

/// The address and port in a socket address from the kernel: family and port, then for IPv6 a word before the address.
pub(super) fn address_of(name: &SocketAddressBytes) -> Option<SocketAddr> {
    let [family @ .., high, low] = *name.0.first_chunk::<4>()?;
    let port = u16::from_be_bytes([high, low]);
    match libc::c_int::from(u16::from_ne_bytes(family)) {
        libc::AF_INET => Some((<[u8; 4]>::try_from(&name.0[4..8]).ok()?, port).into()),
        libc::AF_INET6 => Some((<[u8; 16]>::try_from(&name.0[8..24]).ok()?, port).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn truncated_control_data_is_ignored() {
        let mut control = [0; CONTROL_BYTES];
        assert_eq!(put_source(&mut control, Ipv4Addr::new(127, 0, 0, 9).into()), 32);
        for end in 0..28 {
            assert_eq!(destination_of(&control[..end]), None, "{end}");
        }
        assert_eq!(destination_of(&[0; CONTROL_BYTES]), None);
    }
}
