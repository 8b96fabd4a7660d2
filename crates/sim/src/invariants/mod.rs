//! The invariants of every run, one per file. Each is checked during the run and at its end.

pub(crate) mod acknowledged_updates_survive;
pub(crate) mod all_live_is_visible_everywhere;
pub(crate) mod durable_before_acknowledged;
pub(crate) mod election_safety;
pub(crate) mod reads_never_stop;
pub(crate) mod reads_see_what_was_acknowledged;
pub(crate) mod refused_leaves_no_trace;
pub(crate) mod replicas_hold_equal_state;
pub(crate) mod serials_never_go_back;
pub(crate) mod votes_are_on_disk;

use crate::rng::Rng;
use std::fmt;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the invariant. The file with that name describes it. Six have no file: `members_stay_sound` (a
    /// member starts from its own disk and keeps running), `strangers_are_refused` (`hostile.rs`),
    /// `the_cluster_recovers` (within `RECOVERY_MS_MAX` after the last fault), `policies_hold_when_answered`
    /// (`policies.rs`: an update is refused exactly if no policy that may be in force allows it),
    /// `members_hold_what_the_model_holds` (`reference.rs`, `decided.rs`) and `restored_clusters_are_whole`
    /// (`second_cluster.rs`).
    pub invariant: &'static str,
    /// What was found.
    pub what: String,
    /// The time, in virtual microseconds.
    pub at_us: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.6} s: {}", self.invariant, self.at_us as f64 / 1e6, self.what)
    }
}

/// The result of a step of a run.
pub(crate) type Checked = Result<(), Violation>;

/// All invariants, with their state.
pub(crate) struct Invariants {
    pub(crate) acknowledged: acknowledged_updates_survive::AcknowledgedUpdatesSurvive,
    pub(crate) all_live: all_live_is_visible_everywhere::AllLiveIsVisibleEverywhere,
    pub(crate) durable: durable_before_acknowledged::DurableBeforeAcknowledged,
    pub(crate) elections: election_safety::ElectionSafety,
    pub(crate) serving: reads_never_stop::ReadsNeverStop,
    pub(crate) reads: reads_see_what_was_acknowledged::ReadsSeeWhatWasAcknowledged,
    pub(crate) traces: refused_leaves_no_trace::RefusedLeavesNoTrace,
    pub(crate) states: replicas_hold_equal_state::ReplicasHoldEqualState,
    pub(crate) serials: serials_never_go_back::SerialsNeverGoBack,
}

impl Invariants {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            acknowledged: Default::default(),
            all_live: Default::default(),
            durable: durable_before_acknowledged::DurableBeforeAcknowledged::new(rng),
            elections: Default::default(),
            serving: Default::default(),
            reads: Default::default(),
            traces: Default::default(),
            states: Default::default(),
            serials: Default::default(),
        }
    }
}
