//! Name servers that a run starts, asks, and ends: the peers from the distribution, and ours.
//!
//! Each runs in a folder of its own, on loopback only, and ends with its [`Peer`].

mod bind;
mod catamaran;
mod knot;
mod nsd;
mod process;

pub use process::{Peer, PeerError};

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// This project's.
    Catamaran,
    /// NLnet Labs' NSD.
    Nsd,
    /// CZ.NIC's Knot DNS.
    Knot,
    /// ISC's BIND 9.
    Bind,
}

impl Kind {
    /// Every kind, ours first.
    pub const ALL: [Self; 4] = [Self::Catamaran, Self::Nsd, Self::Knot, Self::Bind];

    /// The name in reports and on the command line.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Catamaran => "catamaran",
            Self::Nsd => "nsd",
            Self::Knot => "knot",
            Self::Bind => "bind",
        }
    }

    /// The program, where it is installed.
    #[must_use]
    pub fn program(self) -> Option<PathBuf> {
        match self {
            Self::Catamaran => catamaran::program(),
            Self::Nsd => installed("nsd"),
            Self::Knot => installed("knotd"),
            Self::Bind => installed("named"),
        }
    }
}

/// A zone that a peer serves.
#[derive(Clone, Debug)]
pub struct ServedZone {
    /// The apex in presentation format, with its final dot.
    pub apex: String,
    /// The zone file, uncompressed.
    pub file: PathBuf,
}

/// A TSIG key that may update and transfer every zone of a peer.
#[derive(Clone, Debug)]
pub struct UpdateKey {
    /// Key name, with its final dot.
    pub name: String,
    /// The secret.
    pub secret: Vec<u8>,
}

/// What a peer is to serve, and where.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The zones.
    pub zones: Vec<ServedZone>,
    /// The key, where the run updates or transfers; algorithm hmac-sha256.
    pub key: Option<UpdateKey>,
    /// UDP and TCP address; loopback.
    pub address: SocketAddr,
    /// A folder of the peer's own; made when it is not there.
    pub folder: PathBuf,
}

/// Starts a server and waits until it answers for each of its zones.
///
/// # Errors
/// [`PeerError`] when the program is missing, ends early, or does not answer in time; with the end of its own output.
pub fn start(kind: Kind, setup: &Setup) -> Result<Peer, PeerError> {
    std::fs::create_dir_all(&setup.folder).map_err(|error| PeerError::Folder(setup.folder.clone(), error))?;
    let program = kind.program().ok_or(PeerError::Missing(kind))?;
    let command = match kind {
        Kind::Catamaran => catamaran::command(&program, setup)?,
        Kind::Nsd => nsd::command(&program, setup)?,
        Kind::Knot => knot::command(&program, setup)?,
        Kind::Bind => bind::command(&program, setup)?,
    };
    Peer::spawn(kind, command, setup)?.wait_until_ready()
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.is_file())
}

/// Writes a configuration file into the peer's folder and gives its path.
fn write(setup: &Setup, name: &str, text: &str) -> Result<PathBuf, PeerError> {
    let path = setup.folder.join(name);
    std::fs::write(&path, text).map_err(|error| PeerError::Folder(path.clone(), error))?;
    Ok(path)
}

/// Copies a zone's file into the peer's folder: servers that take updates write it.
fn copy_zone(setup: &Setup, index: usize, zone: &ServedZone) -> Result<PathBuf, PeerError> {
    let path = setup.folder.join(format!("zone{index}"));
    std::fs::copy(&zone.file, &path).map_err(|error| PeerError::Folder(zone.file.clone(), error))?;
    Ok(path)
}
