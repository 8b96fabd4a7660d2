//! A run from start to end: prepare the cluster, cause faults, end them, and check.

use crate::administrator::{grant, preparations};
use crate::coverage::Coverage;
use crate::event::Event;
use crate::invariants::Checked;
pub use crate::invariants::Violation;
use crate::network::NetworkCount;
use crate::setup::Setup;
pub use crate::simulation::Count;
use crate::simulation::Simulation;

/// Minimum number of acknowledged updates. A run with fewer counts as failed.
pub const ACKNOWLEDGED_MIN: u64 = 200;
/// Minimum number of leader changes in a run.
pub const LEADER_CHANGES_MIN: u64 = 1;
/// Minimum number of crashes with lost writes in a run.
pub const CRASHES_WITH_LOSS_MIN: u64 = 1;
/// Virtual milliseconds after the last fault within which each member must accept an update.
pub const RECOVERY_MS_MAX: u64 = 15_000;
/// Virtual time after which a run without enough events is aborted.
const CHAOS_US_MAX: u64 = 120_000_000;
/// After this time, a run that has not covered enough has fewer faults.
const CALMER_US: u64 = 20_000_000;
/// Longer than the longest wait of a request.
const QUIET_US_MAX: u64 = 45_000_000;
/// Maximum number of attempts to grant the clients' key its right at the end. A command may coincide with an election.
const GRANTS_MAX: usize = 5;
const STEP_US: u64 = 100_000;
/// Time for removed members that were away to learn of their removal, once there are no faults.
const REMOVED_US: u64 = 5_000_000;
/// Interval of the check whether enough has happened.
const WAIT_US: u64 = 1_000_000;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its event counts.
    pub count: Count,
    /// Number of events in its trace.
    pub events: u64,
    /// Hash of its trace: the same for the same seed.
    pub trace_hash: u128,
    /// Its duration in virtual microseconds.
    pub virtual_us: u64,
    /// Number of its members.
    pub members: u64,
    /// The faults and commands that overlapped.
    pub coverage: Coverage,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An invariant was violated.
    Violation(Violation),
    /// The run had too few events to prove anything.
    Coverage(Box<Count>),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Violation(violation) => violation.fmt(f),
            Self::Coverage(count) => write!(f, "Coverage: too little happened: {count:?}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Runs one seed. `is_printed` prints its events.
///
/// # Errors
/// [`Failure`].
pub fn run(seed: u64, members: u64, is_printed: bool) -> Result<Outcome, Failure> {
    let mut simulation = Simulation::new(Setup::random(seed, members), is_printed).map_err(Failure::Violation)?;
    simulation.whole().map_err(Failure::Violation)?;
    let count = simulation.count;
    if !is_enough(&count) {
        return Err(Failure::Coverage(Box::new(count)));
    }
    Ok(Outcome {
        count,
        events: simulation.trace.count(),
        trace_hash: simulation.trace.hash(),
        virtual_us: simulation.events.now_us(),
        members,
        coverage: simulation.watch.seen().clone(),
    })
}

fn is_enough(count: &Count) -> bool {
    count.acknowledged >= ACKNOWLEDGED_MIN
        && count.leader_changes >= LEADER_CHANGES_MIN
        && count.crashes_with_loss >= CRASHES_WITH_LOSS_MIN
}

impl Simulation {
    fn whole(&mut self) -> Checked {
        self.prepare()?;
        self.inject_faults()?;
        self.recover()?;
        self.settle()?;
        self.check_at_the_end()
    }

    /// Elects a leader and adds a zone and keys, before any fault.
    fn prepare(&mut self) -> Checked {
        self.wait_for(RECOVERY_MS_MAX, "elects no leader", |it| it.leader().is_some())?;
        for command in preparations(self.setup.all_live) {
            let done = self.count.commands_done;
            let to = self.leader().unwrap_or(1);
            self.command(to, command);
            self.wait_for(RECOVERY_MS_MAX, "completes no command", |it| !it.administrator.is_busy())?;
            if self.count.commands_done == done {
                return Err(self.violation("the_cluster_recovers", "a command was refused at the start".into()));
            }
        }
        self.prepared_index = self.applied_max;
        self.oracle.ack_mut().begin(self.setup.all_live);
        let all_serve = |it: &Self| it.machines.values().all(|machine| machine.serves() && !machine.keys.is_empty());
        self.wait_for(RECOVERY_MS_MAX, "does not serve", all_serve)
    }

    fn inject_faults(&mut self) -> Checked {
        self.network.configure(self.setup.network.clone());
        (self.has_faults, self.clients.is_on) = (true, true);
        for client in 0..self.clients.count() {
            let in_us = self.rng.below(20_000);
            self.events.after(in_us, Event::Client(client));
        }
        for event in [Event::Fault, Event::Administrator, Event::Read] {
            let in_us = self.rng.below(500_000);
            self.events.after(in_us, event);
        }
        if self.setup.is_attacked {
            self.events.after(0, Event::Attacker);
        }
        let start_us = self.events.now_us();
        let (least_us, most_us) = (start_us + self.setup.chaos_us, start_us + CHAOS_US_MAX);
        self.run_until(least_us)?;
        // If faults prevent all progress, they become less frequent.
        let mut calmer_us = least_us;
        while !is_enough(&self.count) && self.events.now_us() < most_us {
            if self.events.now_us() >= calmer_us {
                calmer_us += CALMER_US;
                let (low, high) = self.setup.fault_pause_us;
                self.setup.fault_pause_us = (3 * low, 3 * high);
                self.setup.swarm.target = None;
            }
            // A crash with lost data is required, so it is not left to chance.
            if self.count.crashes_with_loss < CRASHES_WITH_LOSS_MIN {
                self.doom_leader();
            }
            self.run_until(self.events.now_us() + WAIT_US)?;
        }
        Ok(())
    }

    /// After the last fault, each member must accept an update within a bounded time.
    fn recover(&mut self) -> Checked {
        self.end_faults()?;
        // Without the grant, clients would not get the responses that the checks below need.
        for _ in 0..GRANTS_MAX {
            self.wait_for(QUIET_US_MAX / 1_000, "completes no command", |it| !it.administrator.is_busy())?;
            if !self.administrator.is_revoked() {
                break;
            }
            // Any other member may have been removed, and would not answer.
            self.wait_for(RECOVERY_MS_MAX, "elects no leader", |it| it.leader().is_some())?;
            let Some(to) = self.leader() else { continue };
            self.command(to, grant());
        }
        if self.setup.changes_members || self.count.joined > 0 {
            // A removed member that was unreachable must first learn of its removal.
            self.run_until(self.events.now_us() + REMOVED_US)?;
            self.give_up_on_strangers();
        }
        self.wait_for(RECOVERY_MS_MAX, "elects no leader", |it| !it.members_here().is_empty())?;
        let start_us = self.events.now_us();
        for id in self.members_here() {
            let probe = self.clients.add_probe(id);
            self.events.after(0, Event::Client(probe));
        }
        let answered = |it: &Self| it.clients.unanswered_probes().is_empty();
        self.wait_for(RECOVERY_MS_MAX, "accepts no update", answered)?;
        self.count.recovery_ms = (self.events.now_us() - start_us) / 1_000;
        Ok(())
    }

    /// Waits until all requests are answered and all members have applied the same entries.
    fn settle(&mut self) -> Checked {
        self.clients.is_on = false;
        let rests = |it: &Self| {
            let replicas = || it.machines.values().filter_map(|machine| machine.replica.as_ref());
            let mut states: Vec<_> = replicas().map(|replica| replica.state_hash().0).collect();
            states.dedup();
            states.len() == 1
                && it.clients.open_count() == 0
                && it.reads.is_empty()
                && !it.administrator.is_busy()
                && replicas().all(|replica| replica.brief_status().waiting_count == 0)
        };
        self.wait_for(QUIET_US_MAX / 1_000, "does not become idle", rests)
    }

    fn wait_for(&mut self, ms_max: u64, what: &str, is_done: impl Fn(&Self) -> bool) -> Checked {
        let until_us = self.events.now_us() + ms_max * 1_000;
        while !is_done(self) {
            if self.events.now_us() >= until_us {
                let status = |id: &u64| self.machines[id].replica.as_ref().map(|replica| replica.brief_status());
                let statuses: Vec<_> = self.ids().iter().map(status).collect();
                let what = format!("the cluster {what} within {ms_max} ms: {statuses:?}");
                return Err(self.violation("the_cluster_recovers", what));
            }
            self.run_until(self.events.now_us() + STEP_US)?;
        }
        Ok(())
    }

    fn check_at_the_end(&mut self) -> Checked {
        for id in self.ids() {
            self.look(id)?;
            self.check_closely(id)?;
            self.check_violations(id)?;
            let Self { invariants, machines, oracle, .. } = self;
            let Some(replica) = &machines[&id].replica else { continue };
            let published = replica.zones().published();
            let checked = (|| {
                let survive = invariants.acknowledged.at_end(id, oracle, &published);
                survive.map_err(|what| ("acknowledged_updates_survive", what))?;
                invariants.traces.at_end(id, oracle, &published).map_err(|what| ("refused_leaves_no_trace", what))
            })();
            checked.map_err(|(invariant, what)| self.violation(invariant, what))?;
            let decided = self.machines[&id].replica.as_ref().map(|it| self.administrator.decided().compare(id, it));
            let decided = decided.unwrap_or(Ok(()));
            decided.map_err(|what| self.violation("members_hold_what_the_model_holds", what))?;
            self.count.settings_compared += self.administrator.decided().known();
            let imported = self.check_imported_at_end(id);
            imported.map_err(|what| self.violation("acknowledged_updates_survive", what))?;
        }
        let index = self.applied_max;
        self.check_disks(index)?;
        let NetworkCount { arrived, reordered, repeated, .. } = self.network.count();
        (self.count.frames, self.count.frames_reordered, self.count.frames_repeated) = (arrived, reordered, repeated);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_with_too_little_activity_fails() {
        let least = Count {
            acknowledged: ACKNOWLEDGED_MIN,
            leader_changes: LEADER_CHANGES_MIN,
            crashes_with_loss: CRASHES_WITH_LOSS_MIN,
            ..Count::default()
        };
        assert!(is_enough(&least));
        for too_little in [
            Count { acknowledged: ACKNOWLEDGED_MIN - 1, ..least },
            Count { leader_changes: 0, ..least },
            Count { crashes_with_loss: 0, ..least },
        ] {
            assert!(!is_enough(&too_little));
            assert!(Failure::Coverage(Box::new(too_little)).to_string().starts_with("Coverage: "));
        }
    }

    /// Checks that events that only some seeds draw do happen. A machine dies for good in one of about thirty seeds.
    #[test]
    fn members_come_and_go_and_policies_decide() {
        let mut count = Count::default();
        for seed in 1..=200 {
            count.add(&run(seed, 5, false).unwrap().count);
            let members = [count.joined, count.removed, count.machines_dead, count.frames_forged];
            let seen = [members[0], members[1], members[2], members[3], count.policy_granted, count.policy_refused];
            if seen.iter().all(|&seen| seen > 0) {
                return;
            }
        }
        panic!("{count:?}");
    }

    #[test]
    fn same_seed_gives_the_same_run() {
        for (seed, members) in [(1, 3), (2, 5)] {
            let outcome = run(seed, members, false).unwrap();
            assert_eq!(run(seed, members, false).unwrap(), outcome);
            assert_ne!(run(seed + 100, members, false).unwrap().trace_hash, outcome.trace_hash);
        }
    }
}
