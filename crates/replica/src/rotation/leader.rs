//! The leader's part: grants leases, finds the index that all members show, and changes the rotation.

use super::Lease;
use crate::command::Command;
use crate::entry::SettingsChange;
use crate::io::NodeId;
use crate::limits::{
    LEASE_GUARD_MS, LEASE_MS, ROTATION_BATCHES_MAX, ROTATION_CAUGHT_UP_MS, ROTATION_LAG_MAX, ROTATION_UNUSED_MS,
    UPDATE_WAIT_MS,
};
use crate::peer::{Frame, LeaseGrant, LeaseRequest};
use crate::progress::ALIVE_MS;
use crate::propose::Origin;
use crate::replica::Replica;
use crate::state::Settings;
use std::collections::{BTreeMap, VecDeque};

/// The leader repeats its own proposal if it is not applied after this time.
const PROPOSE_AGAIN_MS: u64 = 500;
/// Members of an earlier feature level do not know the grants that name an index.
const SHOWN_FROM_LEVEL: u32 = 5;

/// What a leader knows in its term.
#[derive(Debug, Default)]
pub(super) struct LeaderState {
    /// When this replica became the leader of its term.
    since_ms: u64,
    /// The same in this process's running time.
    since_running_ms: u64,
    /// The index that this leader had applied when it could first grant leases. All updates that earlier leaders
    /// acknowledged are before it.
    start_index: u64,
    /// This replica answers no queries.
    never_answers: bool,
    requests: BTreeMap<NodeId, LeaseRequests>,
    /// When the newest granted request arrived.
    granted: BTreeMap<NodeId, u64>,
    /// The last index that each member reported as visible.
    shown: BTreeMap<NodeId, u64>,
    /// Batches of updates that some member may not show yet: the last index, and when it was applied here, in running
    /// time.
    waiting: VecDeque<(u64, u64)>,
    /// Since when members outside the rotation have caught up.
    caught_up_since: BTreeMap<NodeId, u64>,
    /// When a zone last needed a rotation.
    used_ms: u64,
    /// Until when a request waits for a rotation to begin.
    wanted_until_ms: u64,
    /// When this leader last proposed a change of the rotation.
    proposed_ms: Option<u64>,
    /// When either all-live index last advanced.
    moved_ms: u64,
}

/// A member's lease requests. While one waits for a majority, the next may arrive.
#[derive(Clone, Copy, Debug)]
struct LeaseRequests {
    first: ReceivedRequest,
    newest: ReceivedRequest,
    answers: bool,
    /// When the newest arrived, in this process's running time.
    running_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct ReceivedRequest {
    boot_id: u64,
    at_ms: u64,
    /// When it arrived, by the leader's clock.
    received_ms: u64,
}

impl LeaderState {
    /// Whether a member may be answering under a lease of this term.
    fn may_answer(&self, id: NodeId, now_ms: u64) -> bool {
        self.granted.get(&id).is_some_and(|received_ms| received_ms + LEASE_GUARD_MS >= now_ms)
    }
}

impl super::Rotation {
    /// Whether all members hold a lease or never answer, so that a zone may get `ack = all-live`. If not, the leader
    /// starts a rotation.
    pub(crate) fn is_ready(&mut self, settings: &Settings, own: NodeId, now_ms: u64) -> bool {
        self.leader_state.wanted_until_ms = now_ms + 2 * UPDATE_WAIT_MS;
        let holds_lease = |id: NodeId| match settings.rotation().get(&id) {
            Some(_) => {
                id == own
                    || self.leader_state.granted.get(&id).is_some_and(|received_ms| received_ms + LEASE_MS / 2 > now_ms)
            }
            None => {
                self.leader_state.requests.get(&id).is_some_and(|requests| !requests.answers)
                    || (id == own && self.leader_state.never_answers)
            }
        };
        !settings.rotation().is_empty() && settings.members().iter().all(|member| holds_lease(member.id))
    }
}

impl Replica {
    /// The term or the role changed.
    pub(crate) fn reset_rotation(&mut self) {
        let now_ms = self.now.monotonic_ms;
        self.rotation.leader_state = LeaderState {
            since_ms: now_ms,
            since_running_ms: self.running_ms,
            used_ms: now_ms,
            never_answers: !self.config.answers_queries,
            ..LeaderState::default()
        };
    }

