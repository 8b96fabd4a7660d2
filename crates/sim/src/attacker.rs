//! The attacker's own random source, and the kinds of frames that it sends.

use crate::rng::Rng;
use replica::testing::forge::ForgedKind;

/// The attacker.
#[derive(Debug)]
pub(crate) struct Attacker {
    pub(crate) rng: Rng,
    pub(crate) kinds: Vec<ForgedKind>,
}

impl Attacker {
    /// An attacker with its own random source, so that its draws change nothing else.
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed).fork("forged"), kinds: ForgedKind::all().collect() }
    }
}
