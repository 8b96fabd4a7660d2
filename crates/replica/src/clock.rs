//! The clocks of the members, and the time that the cluster uses.
//!
//! Every member reports its wall clock to the others. The leader writes its own time into entries while its clock is
//! near the median of all clocks. Otherwise it writes the median. Entry times only increase. If a clock was ahead and
//! has been corrected, entry times are ahead of the median too. Then the leader moves them back with one special entry.
//!
//! No safety property depends on these times. They are used for signatures, for expiry and for display.

use crate::context::{Context, Outputs};
use crate::io::{NodeId, Now};
use crate::limits::{CLOCK_DIFFERENCE_MS_MAX, CLOCK_FRESH_MS, CLOCK_REPORT_MS, PROPOSE_CLOCK_MS, WALL_MS_MIN};
use crate::peer::Frame;
use std::collections::BTreeMap;

/// The first feature level at which members report their clocks to each other.
const CLOCK_LEVEL: u32 = 4;

/// A member's wall clock in its last report, and this member's monotonic time when the report arrived.
#[derive(Clone, Copy, Debug)]
struct ReportedClock {
    wall_ms: u64,
    at_ms: u64,
}

/// What this member knows about the members' clocks.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// The last report of each other member.
    others: BTreeMap<NodeId, ReportedClock>,
    /// When this member last sent a report, and the leader at that time.
    last_report: Option<(u64, Option<NodeId>)>,
    /// Milliseconds to add to this member's wall clock; 0 unless its clock is far from the median.
    correction_ms: i64,
    /// When this leader last proposed to move entry times back.
    proposed_ms: Option<u64>,
}

impl Clocks {
    /// The current wall clock of every other member with a recent report.
    fn reported(&self, now_ms: u64) -> impl Iterator<Item = (NodeId, u64)> {
        let fresh = self.others.iter().filter(move |(_, reported)| reported.at_ms + CLOCK_FRESH_MS >= now_ms);
        fresh.map(move |(&id, reported)| (id, reported.wall_ms.saturating_add(now_ms - reported.at_ms)))
    }

    /// The two middle clocks among all members, including this one. With an odd number of clocks both are the same.
    fn middle(&self, own_wall_ms: u64, now_ms: u64) -> (u64, u64) {
        let mut all: Vec<u64> = self.reported(now_ms).map(|(_, wall_ms)| wall_ms).chain([own_wall_ms]).collect();
        all.sort_unstable();
        (all[(all.len() - 1) / 2], all[all.len() / 2])
    }
}

/// Returns `own_ms` if it is near the interval between the two middle clocks, else the nearer of them.
fn clamp_to_median(own_ms: u64, (low_ms, high_ms): (u64, u64)) -> u64 {
    if own_ms.saturating_add(CLOCK_DIFFERENCE_MS_MAX) < low_ms {
        low_ms
    } else if own_ms > high_ms.saturating_add(CLOCK_DIFFERENCE_MS_MAX) {
        high_ms
    } else {
        own_ms
    }
}

