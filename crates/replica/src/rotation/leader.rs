//! The leader's part: grants leases, finds the index that all members show, and changes the rotation.

use super::leader_state::{LeaderState, LeaseRequests, ReceivedRequest};
use super::{Lease, Rotation, answers_queries};
use crate::context::{Context, Outputs};
use crate::entry::SettingsChange;
use crate::io::NodeId;
use crate::limits::{
    LEASE_GUARD_MS, LEASE_MS, ROTATION_BATCHES_MAX, ROTATION_CAUGHT_UP_MS, ROTATION_LAG_MAX, ROTATION_UNUSED_MS,
    UPDATE_WAIT_MS,
};
use crate::peer::{Frame, LeaseGrant, LeaseRequest};
use crate::progress::Progress;
use crate::state::Settings;

/// The leader repeats its own proposal if it is not applied after this time.
const PROPOSE_AGAIN_MS: u64 = 500;
/// Members of an earlier feature level do not know the grants that name an index.
const SHOWN_FROM_LEVEL: u32 = 5;

impl Rotation {
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

impl Rotation {
    /// The term or the role changed.
    pub(crate) fn reset(&mut self, context: &Context<'_>) {
        let now_ms = context.now_ms();
        self.leader_state = LeaderState {
            since_ms: now_ms,
            since_running_ms: context.running_ms(),
            used_ms: now_ms,
            never_answers: !context.local.config.answers_queries,
            ..LeaderState::default()
        };
    }

    pub(crate) fn handle_lease_request(
        &mut self,
        context: &Context<'_>,
        progress: &Progress,
        outputs: &mut Outputs,
        from: NodeId,
        request: LeaseRequest,
    ) {
        if !context.driver.has_applied_own_term() || !context.settings().is_member(from) {
            return;
        }
        let LeaseRequest { boot_id, at_ms, answers } = request;
        let (received_ms, running_ms) = (context.now_ms(), context.running_ms());
        let newest = ReceivedRequest { boot_id, at_ms, received_ms };
        let state = &mut self.leader_state;
        if state.start_index == 0 {
            state.start_index = context.applied();
        }
        let is_over = |first: &ReceivedRequest| {
            let granted = state.granted.get(&from).is_some_and(|&granted_ms| first.received_ms <= granted_ms);
            granted || first.received_ms + LEASE_MS <= received_ms
        };
        let first = state.requests.get(&from).map(|requests| requests.first).filter(|first| !is_over(first));
        state.requests.insert(from, LeaseRequests { first: first.unwrap_or(newest), newest, answers, running_ms });
        self.grant_leases(context, progress, outputs);
    }

    /// A member shows everything up to an index. It reports this without waiting for the next report.
    pub(crate) fn handle_applied_at(
        &mut self,
        context: &Context<'_>,
        progress: &Progress,
        outputs: &mut Outputs,
        from: NodeId,
        index: u64,
    ) {
        if context.driver.has_applied_own_term() && context.driver.counts(from) && index <= context.driver.last_index()
        {
            let shown = self.leader_state.shown.entry(from).or_default();
            *shown = index.max(*shown);
            self.update_all_live_index(context, progress, outputs);
        }
    }

    /// A member answered a report.
    pub(crate) fn handle_progress(&mut self, context: &Context<'_>, progress: &Progress, outputs: &mut Outputs) {
        if !context.settings().rotation().is_empty() && context.driver.has_applied_own_term() {
            self.grant_leases(context, progress, outputs);
            self.update_all_live_index(context, progress, outputs);
        }
    }

    /// This leader applied updates that all live members must show before they are acknowledged.
    pub(super) fn wait_for_rotation(
        &mut self,
        context: &Context<'_>,
        progress: &Progress,
        outputs: &mut Outputs,
        last: u64,
    ) {
        let waiting = &mut self.leader_state.waiting;
        if waiting.len() >= ROTATION_BATCHES_MAX
            && let Some(newest) = waiting.back_mut()
        {
            newest.0 = last;
        } else {
            waiting.push_back((last, context.running_ms()));
        }
        self.update_all_live_index(context, progress, outputs);
    }

    /// Runs once for each report. Returns the change of the rotation that this leader must propose.
    pub(crate) fn tick(
        &mut self,
        context: &Context<'_>,
        progress: &Progress,
        outputs: &mut Outputs,
    ) -> Option<SettingsChange> {
        if context.settings().feature_level() < 2 {
            return None;
        }
        self.grant_leases(context, progress, outputs);
        self.update_all_live_index(context, progress, outputs);
        // The message may be lost, so it is repeated while a client may wait for it.
        if self.leader_state.moved_ms + UPDATE_WAIT_MS > context.now_ms() {
            self.send_all_live_index(context, outputs, false);
            if !context.settings().rotation().is_empty() {
                self.send_all_live_index(context, outputs, true);
            }
        }
        self.change_due(context, progress)
    }

