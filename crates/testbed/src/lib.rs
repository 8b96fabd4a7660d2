//! Starts name servers for tests and benchmarks: catamaran, BIND, Knot, NSD, PowerDNS, CoreDNS, Unbound,
//! Knot Resolver, dnsdist, HAProxy, and an echo.
//!
//! Each runs in its own folder. It is stopped when its [`Peer`] is dropped.
#![forbid(unsafe_code)]

// The catalog zone of a primary, and its changes.
mod catalog;
mod describe;
mod error;
mod kind;
mod launch;
mod ports;
mod probe;
mod process;
mod programs;
mod setup;
mod transfer;
// One adapter for each server: its configuration and its command line.
mod bind;
mod catamaran;
mod cluster;
mod coredns;
mod dnsdist;
mod haproxy;
mod knot;
mod knot_resolver;
mod nodes;
mod nsd;
mod powerdns;
mod unbound;
// Configurations of resolvers.
pub mod resolver;
// The newest versions of servers.
pub mod peer_tree;
// A server that answers each query with the query.
pub mod echo;

pub use catalog::{ZoneChange, change_catalog};
pub use cluster::Cluster;
pub use describe::version;
pub use error::PeerError;
pub use kind::Kind;
pub use launch::Launch;
pub use nodes::{NodeAddresses, Nodes};
pub use ports::{free_address, installed};
pub use probe::{answers_for, serves};
pub use process::{Peer, output_end, spawn_into};
pub use programs::{PROGRAM_VARIABLES, Programs};
pub use setup::{Encryption, ServedZone, Setup, UpdateKey};
pub use transfer::transfer;

use std::path::PathBuf;

impl Kind {
    /// The installed program, if there is one. [`Programs`] may have another one.
    #[must_use]
    pub fn program(self) -> Option<PathBuf> {
        match self {
            Self::Catamaran => catamaran::program(),
            Self::Nsd => installed("nsd"),
            Self::Knot => installed("knotd"),
            Self::Bind => installed("named"),
            Self::PowerDns => installed("pdns_server"),
            Self::CoreDns => coredns::program(),
            Self::Unbound => installed("unbound"),
            Self::KnotResolver => installed("kresd"),
            Self::Dnsdist => installed("dnsdist"),
            Self::HaProxy => installed("haproxy"),
        }
    }
}

/// Starts a server and waits until it answers for each of its zones. A secondary may still have no zone.
/// A proxy is ready when a backend has answered through it.
///
/// # Errors
/// [`PeerError`] if the program is missing, exits early, or does not answer in time. It includes the last lines of the
/// server's output.
pub fn start(kind: Kind, setup: &Setup) -> Result<Peer, PeerError> {
    setup.check(kind)?;
    let program = setup.programs.find(kind).ok_or(PeerError::Missing(kind))?;
    setup::create_folder(&setup.folder)?;
    let command = match kind {
        Kind::Catamaran => catamaran::command(&program, setup),
        Kind::Nsd => nsd::command(&program, setup),
        Kind::Knot => knot::command(&program, setup),
        Kind::Bind => bind::command(&program, setup),
        Kind::PowerDns => powerdns::command(&program, setup),
        Kind::CoreDns => coredns::command(&program, setup),
        Kind::Unbound => unbound::command(&program, setup),
        Kind::KnotResolver => knot_resolver::command(&program, setup),
        Kind::Dnsdist => dnsdist::command(&program, setup),
        Kind::HaProxy => haproxy::command(&program, setup),
    };
    Peer::spawn(kind, &command?, setup)?.wait_until_ready(setup)
}
