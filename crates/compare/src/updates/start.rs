//! Starts and restarts the servers of a comparison, with the zones and one key.

use super::client;
use super::contents::Contents;
use super::run::Server;
use domain::tsig::Key;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testbed::{Kind, Peer, ServedZone, Setup, UpdateKey, free_address, start};
use wire::name::Name;

/// The servers that support updates. Ours is first.
pub const KINDS: [Kind; 3] = [Kind::Catamaran, Kind::Bind, Kind::Knot];

const KEY_NAME: &str = "key.test";
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Number of attempts to start a server. Another process may take its port in the meantime.
const START_ATTEMPT_COUNT: usize = 3;

/// The key for updates and transfers of all zones.
///
/// # Errors
/// Never: name and secret are constants.
pub fn key() -> Result<Arc<Key>, Box<dyn Error>> {
    client::key(KEY_NAME, SECRET)
}

/// Starts servers with the same zones, each in its own folder below `folder`.
///
/// # Errors
/// If a server does not start.
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
        // The old server must exit before the new one uses its folder.
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
            served.push(ServedZone::new(apex.to_string(), file));
        }
        let key = UpdateKey { name: format!("{KEY_NAME}."), secret: SECRET.to_vec() };
        let setup = Setup { keys: vec![key], ..Setup::new(folder, free_address()?, served) };
        match start(kind, &setup) {
            Ok(peer) => return Ok(peer),
            Err(error) if attempt == START_ATTEMPT_COUNT => return Err(error.into()),
            Err(_) => attempt += 1,
        }
    }
}