    /// Grants requests that arrived before the last time at which a majority followed this leader.
    fn grant_leases(&mut self, context: &Context<'_>, progress: &Progress, outputs: &mut Outputs) {
        let Some(followed_ms) = progress.quorum_followed_ms(context) else { return };
        let own = context.own();
        let rotation = context.settings().rotation();
        if let Some(&since) = rotation.get(&own) {
            self.take_lease(context, outputs, Lease { since, until_ms: followed_ms + LEASE_MS, shown: 0 });
        }
        let is_known = context.settings().feature_level() >= SHOWN_FROM_LEVEL;
        let shown = is_known.then(|| self.rotation_index.max(self.leader_state.start_index));
        for (&id, &since) in rotation.iter().filter(|&(&id, _)| id != own) {
            let state = &mut self.leader_state;
            let Some(requests) = state.requests.get_mut(&id) else { continue };
            // Clocks have a resolution of 1 ms, so a request in the same millisecond may be later.
            let request = [requests.newest, requests.first]
                .into_iter()
                .find(|request| planted!(LeaseWithoutMajority) || request.received_ms < followed_ms);
            let Some(ReceivedRequest { boot_id, at_ms, received_ms }) = request else { continue };
            if requests.answers && state.granted.get(&id).is_none_or(|&granted_ms| granted_ms < received_ms) {
                requests.first = requests.newest;
                state.granted.insert(id, received_ms);
                outputs.send(id, &Frame::LeaseGrant(LeaseGrant { boot_id, at_ms, since, shown }));
            }
        }
    }

    /// The last index that a member is known to show.
    fn shown_by(&self, progress: &Progress, id: NodeId) -> u64 {
        let reported = self.leader_state.shown.get(&id).copied().unwrap_or(0);
        reported.max(progress.member(id).map_or(0, |member| member.applied))
    }

    /// Updates both all-live indexes: for `ack = all-live` zones the one of the rotation, for other zones the one of
    /// all live members.
    fn update_all_live_index(&mut self, context: &Context<'_>, progress: &Progress, outputs: &mut Outputs) {
        if let Some(others) = alive_others(context, progress).filter(|_| !planted!(LiveIndexNotReported)) {
            self.advance_all_live_index(context, progress, outputs, &others, false);
        }
        if let Some(others) = self.leased_others(context) {
            self.advance_all_live_index(context, progress, outputs, &others, true);
        }
    }