/// Saturates at the limits of `i64`.
fn difference_ms(one_ms: u64, other_ms: u64) -> i64 {
    let difference = i128::from(one_ms) - i128::from(other_ms);
    difference.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

impl Clocks {
    /// The current time in milliseconds since 1970. It comes from this machine's clock, unless that clock is far from
    /// the median of the members' clocks.
    pub(crate) const fn cluster_wall_ms(&self, now: Now) -> u64 {
        now.wall_ms.saturating_add_signed(self.correction_ms)
    }

    /// Compares this member's clock with the others'. Runs at each tick, because a clock may be set at any time.
    pub(crate) fn correct(&mut self, now: Now) {
        let corrected_ms = clamp_to_median(now.wall_ms, self.middle(now.wall_ms, now.monotonic_ms));
        self.correction_ms = difference_ms(corrected_ms, now.wall_ms);
    }

    /// Milliseconds by which a member's clock is ahead of the median of all clocks. With two clocks it is the
    /// difference from this member's clock. `None` if the member has not reported recently.
    pub(crate) fn ahead_ms(&self, context: &Context<'_>, id: NodeId) -> Option<i64> {
        let Now { monotonic_ms, wall_ms: own_ms } = context.local.now;
        let reported = if id == context.own() {
            Some(own_ms)
        } else {
            self.reported(monotonic_ms).find(|&(of, _)| of == id).map(|(_, wall_ms)| wall_ms)
        };
        let (low_ms, high_ms) = self.middle(own_ms, monotonic_ms);
        let median_ms = own_ms.clamp(low_ms, high_ms);
        reported.map(|wall_ms| difference_ms(wall_ms, median_ms))
    }

    /// The members whose clocks are too far from the cluster's time, and the milliseconds by which each is ahead. A
    /// leader lists all of them. Other members list only themselves.
    pub(crate) fn wrong(&self, context: &Context<'_>) -> Vec<(NodeId, i64)> {
        let members = context.settings().members().into_iter().map(|member| member.id);
        let observed = members.filter(|&id| id == context.own() || context.driver.is_leader());
        let ahead = observed.filter_map(|id| Some((id, self.ahead_ms(context, id)?)));
        ahead.filter(|(_, ahead_ms)| ahead_ms.unsigned_abs() > CLOCK_DIFFERENCE_MS_MAX).collect()
    }

    /// Notes a member's report.
    pub(crate) fn handle_report(&mut self, context: &Context<'_>, from: NodeId, wall_ms: u64) {
        let settings = context.settings();
        // Only voters count, as in elections: learners could outnumber them.
        if settings.is_member(from) && !settings.is_learner(from) {
            self.others.insert(from, ReportedClock { wall_ms, at_ms: context.now_ms() });
            self.others.retain(|&id, _| settings.is_member(id) && !settings.is_learner(id));
        }
    }

    /// Reports this member's clock to the others, immediately after a change of leader. Returns whether this leader
    /// must propose to move entry times back.
    pub(crate) fn tick(&mut self, context: &Context<'_>, outputs: &mut Outputs) -> bool {
        // A member with older software does not know this frame.
        if context.settings().feature_level() < CLOCK_LEVEL {
            return false;
        }
        let (now_ms, leader) = (context.now_ms(), context.driver.leader());
        let is_recent = |(at_ms, of): (u64, Option<NodeId>)| of == leader && now_ms < at_ms + CLOCK_REPORT_MS;
        if !self.last_report.is_some_and(is_recent) {
            self.last_report = Some((now_ms, leader));
            let wall_ms = context.local.now.wall_ms;
            for id in context.driver.others() {
                outputs.send(id, &Frame::Clock { wall_ms });
            }
        }
        self.must_move_back(context)
    }

    fn must_move_back(&mut self, context: &Context<'_>) -> bool {
        let now_ms = context.now_ms();
        let is_proposed = self.proposed_ms.is_some_and(|at_ms| now_ms < at_ms + PROPOSE_CLOCK_MS);
        let must = context.driver.has_applied_own_term() && !is_proposed && self.is_ahead(context);
        if must {
            self.proposed_ms = Some(now_ms);
        }
        must
    }

    /// Whether entry times are ahead of the clocks of a majority of the members. If only two clocks are known and they
    /// differ, either may be wrong. A machine that has just started may show a time long ago.
    fn is_ahead(&self, context: &Context<'_>) -> bool {
        let Now { monotonic_ms, wall_ms } = context.local.now;
        let (low_ms, high_ms) = self.middle(wall_ms, monotonic_ms);
        let known_count = 1 + self.reported(monotonic_ms).count();
        // Learners are not counted on either side.
        let settings = context.settings();
        let voter_count = settings.members().iter().filter(|member| !settings.is_learner(member.id)).count();
        let is_majority = 2 * known_count > voter_count;
        is_majority
            && low_ms >= WALL_MS_MIN
            && self.cluster_wall_ms(context.local.now) >= WALL_MS_MIN
            && high_ms.saturating_add(CLOCK_DIFFERENCE_MS_MAX) < context.machine.time_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_800_000_000_000;
    const HOUR: u64 = 3_600_000;

    fn clocks(others: &[u64]) -> Clocks {
        let reported = |&wall_ms: &u64| ReportedClock { wall_ms, at_ms: 1_000 };
        Clocks { others: (2..).zip(others.iter().map(reported)).collect(), ..Clocks::default() }
    }

    #[test]
    fn clock_far_from_the_median_is_corrected() {
        let cases: &[(u64, &[u64], u64)] = &[
            (NOON, &[], NOON),
            (NOON + 3 * HOUR, &[], NOON + 3 * HOUR),
            (NOON, &[NOON, NOON + HOUR], NOON),
            (NOON + 3 * HOUR, &[NOON, NOON], NOON),
            (0, &[NOON, NOON], NOON),
            (NOON + 59_000, &[NOON, NOON], NOON + 59_000),
            // Either of the two may be wrong.
            (NOON + HOUR, &[NOON], NOON + HOUR),
            (0, &[NOON], 0),
            (NOON + 4 * HOUR, &[NOON, NOON, NOON + HOUR], NOON + HOUR),
            (NOON, &[0, u64::MAX], NOON),
            (u64::MAX, &[u64::MAX, u64::MAX], u64::MAX),
        ];
        for &(own, others, expected) in cases {
            assert_eq!(clamp_to_median(own, clocks(others).middle(own, 1_000)), expected, "{own} {others:?}");
        }
    }

    #[test]
    fn reported_clock_advances_and_expires() {
        let clocks = clocks(&[NOON]);
        assert_eq!(clocks.reported(1_500).collect::<Vec<_>>(), [(2, NOON + 500)]);
        assert_eq!(clocks.reported(1_001 + CLOCK_FRESH_MS).count(), 0);
    }
}
