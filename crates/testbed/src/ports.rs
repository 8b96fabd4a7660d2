//! Free ports, and installed programs.

use super::peer_tree;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

/// First port. All ports are below the kernel's ephemeral range, because a run may use thousands of those, and below
/// the peer ports of `catamaran up` and the ports of the server's tests, from 10,000 on.
const PORT_FIRST: u16 = 3_000;
/// Number of ports.
const PORT_COUNT: u16 = 7_000;
/// Distance between the first ports of two processes with consecutive IDs.
const PROCESS_STEP: u32 = 10;

/// A loopback address with a free port. The port before it is free too, because catamaran needs both.
///
/// # Errors
/// If all ports are in use.
pub fn free_address() -> io::Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, free_ports(2)? + 1).into())
}

/// The first of `count` consecutive free ports.
///
/// # Errors
/// If there are none.
pub(crate) fn free_ports(count: u16) -> io::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| {
        let address = (Ipv4Addr::LOCALHOST, port);
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    // Each process starts at a different port.
    let offset = (std::process::id() * PROCESS_STEP % u32::from(PORT_COUNT)) as u16;
    for _ in 0..PORT_COUNT / count {
        let step = NEXT.fetch_add(count, Ordering::Relaxed) % PORT_COUNT;
        let port = PORT_FIRST + (offset + step) % PORT_COUNT;
        if (port..port + count).all(is_free) {
            return Ok(port);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Finds a program in the folder of [`peer_tree::VARIABLE`], on PATH, among those of the system, and where Go installs.
#[must_use]
pub fn installed(program: &str) -> Option<PathBuf> {
    if let Some(program) = peer_tree::program(program) {
        return Some(program);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let home = std::env::var("HOME").unwrap_or_default();
    path.split(':')
        .map(PathBuf::from)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin"), Path::new(&home).join("go/bin")])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
