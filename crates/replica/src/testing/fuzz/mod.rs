//! Fuzz targets. libFuzzer (`fuzz/`), `cargo xtask fuzz` and a test share them.
//!
//! A target takes any bytes and panics if an invariant is violated. The runner decides how long to run.

mod limits;

// Splits inputs into chunks.
mod chunks;
mod mutate;
// A state for the targets.
mod world;

// Signed updates, on a leader and on all members.
mod tsig;
mod update;
// Entries of the log.
mod entries;
// Messages between members.
mod frames;
// Checkpoints in files and in transfer.
mod checkpoint;
mod transfer;
// Policies as text and as bytes.
mod policy;

#[cfg(test)]
mod tests;

pub use checkpoint::{backup, checkpoint};
pub use entries::entries;
pub use frames::frames;
pub use mutate::Mutator;
pub use policy::policy;
pub use transfer::transfer;
pub use tsig::tsig;
pub use update::update;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, here and in `fuzz/`.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Valid inputs, from which others are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 8] = [
    Target { name: "update", run: update, seeds: update::seeds },
    Target { name: "tsig", run: tsig, seeds: tsig::seeds },
    Target { name: "entries", run: entries, seeds: entries::seeds },
    Target { name: "frames", run: frames, seeds: frames::seeds },
    Target { name: "checkpoint", run: checkpoint, seeds: checkpoint::seeds },
    Target { name: "backup", run: backup, seeds: checkpoint::backup_seeds },
    Target { name: "transfer", run: transfer, seeds: transfer::seeds },
    Target { name: "policy", run: policy, seeds: policy::seeds },
];

/// The target with this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