    pub(crate) fn handle_lease_request(&mut self, from: NodeId, request: LeaseRequest) {
        if !self.driver.has_applied_own_term() || !self.machine.settings.is_member(from) {
            return;
        }
        let LeaseRequest { boot_id, at_ms, answers } = request;
        let (received_ms, running_ms) = (self.now.monotonic_ms, self.running_ms);
        let newest = ReceivedRequest { boot_id, at_ms, received_ms };
        let state = &mut self.rotation.leader_state;
        if state.start_index == 0 {
            state.start_index = self.machine.applied.0;
        }
        let is_over = |first: &ReceivedRequest| {
            let granted = state.granted.get(&from).is_some_and(|&granted_ms| first.received_ms <= granted_ms);
            granted || first.received_ms + LEASE_MS <= received_ms
        };
        let first = state.requests.get(&from).map(|requests| requests.first).filter(|first| !is_over(first));
        state.requests.insert(from, LeaseRequests { first: first.unwrap_or(newest), newest, answers, running_ms });
        self.grant_leases();
    }

    /// A member shows everything up to an index. It reports this without waiting for the next report.
    pub(crate) fn handle_applied_at(&mut self, from: NodeId, index: u64) {
        if self.driver.has_applied_own_term() && self.driver.counts(from) && index <= self.driver.last_index() {
            let shown = self.rotation.leader_state.shown.entry(from).or_default();
            *shown = index.max(*shown);
            self.update_all_live_index();
        }
    }

    /// A member answered a report.
    pub(crate) fn handle_rotation_progress(&mut self) {
        if !self.machine.settings.rotation().is_empty() && self.driver.has_applied_own_term() {
            self.grant_leases();
            self.update_all_live_index();
        }
    }

    /// This leader applied updates that all live members must show before they are acknowledged.
    pub(super) fn wait_for_rotation(&mut self, last: u64) {
        let waiting = &mut self.rotation.leader_state.waiting;
        if waiting.len() >= ROTATION_BATCHES_MAX
            && let Some(newest) = waiting.back_mut()
        {
            newest.0 = last;
        } else {
            waiting.push_back((last, self.running_ms));
        }
        self.update_all_live_index();
    }

    /// Runs once for each report.
    pub(crate) fn tick_rotation(&mut self) {
        if self.machine.settings.feature_level() < 2 {
            return;
        }
        self.grant_leases();
        self.update_all_live_index();
        // The message may be lost, so it is repeated while a client may wait for it.
        if self.rotation.leader_state.moved_ms + UPDATE_WAIT_MS > self.now.monotonic_ms {
            self.send_all_live_index(false);
            if !self.machine.settings.rotation().is_empty() {
                self.send_all_live_index(true);
            }
        }
        self.propose_rotation_change();
    }

    /// Grants requests that arrived before the last time at which a majority followed this leader.
    fn grant_leases(&mut self) {
        let Some(followed_ms) = self.quorum_followed_ms() else { return };
        let own = self.driver.id();
        let rotation = self.machine.settings.rotation().clone();
        if let Some(&since) = rotation.get(&own) {
            self.take_lease(Lease { since, until_ms: followed_ms + LEASE_MS, shown: 0 });
        }
        let is_known = self.machine.settings.feature_level() >= SHOWN_FROM_LEVEL;
        let shown = is_known.then(|| self.rotation.all_live_index.max(self.rotation.leader_state.start_index));
        for (&id, &since) in rotation.iter().filter(|&(&id, _)| id != own) {
            let state = &mut self.rotation.leader_state;
            let Some(requests) = state.requests.get_mut(&id) else { continue };
            // Clocks have a resolution of 1 ms, so a request in the same millisecond may be later.
            let request = [requests.newest, requests.first]
                .into_iter()
                .find(|request| planted!(LeaseWithoutMajority) || request.received_ms < followed_ms);
            let Some(ReceivedRequest { boot_id, at_ms, received_ms }) = request else { continue };
            if requests.answers && state.granted.get(&id).is_none_or(|&granted_ms| granted_ms < received_ms) {
                requests.first = requests.newest;
                state.granted.insert(id, received_ms);
                self.send(id, &Frame::LeaseGrant(LeaseGrant { boot_id, at_ms, since, shown }));
            }
        }
    }

    /// The last index that a member is known to show.
    fn shown_by(&self, id: NodeId) -> u64 {
        let reported = self.rotation.leader_state.shown.get(&id).copied().unwrap_or(0);
        reported.max(self.member_progress(id).map_or(0, |member| member.applied))
    }

