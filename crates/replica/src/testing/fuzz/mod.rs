//! What others' bytes are thrown at: a body a target. libFuzzer (`fuzz/`), `cargo xtask fuzz` and a test share them.
//!
//! A body takes any bytes and panics when something does not hold that must. It knows no clock: how long it goes on is
//! for the runner to say.

mod limits;

// Inputs out of seeds, and chunks out of inputs.
mod chunks;
mod mutate;
// A state that inputs are thrown at.
mod world;

// An update, as a leader and then all of them meet it.
mod tsig;
mod update;
// Entries of the log.
mod entries;
// What members say to each other.
mod frames;
// State in files and on its way.
mod checkpoint;
mod transfer;
// Rules as text and as bytes.
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

/// Something to throw bytes at.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called, here and in `fuzz/`.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Inputs that are what they should be, which others are made of.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
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

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
