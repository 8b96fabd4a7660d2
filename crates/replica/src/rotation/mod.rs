//! Zones of `ack = all-live`: the client gets its response once every member that answers queries shows the update.
//!
//! The rotation, in the settings, is the set of members that answer for such zones. Each does so only while it holds a
//! lease. The leader waits for all members of the rotation, and for removed members whose leases may still be valid.
//!
//! ```text
//!   member   LeaseRequest(its clock) -->                                    answers until its clock shows that + 1 s
//!   leader                 comes at A; a majority answers a report that left after A --> LeaseGrant
//!                          ... 1.1 s after A, by the leader's clock, the lease is over ...
//! ```
//!
//! A lease counts from the time of the request, so network delays do not matter. The majority proves that no other
//! leader was elected before the request. So a lease from an earlier leader ends at most 1.1 s after a new one began. A
//! new leader reports nothing during that time.
//!
//! While a machine is paused or being reset to a snapshot, its clock stands still. Afterwards its lease looks valid. So
//! a lease is void if the wall clock was stepped after the request, or when the shell reports that the machine was
//! restored ([`crate::io::Input::MachineRestored`]). The member requests another lease with the next report.
//!
//! A member whose data was replaced by an older copy still is in the rotation. So a grant names the index that the
//! member must have applied: what the leader knows to be shown by all, and at least the start of the leader's term.
//!
//! A lease is valid for one stay in the rotation. The index of the entry that began the stay identifies it. A member
//! that was out of the rotation has applied that entry, and so all updates that were acknowledged without it.

mod leader;
mod leader_state;
mod pending;

use leader_state::LeaderState;
pub(crate) use pending::PendingOutcomes;

use crate::context::{Context, Outputs};
use crate::io::{NodeId, Now, Output, Verdict};
use crate::limits::{LEASE_CLOCK_STEP_MS_MAX, LEASE_MS, LEASES_REQUESTED_MAX, UPDATE_WAIT_MS, UPDATES_WAITING_MAX};
use crate::peer::{Frame, LeaseGrant, LeaseRequest};
use crate::progress::Progress;
use std::collections::VecDeque;
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

/// This replica's view of the rotation, besides the settings.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    lease: Lease,
    /// The leaders that got a lease request recently, and when.
    pub(crate) requested: VecDeque<(NodeId, u64)>,
    /// The end of the lease, as last reported to the shell.
    lease_reported_ms: u64,
    /// All members of the rotation show everything up to this index.
    rotation_index: u64,
    /// All live members show everything up to this index, in the rotation or not.
    live_index: u64,
    /// Outcomes that wait for the rotation.
    pub(crate) pending: PendingOutcomes,
    leader_state: LeaderState,
    /// Both clocks at an earlier time.
    clocks: Option<Now>,
    /// When the two clocks began to disagree.
    stepped_ms: Option<u64>,
    /// Leases that were voided early because of the machine's clocks.
    pub(crate) leases_voided: u64,
}

/// The newest lease of this member.
#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    /// The index of the entry that began this stay in the rotation.
    since: u64,
    until_ms: u64,
    /// The index that this member must have applied.
    shown: u64,
}

impl Rotation {
    /// Requests a lease from the leader whose report just arrived.
    pub(crate) fn request_lease(&mut self, context: &Context<'_>, outputs: &mut Outputs, leader: NodeId) {
        if context.settings().rotation().is_empty() {
            return;
        }
        let answers = answers_queries(context);
        let request = LeaseRequest { boot_id: context.local.config.boot_id, at_ms: context.now_ms(), answers };
        if self.requested.len() >= LEASES_REQUESTED_MAX {
            self.requested.pop_front();
        }
        self.requested.push_back((leader, request.at_ms));
        outputs.send(leader, &Frame::LeaseRequest(request));
    }

    /// A grant counts only if it answers a request to that leader.
    pub(crate) fn handle_lease_grant(
        &mut self,
        context: &Context<'_>,
        outputs: &mut Outputs,
        from: NodeId,
        grant: LeaseGrant,
    ) {
        let is_own = grant.boot_id == context.local.config.boot_id && grant.at_ms <= context.now_ms();
        if is_own && self.requested.contains(&(from, grant.at_ms)) || planted!(LeaseOfEarlierProcess) {
            self.take_lease(
                context,
                outputs,
                Lease {
                    since: grant.since,
                    until_ms: if planted!(LeaseFromArrival) { context.now_ms() } else { grant.at_ms } + LEASE_MS,
                    shown: grant.shown.unwrap_or(0),
                },
            );
        }
    }

    /// Accepts a lease, unless the clocks cannot show how long ago it was requested.
    fn take_lease(&mut self, context: &Context<'_>, outputs: &mut Outputs, lease: Lease) {
        let newest = self.lease;
        let is_unknown = self.stepped_ms.is_some_and(|stepped_ms| lease.until_ms <= stepped_ms + LEASE_MS);
        if !is_unknown && (lease.since, lease.until_ms) > (newest.since, newest.until_ms) {
            self.lease = lease;
            self.report_lease(context, outputs);
        }
    }