    /// Updates both all-live indexes: for `ack = all-live` zones the one of the rotation, for other zones the one of
    /// all live members.
    fn update_all_live_index(&mut self) {
        if let Some(others) = self.alive_others() {
            self.advance_all_live_index(others, false);
        }
        if let Some(others) = self.leased_others() {
            self.advance_all_live_index(others, true);
        }
    }

    /// The other live members; `None` while that is not known.
    fn alive_others(&self) -> Option<Vec<NodeId>> {
        let mut others = self.driver.others();
        let is_known = self.progress.is_settled(self.now.monotonic_ms) || others.iter().all(|&id| self.is_alive(id));
        others.retain(|&id| self.is_alive(id));
        is_known.then_some(others)
    }

    /// The others that may be answering by a lease; `None` without a rotation, and while it may be a lease that an
    /// earlier leader granted.
    fn leased_others(&self) -> Option<Vec<NodeId>> {
        let (own, now_ms) = (self.driver.id(), self.now.monotonic_ms);
        let (state, rotation) = (&self.rotation.leader_state, self.machine.settings.rotation());
        if rotation.is_empty() || state.since_ms + LEASE_GUARD_MS >= now_ms {
            return None;
        }
        let granted = state.granted.keys().filter(|&&id| state.may_answer(id, now_ms));
        Some(
            rotation
                .keys()
                .chain(granted.filter(|_| !planted!(LeasesOfTheRemovedIgnored)))
                .copied()
                .filter(|&id| id != own)
                .collect(),
        )
    }

    /// Advances an all-live index to what these members and this leader show.
    fn advance_all_live_index(&mut self, others: Vec<NodeId>, of_rotation: bool) {
        let shown = others.into_iter().map(|id| self.shown_by(id)).min();
        let index = shown.map_or(self.machine.applied.0, |shown| shown.min(self.machine.applied.0));
        if index <= self.all_live_index(of_rotation) {
            return;
        }
        self.handle_all_live_index(index, of_rotation);
        self.rotation.leader_state.moved_ms = self.now.monotonic_ms;
        // If there is a rotation, updates wait for it.
        if of_rotation == self.machine.settings.rotation().is_empty() {
            return;
        }
        let waiting = &mut self.rotation.leader_state.waiting;
        let count = waiting.iter().take_while(|&&(last, _)| last <= index).count();
        waiting.drain(..count);
        if count > 0 {
            self.send_all_live_index(of_rotation);
        }
    }

    const fn all_live_index(&self, of_rotation: bool) -> u64 {
        if of_rotation { self.rotation.all_live_index } else { self.rotation.all_alive_index }
    }

    /// Sends the all-live index to the other members.
    fn send_all_live_index(&mut self, of_rotation: bool) {
        let index = self.all_live_index(of_rotation);
        for id in self.driver.others() {
            self.send(id, &Frame::AllLiveIndex { index, of_rotation });
        }
    }

    /// Proposes the next change of the rotation, if one is due.
    fn propose_rotation_change(&mut self) {
        let now_ms = self.now.monotonic_ms;
        let (state, settings) = (&mut self.rotation.leader_state, &self.machine.settings);
        let is_used = settings.has_all_live() || state.wanted_until_ms > now_ms;
        if is_used {
            state.used_ms = now_ms;
        } else if settings.rotation().is_empty() {
            return;
        }
        self.note_caught_up();
        if self.rotation.leader_state.proposed_ms.is_some_and(|at_ms| at_ms + PROPOSE_AGAIN_MS > now_ms) {
            return;
        }
        let change = if is_used { self.next_rotation_change() } else { self.end_of_rotation() };
        let Some(change) = change else { return };
        // Nobody waits for the answer; who leads next looks for itself.
        let origin = Origin { peer: None, token: self.waiters.token_without_waiter() };
        if self.head.enqueue(origin, Command::Settings(change)) {
            self.rotation.leader_state.proposed_ms = Some(now_ms);
        }
    }

    fn end_of_rotation(&self) -> Option<SettingsChange> {
        let is_over = self.rotation.leader_state.used_ms + ROTATION_UNUSED_MS <= self.now.monotonic_ms;
        let ids = self.machine.settings.rotation().keys().copied().collect();
        is_over.then_some(SettingsChange::RotationOut { ids })
    }

