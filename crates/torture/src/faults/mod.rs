//! The faults. Each function causes a fault, holds it, ends it, and returns the evidence that it happened.

pub(crate) mod clock;
pub(crate) mod copies;
pub(crate) mod cut;
pub(crate) mod damage;
pub(crate) mod disks;
pub(crate) mod kill;
pub(crate) mod members;
pub(crate) mod power;
pub(crate) mod rolling;

use crate::cluster::Cluster;
use crate::interrupt;
use crate::limits::SETTLE;
use crate::shared::Shared;
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::path::PathBuf;
use std::time::Duration;

/// The cluster and the parameters of a fault.
pub(crate) struct Fault<'c, 'n> {
    pub(crate) cluster: &'c mut Cluster<'n>,
    pub(crate) shared: &'c Shared,
    pub(crate) random: ChaCha8Rng,
    /// How long a fault lasts.
    pub(crate) hold: Duration,
    /// The build under test.
    pub(crate) current: PathBuf,
    /// The build of the previous feature level.
    pub(crate) previous: Option<PathBuf>,
}

impl Fault<'_, '_> {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.shared.recorder.fault(what);
    }

    /// Waits for the duration of the fault, plus or minus half.
    pub(crate) fn hold(&mut self) -> Result<(), String> {
        let percent = self.random.random_range(50..=150);
        interrupt::sleep(self.hold * percent / 100)
    }

    /// Picks the leader or a random other node.
    pub(crate) fn pick(&mut self) -> Result<usize, String> {
        let leader = self.cluster.leader();
        if let Some(leader) = leader.filter(|_| self.random.random_ratio(1, 2)) {
            return Ok(leader);
        }
        self.cluster.slots().choose(&mut self.random).copied().ok_or_else(|| "there is no node".into())
    }

    /// The leader.
    pub(crate) fn leader(&mut self) -> Result<usize, String> {
        self.cluster.wait("a leader", SETTLE, |cluster| cluster.leader())
    }

    /// Picks random nodes.
    pub(crate) fn some(&mut self, count: usize) -> Vec<usize> {
        let mut slots = self.cluster.slots();
        slots.shuffle(&mut self.random);
        slots.truncate(count);
        slots
    }

    /// Waits until clients get this many more acknowledgements.
    pub(crate) fn wait_for_updates(&mut self, more: usize) -> Result<(), String> {
        let recorder = &self.shared.recorder;
        let before = recorder.acknowledged();
        let is_done = |_: &mut Cluster<'_>| (recorder.acknowledged() >= before + more).then_some(());
        self.cluster.wait(&format!("{more} more updates"), SETTLE, is_done)
    }

    /// Waits until a node serves.
    pub(crate) fn wait_for_node(&mut self, slot: usize) -> Result<(), String> {
        self.cluster.wait(&format!("the node in slot {slot} to serve"), SETTLE, |cluster| serves(cluster, slot))
    }
}

/// Whether a node serves and knows a leader.
pub(crate) fn serves(cluster: &Cluster<'_>, slot: usize) -> Option<()> {
    let status = cluster.status(slot)?;
    (status["serving"] == "yes" && status["leader"].is_u64()).then_some(())
}
