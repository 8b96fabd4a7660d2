//! The servers of a comparison: each started with the zones and one key, and started again when it has to be.

use super::client;
use super::contents::Contents;
use super::run::Server;
use crate::peers::{Kind, Peer, ServedZone, Setup, UpdateKey, start};
use domain::tsig::Key;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use wire::name::Name;

/// The servers that take updates; ours first.
pub const KINDS: [Kind; 3] = [Kind::Catamaran, Kind::Bind, Kind::Knot];

const KEY_NAME: &str = "key.test";
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// How often a server is started before it counts as broken: its port may be taken in the meantime.
const START_ATTEMPT_COUNT: usize = 3;
/// Ports are taken from here, below those that the kernel gives to clients.
const PORT_FIRST: u16 = 20_000;
/// How many ports there are.
const PORT_COUNT: u16 = 10_000;

/// The key that every server grants updates and transfers of every zone.
///
/// # Errors
/// None that can happen: name and secret are constants.
pub fn key() -> Result<Arc<Key>, Box<dyn Error>> {
    client::key(KEY_NAME, SECRET)
}

/// Starts servers with the same zones, each in a folder of its own below `folder`.
///
/// # Errors
/// When one of them does not start.
pub fn start_all(
    kinds: &[Kind],
    folder: &Path,
    zones: &[(Name, Contents)],
) -> Result<Vec<Server<'static>>, Box<dyn Error>> {
    kinds.iter().map(|&kind| start_one(kind, folder.join(kind.label()), zones)).collect()
}

fn start_one(kind: Kind, folder: PathBuf, zones: &[(Name, Contents)]) -> Result<Server<'static>, Box<dyn Error>> {
    let first = start_with(kind, &folder, zones)?;
    let address = first.address;
    let mut running = Some(first);
    let restart = move |zones: &[(Name, Contents)]| {
        // The old one ends before the new one gets its folder.
        drop(running.take());
        let peer = start_with(kind, &folder, zones)?;
        let address = peer.address;
        running = Some(peer);
        Ok(address)
    };
    Ok(Server { kind, address, restart: Box::new(restart) })
}

fn start_with(kind: Kind, folder: &Path, zones: &[(Name, Contents)]) -> Result<Peer, Box<dyn Error>> {
    let mut attempt = 1;
    loop {
        let _cleared = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder)?;
        let mut served = Vec::new();
        for (index, (apex, contents)) in zones.iter().enumerate() {
            let file = folder.join(format!("source{index}"));
            std::fs::write(&file, contents.zone_file())?;
            served.push(ServedZone { apex: apex.to_string(), file });
        }
        let key = UpdateKey { name: format!("{KEY_NAME}."), secret: SECRET.to_vec() };
        let setup = Setup { zones: served, key: Some(key), address: free_address(), folder: folder.to_path_buf() };
        match start(kind, &setup) {
            Ok(peer) => return Ok(peer),
            Err(error) if attempt == START_ATTEMPT_COUNT => return Err(error.into()),
            Err(_) => attempt += 1,
        }
    }
}

/// An address whose port, and the one before it, nobody listens on.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: u16| {
        let address = (Ipv4Addr::LOCALHOST, port);
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    // Other processes do the same: each begins somewhere else.
    let offset = (std::process::id() % u32::from(PORT_COUNT)) as u16;
    loop {
        let step = NEXT.fetch_add(2, Ordering::Relaxed);
        let port = PORT_FIRST + offset.wrapping_add(step) % PORT_COUNT;
        if is_free(port) && is_free(port + 1) {
            return (Ipv4Addr::LOCALHOST, port + 1).into();
        }
    }
}
