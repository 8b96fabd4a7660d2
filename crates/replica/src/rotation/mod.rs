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
mod pending;

use leader::LeaderState;
pub(crate) use pending::PendingOutcomes;

use crate::io::{AckOption, NodeId, Now, Output, Serving};
use crate::limits::{LEASE_CLOCK_STEP_MS_MAX, LEASE_MS, LEASES_REQUESTED_MAX};
use crate::peer::{Frame, LeaseGrant, LeaseRequest};
use crate::replica::Replica;
use std::collections::VecDeque;
use zone::ZoneId;

/// What a replica knows of the rotation, besides the settings.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    lease: Lease,
    /// The leaders that got a lease request recently, and when.
    pub(crate) requested: VecDeque<(NodeId, u64)>,
    /// The end of the lease that the shell knows.
    lease_reported_ms: u64,
    /// All members of the rotation show everything up to this index.
    all_live_index: u64,
    /// All live members do, in the rotation or not.
    all_alive_index: u64,
    /// Outcomes that wait for the rotation.
    pub(crate) pending: PendingOutcomes,
    leader_state: LeaderState,
    /// Both clocks as read a while ago.
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

impl Replica {
    /// Requests a lease from the leader whose report just arrived.
    pub(crate) fn request_lease(&mut self, leader: NodeId) {
        if self.machine.settings.rotation().is_empty() {
            return;
        }
        let answers = self.answers_queries();
        let request = LeaseRequest { boot_id: self.config.boot_id, at_ms: self.now.monotonic_ms, answers };
        if self.rotation.requested.len() >= LEASES_REQUESTED_MAX {
            self.rotation.requested.pop_front();
        }
        self.rotation.requested.push_back((leader, request.at_ms));
        self.send(leader, &Frame::LeaseRequest(request));
    }

    /// Whether this member may answer clients at all.
    fn answers_queries(&self) -> bool {
        self.config.answers_queries && !self.is_fenced() && !self.is_removed()
    }

    /// A grant counts only if it answers a request to that leader.
    pub(crate) fn handle_lease_grant(&mut self, from: NodeId, grant: LeaseGrant) {
        let is_own = grant.boot_id == self.config.boot_id && grant.at_ms <= self.now.monotonic_ms;
        if is_own && self.rotation.requested.contains(&(from, grant.at_ms)) {
            self.take_lease(Lease {
                since: grant.since,
                until_ms: if planted!(LeaseFromArrival) { self.now.monotonic_ms } else { grant.at_ms } + LEASE_MS,
                shown: grant.shown.unwrap_or(0),
            });
        }
    }

    /// Accepts a lease, unless the clocks cannot show how long ago it was requested.
    fn take_lease(&mut self, lease: Lease) {
        let newest = self.rotation.lease;
        let is_unknown = self.rotation.stepped_ms.is_some_and(|stepped_ms| lease.until_ms <= stepped_ms + LEASE_MS);
        if !is_unknown && (lease.since, lease.until_ms) > (newest.since, newest.until_ms) {
            self.rotation.lease = lease;
            self.report_lease();
        }
    }

    /// Compares both clocks with their earlier values.
    pub(crate) fn check_clock_step(&mut self) {
        let now = self.now;
        let then = *self.rotation.clocks.get_or_insert(now);
        let running_ms = now.monotonic_ms.saturating_sub(then.monotonic_ms);
        if then.wall_ms.saturating_add(running_ms).abs_diff(now.wall_ms) > LEASE_CLOCK_STEP_MS_MAX {
            self.void_lease();
        }
        // A clock that was slewed for a long time is not a step.
        if running_ms >= LEASE_MS {
            self.rotation.clocks = Some(now);
        }
    }

    /// Voids all leases that were requested before now, because the clocks do not show how long ago that was.
    pub(crate) fn void_lease(&mut self) {
        self.rotation.clocks = Some(self.now);
        self.rotation.stepped_ms = Some(self.now.monotonic_ms);
        self.rotation.requested.clear();
        if self.now.monotonic_ms < self.rotation.lease.until_ms {
            self.rotation.leases_voided += 1;
        }
        self.rotation.lease.until_ms = 0;
        self.report_lease();
    }

    /// Tells the shell until when it may answer for `ack = all-live` zones.
    pub(crate) fn report_lease(&mut self) {
        let Lease { since, until_ms, shown } = self.rotation.lease;
        let is_of_stay = self
            .machine
            .settings
            .rotation()
            .get(&self.driver.id())
            .is_some_and(|own| planted!(StaleMemberStaysInRotation) || *own == since);
        let is_shown = self.machine.applied.0 >= shown;
        let until_ms = if is_of_stay && is_shown { until_ms } else { 0 };
        if self.rotation.lease_reported_ms != until_ms {
            self.rotation.lease_reported_ms = until_ms;
            self.out.push_back(Output::LeaseChanged { until_ms });
        }
    }

    /// Whether a query for a zone is answered when the clock shows this.
    #[must_use]
    pub fn may_answer(&self, zone: &ZoneId, monotonic_ms: u64) -> bool {
        let needs_lease = self.zone_options(zone).is_some_and(|options| options.ack == AckOption::AllLive);
        let until_ms = self.rotation.lease_reported_ms;
        let is_leased = monotonic_ms < until_ms || planted!(LeaseNeverEnds) && until_ms > 0;
        self.serving() != Serving::No && (!needs_lease || is_leased)
    }

    /// Entries up to `last` were applied and are visible to queries.
    pub(crate) fn note_shown(&mut self, last: u64, has_updates: bool) {
        self.report_lease();
        if self.machine.settings.has_all_live() && has_updates {
            if self.driver.is_leader() {
                self.wait_for_rotation(last);
            } else if let Some(leader) = self.driver.leader() {
                self.send(leader, &Frame::Applied { index: last });
            }
        }
    }

    /// Counts only from the leader, or from the last leader while none is known, as its message may be late.
    pub(crate) fn handle_peer_all_live_index(&mut self, from: NodeId, index: u64, of_rotation: bool) {
        if self.driver.leader().or(self.last_leader) == Some(from) {
            self.handle_all_live_index(index, of_rotation);
        }
    }

    /// The leader reports that all members show everything up to this index.
    pub(crate) fn handle_all_live_index(&mut self, index: u64, of_rotation: bool) {
        let known = if of_rotation { &mut self.rotation.all_live_index } else { &mut self.rotation.all_alive_index };
        if index <= *known {
            return;
        }
        *known = index;
        self.out.push_back(Output::AllLiveIndex { index, of_rotation });
        if of_rotation {
            for (request_id, verdict) in self.rotation.pending.release(index) {
                self.verdict(request_id, verdict);
            }
        }
    }
}