    /// Compares both clocks with their earlier values.
    pub(crate) fn check_clock_step(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        let now = context.local.now;
        let then = *self.clocks.get_or_insert(now);
        let running_ms = now.monotonic_ms.saturating_sub(then.monotonic_ms);
        let step_ms = then.wall_ms.saturating_add(running_ms).abs_diff(now.wall_ms);
        if step_ms > LEASE_CLOCK_STEP_MS_MAX && !planted!(ClockStepIgnored) {
            self.void_lease(context, outputs);
        }
        // A clock that was slewed for a long time is not a step.
        if running_ms >= LEASE_MS {
            self.clocks = Some(now);
        }
    }

    /// Voids all leases that were requested before now, because the clocks do not show how long ago that was.
    pub(crate) fn void_lease(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        self.clocks = Some(context.local.now);
        self.stepped_ms = Some(context.now_ms());
        self.requested.clear();
        if context.now_ms() < self.lease.until_ms {
            self.leases_voided += 1;
        }
        self.lease.until_ms = 0;
        self.report_lease(context, outputs);
    }

    /// Tells the shell until when it may answer for `ack = all-live` zones.
    pub(crate) fn report_lease(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        let Lease { since, until_ms, shown } = self.lease;
        let is_of_stay = context
            .settings()
            .rotation()
            .get(&context.own())
            .is_some_and(|own| planted!(StaleMemberStaysInRotation) || *own == since);
        let is_shown = context.applied() >= shown;
        let until_ms = if is_of_stay && is_shown { until_ms } else { 0 };
        if self.lease_reported_ms != until_ms {
            self.lease_reported_ms = until_ms;
            outputs.push(Output::LeaseChanged { until_ms });
        }
    }

    /// Whether this member holds a lease when the clock shows this.
    pub(crate) fn is_leased(&self, monotonic_ms: u64) -> bool {
        monotonic_ms < self.lease_reported_ms || planted!(LeaseNeverEnds) && self.lease_reported_ms > 0
    }

    /// Entries up to `last` were applied and are visible to queries.
    pub(crate) fn note_shown(
        &mut self,
        context: &Context<'_>,
        progress: &Progress,
        outputs: &mut Outputs,
        last: u64,
        has_updates: bool,
    ) {
        self.report_lease(context, outputs);
        if context.settings().has_all_live() && has_updates {
            if context.driver.is_leader() {
                self.wait_for_rotation(context, progress, outputs, last);
            } else if let Some(leader) = context.driver.leader() {
                outputs.send(leader, &Frame::Applied { index: last });
            }
        }
    }

    /// The leader reports that all members show everything up to this index.
    pub(crate) fn handle_all_live_index(&mut self, outputs: &mut Outputs, index: u64, of_rotation: bool) {
        let known = if of_rotation { &mut self.rotation_index } else { &mut self.live_index };
        if index <= *known {
            return;
        }
        *known = index;
        outputs.push(Output::AllLiveIndex { index, of_rotation });
        if of_rotation {
            for (request_id, verdict) in self.pending.release(index) {
                outputs.verdict(request_id, verdict);
            }
        }
    }

    /// Reports the outcome of an UPDATE to its client. For a zone with `ack = all-live` this waits until all live
    /// members show `index`.
    pub(crate) fn report_outcome(
        &mut self,
        context: &Context<'_>,
        outputs: &mut Outputs,
        request_id: u64,
        verdict: Verdict,
        message: &[u8],
        index: u64,
    ) {
        let must_wait = matches!(verdict, Verdict::Answer(_))
            && !planted!(RepeatNotHeld)
            && index > self.rotation_index
            && context.settings().has_all_live()
            && zone_of(message).is_some_and(|zone| context.settings().is_all_live(&zone));
        if !must_wait {
            return outputs.verdict(request_id, verdict);
        }
        // The update is committed, so it must not be reported as not done.
        if self.pending.len() >= UPDATES_WAITING_MAX {
            return outputs.verdict(request_id, Verdict::Unknown);
        }
        let deadline_ms = context.now_ms() + UPDATE_WAIT_MS;
        self.pending.put(index, request_id, verdict, deadline_ms);
    }

    /// Reports expired outcomes as unknown.
    pub(crate) fn tick_pending(&mut self, now_ms: u64, outputs: &mut Outputs) {
        for request_id in self.pending.expired(now_ms) {
            outputs.verdict(request_id, Verdict::Unknown);
        }
    }
}

/// The zone that an UPDATE is for.
fn zone_of(message: &[u8]) -> Option<ZoneId> {
    let Parsed::Request(request) = parse_request(message) else { return None };
    Some(ZoneId { view: 0, apex: request.question.as_ref()?.qname.to_canonical() })
}

/// Whether this member may answer clients at all.
fn answers_queries(context: &Context<'_>) -> bool {
    let lifecycle = &context.local.lifecycle;
    context.local.config.answers_queries && !lifecycle.is_fenced() && !lifecycle.is_removed()
}
