//! Addresses, control messages and options in the kernel's format.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Bytes of control messages of one datagram: an `in6_pktinfo` and a segment size, each with its head, rounded up.
pub(super) const CONTROL_BYTES: usize = 64;

/// A buffer for control messages, aligned for `cmsghdr`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_BYTES]);

/// Sets an integer option of a socket.
pub(super) fn set_option(
    socket: &UdpSocket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer is to a live int, and its size is passed with it.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An address in the kernel's format, and its length.
pub(super) fn to_storage(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    let address = socket2::SockAddr::from(address);
    // SAFETY: sockaddr_storage holds only integers, for which all zero bytes are valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    // SAFETY: `address` holds `len()` bytes, no more than a sockaddr_storage, and the two do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            address.as_ptr().cast::<u8>(),
            (&raw mut storage).cast::<u8>(),
            (address.len() as usize).min(size_of::<libc::sockaddr_storage>()),
        );
    }
    (storage, address.len())
}

/// Length of an address that the kernel wrote.
pub(super) fn storage_len(storage: &libc::sockaddr_storage) -> libc::socklen_t {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>() as libc::socklen_t,
        _ => size_of::<libc::sockaddr_in6>() as libc::socklen_t,
    }
}

/// The address that the kernel wrote; `None` if it is neither IPv4 nor IPv6.
pub(super) fn from_storage(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that these bytes are a sockaddr_in, which is no larger and no more aligned.
            let address = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(address.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that these bytes are a sockaddr_in6, which is no larger and no more aligned.
            let address = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id)))
        }
        _ => None,
    }
}

/// Bytes of a cmsghdr. Its data starts there: on 64-bit Linux this is a multiple of eight.
const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();

/// Where a datagram was sent to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Destination {
    /// The source address of its response. For an IPv6 multicast datagram this is the group, which is not answered.
    pub(super) local: IpAddr,
    /// Whether it was sent to a multicast group or a broadcast address.
    pub(super) is_multicast: bool,
}

/// The address that a datagram was sent to, from its control messages.
pub(super) fn read_destination(control: &[u8]) -> Option<Destination> {
    let integer =
        |at: usize| control.get(at..at + 4).map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap_or([0; 4])));
    // The kernel writes one message, because one option is set: length (a size_t), level, type, data.
    let (level, kind) = (integer(CONTROL_HEAD - 8)?, integer(CONTROL_HEAD - 4)?);
    let data = control.get(CONTROL_HEAD..)?;
    if level == libc::IPPROTO_IP && kind == libc::IP_PKTINFO {
        // in_pktinfo: interface, local address, destination address of the header. They differ for multicast and
        // broadcast: then the local address is one of this machine.
        let (local, rest) = data.get(4..)?.split_first_chunk::<4>()?;
        let (to, _) = rest.split_first_chunk::<4>()?;
        Some(Destination { local: IpAddr::from(*local), is_multicast: local != to && *local != [0; 4] })
    } else if level == libc::IPPROTO_IPV6 && kind == libc::IPV6_PKTINFO {
        let bytes: [u8; 16] = data.get(..16)?.try_into().ok()?;
        let local = IpAddr::from(bytes);
        Some(Destination { local, is_multicast: local.is_multicast() })
    } else {
        None
    }
}

/// Writes the control message that makes the kernel send from `local`; returns its length.
pub(super) fn write_source(control: &mut [u8], local: IpAddr) -> usize {
    let mut data = [0; size_of::<libc::in6_pktinfo>()];
    // Interface 0: the routing table chooses.
    match local {
        IpAddr::V4(ip) => {
            data[4..8].copy_from_slice(&ip.octets());
            let data = &data[..size_of::<libc::in_pktinfo>()];
            write_message(control, libc::IPPROTO_IP, libc::IP_PKTINFO, data)
        }
        IpAddr::V6(ip) => {
            data[..16].copy_from_slice(&ip.octets());
            write_message(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data)
        }
    }
}

/// Writes the control message that makes the kernel cut a message into datagrams of `bytes` bytes; returns its length.
pub(super) fn write_segment(control: &mut [u8], bytes: usize) -> usize {
    write_message(control, libc::SOL_UDP, libc::UDP_SEGMENT, &(bytes as u16).to_ne_bytes())
}

fn write_message(control: &mut [u8], level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
    let mut put = |at: usize, bytes: &[u8]| control[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(CONTROL_HEAD + data.len()).to_ne_bytes());
    put(CONTROL_HEAD - 8, &level.to_ne_bytes());
    put(CONTROL_HEAD - 4, &kind.to_ne_bytes());
    put(CONTROL_HEAD, data);
    (CONTROL_HEAD + data.len()).next_multiple_of(size_of::<usize>())
}