    fn next_rotation_change(&self) -> Option<SettingsChange> {
        let settings = &self.machine.settings;
        let gone: Vec<_> = settings.rotation().keys().copied().filter(|&id| self.must_leave(id)).collect();
        if !gone.is_empty() {
            return Some(SettingsChange::RotationOut { ids: gone });
        }
        let new: Vec<_> = if settings.rotation().is_empty() { self.founders() } else { self.returned() };
        if !new.is_empty() {
            return Some(SettingsChange::RotationIn { ids: new });
        }
        let index = settings.all_live_unknown()?;
        let knows = |id: NodeId| id == self.driver.id() || self.shown_by(id) >= index;
        let all_know = settings.members().iter().all(|member| knows(member.id));
        (all_know && self.machine.applied.0 >= index).then_some(SettingsChange::AllLiveKnown { index })
    }

    /// Whether a member must leave the rotation: it is silent, lags, or never answers clients.
    fn must_leave(&self, id: NodeId) -> bool {
        if id == self.driver.id() {
            return !self.answers_queries();
        }
        let state = &self.rotation.leader_state;
        // A pause of this process must not count as silence of another member.
        let is_past = |running_ms: u64| running_ms + LEASE_MS < self.running_ms;
        let Some(requests) = state.requests.get(&id) else { return self.has_led_for(LEASE_MS) };
        let is_late = state.waiting.front().is_some_and(|&(last, at_ms)| is_past(at_ms) && self.shown_by(id) < last);
        is_past(requests.running_ms) || is_late || !requests.answers
    }

    /// Whether this replica has led for this long, in running time.
    fn has_led_for(&self, ms: u64) -> bool {
        self.rotation.leader_state.since_running_ms + ms < self.running_ms
    }

    /// The members of a new rotation: all live ones, once these are known.
    fn founders(&self) -> Vec<NodeId> {
        let own = self.driver.id();
        let members = self.machine.settings.members();
        let others = || members.iter().map(|member| member.id).filter(|&id| id != own);
        if !self.progress.is_settled(self.now.monotonic_ms) && !others().all(|id| self.is_alive(id)) {
            return Vec::new();
        }
        let never_answers = |id| self.rotation.leader_state.requests.get(&id).is_some_and(|requests| !requests.answers);
        let mut ids: Vec<_> =
            others().filter(|&id| self.is_alive(id) && self.is_close(id) && !never_answers(id)).collect();
        ids.extend(self.answers_queries().then_some(own));
        ids
    }

    /// Members outside the rotation that caught up long enough ago.
    fn returned(&self) -> Vec<NodeId> {
        let is_back = |since_ms: u64| since_ms + ROTATION_CAUGHT_UP_MS <= self.now.monotonic_ms;
        let caught_up = self.rotation.leader_state.caught_up_since.iter().filter(|&(_, &since_ms)| is_back(since_ms));
        caught_up.map(|(&id, _)| id).collect()
    }

    /// Notes since when members outside the rotation request leases and have caught up.
    fn note_caught_up(&mut self) {
        let (own, now_ms) = (self.driver.id(), self.now.monotonic_ms);
        let settings = &self.machine.settings;
        let outside = settings.members().into_iter().map(|member| member.id);
        let outside = outside.filter(|id| !settings.rotation().contains_key(id)).collect::<Vec<_>>();
        let asks = |id: NodeId| {
            let requests = self.rotation.leader_state.requests.get(&id);
            requests.is_some_and(|requests| requests.answers && requests.running_ms + LEASE_MS >= self.running_ms)
        };
        let is_caught_up = |id: NodeId| if id == own { self.answers_queries() } else { asks(id) && self.is_close(id) };
        let before = &self.rotation.leader_state.caught_up_since;
        let caught_up = outside.into_iter().filter(|&id| is_caught_up(id));
        let caught_up = caught_up.map(|id| (id, before.get(&id).copied().unwrap_or(now_ms))).collect();
        self.rotation.leader_state.caught_up_since = caught_up;
    }

    /// Whether a member is live and lags only a little.
    fn is_close(&self, id: NodeId) -> bool {
        let is_alive = self.progress.responded_within(id, ALIVE_MS, self.now.monotonic_ms);
        is_alive && self.shown_by(id) + ROTATION_LAG_MAX >= self.machine.applied.0
    }
}
