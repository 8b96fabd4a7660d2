//! One running node: its threads, and what they share.
//!
//! ```text
//!   udp-N        packet workers, one for each core
//!   tcp-N        connections (TCP, TLS, HTTPS, QUIC), one runtime for each core
//!   update-N     authenticate and sign
//!   external-N   query the daemons of `external` rules
//!   transfers    gives each zone transfer to a thread
//!   replica      runs the replica: raft, zones; one tick every 10 ms
//!   log          writes and fsyncs the log; updates wait for it
//!   bulk         writes checkpoints
//!   reads        reads checkpoints and old log for peers
//!   audit        writes the audit log
//!   background   tells the replica when the machine is idle
//!   scrub        checks the log and checkpoints for damage, once a week
//!   peers        connections between nodes
//!   peers-bulk   connections that carry checkpoints
//!   peers-strangers   handshakes with addresses that belong to no member
//!   api          HTTP
//!   generation   waits for kernel events: the machine was reset to a snapshot
//!   certificate  reloads the certificate for clients when its file changes
//!   reload       reloads the configuration on SIGHUP
//! ```
//! `docs/internals/overview.md` lists all threads.
//!
//! Packet workers never wait for the other threads. They and `peers-strangers` have a lower priority (`nice`), so that
//! the replica and `peers` get CPU time during a flood.

// Starts and stops a node and its threads.
mod node;
mod start;
mod streams;
mod threads;
mod worker;
// Opens the sockets for operators and peers.
mod file_limit;
mod sockets;
// Gives up privileges.
mod node_sandbox;
// Reloads the configuration.
pub(crate) mod reload;
// Repairs a damaged replica before it runs.
mod repair;
// Counters.
mod counters;
// DNS cookies and the rate limit.
mod client_protection;

use crate::peer::resolve;
use crate::replica_host::identity::Identity;
use crate::replica_host::open::{self, NotOpened};
use crate::sys::open_files;
use config::Config;
use file_limit::check_file_limit;
use process::log;
use process::problem::Problem;
use process::stop::Stop;
use reload::Source;
use sockets::Sockets;
use std::path::Path;

/// A node with its files and sockets, in its sandbox, before any thread starts.
pub(crate) struct Prepared {
    config: Config,
    /// Kept until the end, because it holds the lock of the directory.
    identity: Identity,
    sockets: Sockets,
}

impl Prepared {
    /// Opens everything that needs privileges, then drops them. `file` is the configuration file.
    pub(crate) fn new(config: Config, file: &Path) -> Result<Self, Problem> {
        check_file_limit(&config, open_files::raise_file_limit());
        let identity = Identity::load(&config)?;
        let sockets = Sockets::bind(&config)?;
        // The resolver threads enter their own sandbox, so they start before the node's sandbox.
        resolve::start(config.sandbox.is_on())?;
        node_sandbox::enter(&config, file);
        log::start();
        Ok(Self { config, identity, sockets })
    }

    /// Runs the node until it is stopped.
    pub(crate) fn run(self, stop: &Stop, source: Source) -> Result<(), Problem> {
        let Self { config, identity, sockets } = self;
        let replica = match open::open(&config, &identity) {
            Ok(replica) => replica,
            Err(NotOpened::Damaged(damaged)) => {
                if repair::run(&config, &identity, &sockets, stop, damaged)? == repair::Ended::Stopped {
                    return Ok(());
                }
                open::open(&config, &identity).map_err(NotOpened::into_problem)?
            }
            Err(NotOpened::Failed(problem)) => return Err(problem),
        };
        // Give back the memory that was used to read the checkpoint and the log.
        crate::sys::memory::trim();
        let mut node = start::start(&config, &identity, sockets, replica)?;
        node.reload.clone().start(source)?;
        if node.wait_until_serving(stop) {
            node.listen()?;
            node.serving.set_listening();
        }
        node.handle.shared.removal.wait(stop);
        let (shared, id) = (node.handle.shared.clone(), node.config.id);
        node.stop()?;
        shared.removal.problem(id)
    }
}
