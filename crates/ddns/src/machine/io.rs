//! Inputs and outputs of the state machine.

use crate::address::{Addresses, Family};
use crate::outcome::{Failure, ObservedRrset, Refusal};
use crate::state::SavedState;
use std::net::IpAddr;
use wire::Name;

/// The time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Milliseconds of a monotonic clock.
    pub ms: u64,
    /// Seconds since 1970.
    pub unix_s: u64,
}

/// Options of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Nothing is sent to servers and nothing is written.
    pub is_dry_run: bool,
    /// The first query of each name may take over foreign records.
    pub take_over: bool,
    /// Interval of checks of published records; 0 means never.
    pub check_period_s: u64,
    /// Seed of the jitter.
    pub seed: u64,
}

/// Actions, in the order of execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write this to disk before the next actions.
    Save(SavedState),
    /// Send a request, and pass its outcome to [`super::Machine::handle_outcome`].
    Send(Request),
    /// Query a probe over this family, and pass its answer to [`super::Machine::handle_probe`].
    Probe {
        /// Identifies the answer.
        token: u64,
        /// Its index in the configuration.
        probe: usize,
        /// Over which family.
        family: Family,
    },
    /// Log and count this.
    Report(Notice),
}

/// A request to a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Updates a name.
    Update {
        /// Identifies the outcome.
        token: u64,
        /// Its index in the configuration.
        server: usize,
        /// The change.
        update: Update,
    },
    /// Queries the records of a name.
    Query {
        /// Identifies the outcome.
        token: u64,
        /// Its index in the configuration.
        server: usize,
        /// The name.
        owner: Name,
        /// A or AAAA.
        family: Family,
    },
}

/// Events for the log and the metrics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The target addresses of a name have changed. `None`: its records are not managed.
    TargetChanged {
        /// The name.
        name: Name,
        /// A or AAAA.
        family: Family,
        /// The addresses.
        addresses: Option<Addresses>,
    },
    /// A server applied an update.
    Updated {
        /// Which server.
        server: usize,
        /// The update.
        update: Update,
    },
    /// In a dry run: this update would be sent.
    DryRun {
        /// Which server.
        server: usize,
        /// The update.
        update: Update,
    },
    /// A server already has the target records.
    Confirmed {
        /// Which server.
        server: usize,
        /// The name.
        name: Name,
    },
    /// A request to a server failed. The next server is tried.
    ServerFailed {
        /// Which server.
        server: usize,
        /// The name.
        name: Name,
        /// Why.
        why: String,
    },
    /// An update failed, and is retried later.
    RetryLater {
        /// The name.
        name: Name,
        /// When it is retried.
        pause_ms: u64,
        /// Why.
        error: NameError,
    },
    /// A round of probes has finished.
    PublicAddress {
        /// The family.
        family: Family,
        /// The address on which enough probes agree, or the number of probes that answered.
        found: Result<IpAddr, usize>,
    },
}

/// An update of one name. All families are in one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// The name.
    pub owner: Name,
    /// TTL of the new records.
    pub ttl: u32,
    /// The RRsets to replace. If one is not as expected, none is replaced.
    pub changes: Vec<Change>,
}

/// The replacement of one RRset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// A or AAAA.
    pub family: Family,
    /// The expected RRset, exactly. Empty: the RRset must not exist.
    pub from: Addresses,
    /// The new RRset.
    pub to: Addresses,
}

/// Why a name is not up to date.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameError {
    /// The name has foreign records.
    ForeignRecord(ObservedRrset),
    /// At least one server refused, and none accepted.
    Refused(Refusal),
    /// No server answers.
    Unreachable(Failure),
}