    /// The others that may be answering by a lease; `None` without a rotation, and while it may be a lease that an
    /// earlier leader granted.
    fn leased_others(&self, context: &Context<'_>) -> Option<Vec<NodeId>> {
        let (own, now_ms) = (context.own(), context.now_ms());
        let (state, rotation) = (&self.leader_state, context.settings().rotation());
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
    fn advance_all_live_index(
        &mut self,
        context: &Context<'_>,
        progress: &Progress,
        outputs: &mut Outputs,
        others: &[NodeId],
        of_rotation: bool,
    ) {
        let shown = others.iter().map(|&id| self.shown_by(progress, id)).min();
        let index = shown.map_or(context.applied(), |shown| shown.min(context.applied()));
        if index <= self.all_live_index(of_rotation) {
            return;
        }
        self.handle_all_live_index(outputs, index, of_rotation);
        self.leader_state.moved_ms = context.now_ms();
        // If there is a rotation, updates wait for it.
        if of_rotation == context.settings().rotation().is_empty() {
            return;
        }
        let waiting = &mut self.leader_state.waiting;
        let count = waiting.iter().take_while(|&&(last, _)| last <= index).count();
        waiting.drain(..count);
        if count > 0 {
            self.send_all_live_index(context, outputs, of_rotation);
        }
    }

    const fn all_live_index(&self, of_rotation: bool) -> u64 {
        if of_rotation { self.rotation_index } else { self.live_index }
    }

    /// Sends the all-live index to the other members.
    fn send_all_live_index(&self, context: &Context<'_>, outputs: &mut Outputs, of_rotation: bool) {
        let index = self.all_live_index(of_rotation);
        for id in context.driver.others() {
            outputs.send(id, &Frame::AllLiveIndex { index, of_rotation });
        }
    }

    /// The next change of the rotation, if one is due.
    fn change_due(&mut self, context: &Context<'_>, progress: &Progress) -> Option<SettingsChange> {
        let now_ms = context.now_ms();
        let (state, settings) = (&mut self.leader_state, context.settings());
        let is_used = settings.has_all_live() || state.wanted_until_ms > now_ms;
        if is_used {
            state.used_ms = now_ms;
        } else if settings.rotation().is_empty() {
            return None;
        }
        self.note_caught_up(context, progress);
        if self.leader_state.proposed_ms.is_some_and(|at_ms| at_ms + PROPOSE_AGAIN_MS > now_ms) {
            return None;
        }
        if is_used { self.next_change(context, progress) } else { self.end_of_rotation(context) }
    }

    /// A change is on its way into the log. The next leader checks for itself.
    pub(crate) const fn note_proposed(&mut self, now_ms: u64) {
        self.leader_state.proposed_ms = Some(now_ms);
    }

    fn end_of_rotation(&self, context: &Context<'_>) -> Option<SettingsChange> {
        let is_over = self.leader_state.used_ms + ROTATION_UNUSED_MS <= context.now_ms();
        let ids = context.settings().rotation().keys().copied().collect();
        is_over.then_some(SettingsChange::RotationOut { ids })
    }

    fn next_change(&self, context: &Context<'_>, progress: &Progress) -> Option<SettingsChange> {
        let settings = context.settings();
        let gone: Vec<_> =
            settings.rotation().keys().copied().filter(|&id| self.must_leave(context, progress, id)).collect();
        if !gone.is_empty() {
            return Some(SettingsChange::RotationOut { ids: gone });
        }
        let new: Vec<_> =
            if settings.rotation().is_empty() { self.founders(context, progress) } else { self.returned(context) };
        if !new.is_empty() {
            return Some(SettingsChange::RotationIn { ids: new });
        }
        let index = settings.all_live_unknown()?;
        let knows = |id: NodeId| id == context.own() || self.shown_by(progress, id) >= index;
        let all_know = settings.members().iter().all(|member| knows(member.id));
        (all_know && context.applied() >= index).then_some(SettingsChange::AllLiveKnown { index })
    }

    /// Whether a member must leave the rotation: it is silent, lags, or never answers clients.
    fn must_leave(&self, context: &Context<'_>, progress: &Progress, id: NodeId) -> bool {
        if id == context.own() {
            return !answers_queries(context);
        }
        let state = &self.leader_state;
        // A pause of this process must not count as silence of another member.
        let is_past = |running_ms: u64| running_ms + LEASE_MS < context.running_ms();
        let Some(requests) = state.requests.get(&id) else { return self.has_led_for(context, LEASE_MS) };
        let is_late =
            state.waiting.front().is_some_and(|&(last, at_ms)| is_past(at_ms) && self.shown_by(progress, id) < last);
        is_past(requests.running_ms) || is_late || !requests.answers && !planted!(MemberWithoutClientsInRotation)
    }

    /// Whether this replica has led for this long, in running time.
    fn has_led_for(&self, context: &Context<'_>, ms: u64) -> bool {
        self.leader_state.since_running_ms + ms < context.running_ms()
    }

    /// The members of a new rotation: all live ones, once these are known.
    fn founders(&self, context: &Context<'_>, progress: &Progress) -> Vec<NodeId> {
        let own = context.own();
        let members = context.settings().members();
        let others = || members.iter().map(|member| member.id).filter(|&id| id != own);
        if !progress.is_settled(context.now_ms()) && !others().all(|id| progress.is_alive(id, context.now_ms())) {
            return Vec::new();
        }
        let answers = |requests: &LeaseRequests| requests.answers || planted!(MemberWithoutClientsInRotation);
        let never_answers = |id| self.leader_state.requests.get(&id).is_some_and(|requests| !answers(requests));
        let mut ids: Vec<_> =
            others().filter(|&id| self.is_close(context, progress, id) && !never_answers(id)).collect();
        ids.extend(answers_queries(context).then_some(own));
        ids
    }

    /// Members outside the rotation that caught up long enough ago.
    fn returned(&self, context: &Context<'_>) -> Vec<NodeId> {
        let is_back =
            |since_ms: u64| planted!(ReturnsToRotationAtOnce) || since_ms + ROTATION_CAUGHT_UP_MS <= context.now_ms();
        let caught_up = self.leader_state.caught_up_since.iter().filter(|&(_, &since_ms)| is_back(since_ms));
        caught_up.map(|(&id, _)| id).collect()
    }

    /// Notes since when members outside the rotation request leases and have caught up.
    fn note_caught_up(&mut self, context: &Context<'_>, progress: &Progress) {
        let (own, now_ms) = (context.own(), context.now_ms());
        let settings = context.settings();
        let outside = settings.members().into_iter().map(|member| member.id);
        let outside = outside.filter(|id| !settings.rotation().contains_key(id));
        let asks = |id: NodeId| {
            let requests = self.leader_state.requests.get(&id);
            requests.is_some_and(|requests| requests.answers && requests.running_ms + LEASE_MS >= context.running_ms())
        };
        let is_caught_up = |id: NodeId| {
            if id == own { answers_queries(context) } else { asks(id) && self.is_close(context, progress, id) }
        };
        let before = &self.leader_state.caught_up_since;
        let caught_up = outside.filter(|&id| is_caught_up(id));
        let caught_up = caught_up.map(|id| (id, before.get(&id).copied().unwrap_or(now_ms))).collect();
        self.leader_state.caught_up_since = caught_up;
    }

    /// Whether a member is live and lags only a little.
    fn is_close(&self, context: &Context<'_>, progress: &Progress, id: NodeId) -> bool {
        progress.is_alive(id, context.now_ms()) && self.shown_by(progress, id) + ROTATION_LAG_MAX >= context.applied()
    }
}

/// The other live members; `None` while that is not known.
fn alive_others(context: &Context<'_>, progress: &Progress) -> Option<Vec<NodeId>> {
    let now_ms = context.now_ms();
    let mut others = context.driver.others();
    let is_known = progress.is_settled(now_ms) || others.iter().all(|&id| progress.is_alive(id, now_ms));
    others.retain(|&id| progress.is_alive(id, now_ms));
    is_known.then_some(others)
}
