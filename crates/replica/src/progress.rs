//! Progress of the members. Every few ticks the leader sends a report: the commit index, and the state hash at an
//! index. Each member responds with its applied index and its own hash.
//!
//! So members know how stale they are, a restarted member knows when it may answer, and a member whose state differs
//! from the majority's stops answering.

use crate::command::Answer;
use crate::io::{NodeId, Output, Serving};
use crate::limits::{REPORT_MS, REPORTS_PER_COMPARISON, REPORTS_SENT_MAX};
use crate::peer::{Frame, Report, ReportAck};
use crate::replica::Replica;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// State of the reports, on the leader and on a follower.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    sequence: u64,
    sent_ms: u64,
    /// The last reports of this term, and when each left.
    sent: VecDeque<(u64, u64)>,
    /// Index and hash that the current report compares, and those of the next one.
    compared_state: Option<(u64, u128)>,
    next_compared_state: Option<(u64, u128)>,
    /// The newest report received in this term.
    newest_received: u64,
    /// When this term began here.
    since_ms: u64,
    /// Hashes at the compared index, by member.
    votes: BTreeMap<NodeId, u128>,
    /// The open comparison, at an index that all members have reached.
    comparison: Option<Comparison>,
    /// Members whose state differed from the majority's in the last comparison.
    differing: BTreeSet<NodeId>,
    /// The last response of each member.
    members: BTreeMap<NodeId, MemberProgress>,
    /// Commit index and arrival time of the oldest report whose commit index is not applied here.
    unconfirmed: Option<(u64, u64)>,
    /// Arrival time of the last report whose commit index is applied here.
    confirmed_ms: Option<u64>,
}

/// A comparison of states at an older index. It stays open until the next one begins. So it includes members that lag,
/// and responses that arrive after the next report.
#[derive(Debug)]
struct Comparison {
    index: u64,
    own: u128,
    votes: BTreeMap<NodeId, u128>,
}

/// A member's last response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberProgress {
    pub(crate) at_ms: u64,
    /// The report that the member answered, and when that was sent. The member followed this leader after that time.
    sequence: u64,
    sent_ms: u64,
    pub(crate) applied: u64,
    pub(crate) feature_level: u32,
}

/// A member that answered within this time is alive.
pub(crate) const ALIVE_MS: u64 = 20 * REPORT_MS;

impl Progress {
    /// Whether a member answered this leader within that time.
    pub(crate) fn responded_within(&self, id: NodeId, within_ms: u64, now_ms: u64) -> bool {
        self.members.get(&id).is_some_and(|member| member.at_ms + within_ms >= now_ms)
    }

    /// Whether a member answered this leader recently.
    pub(crate) fn is_alive(&self, id: NodeId, now_ms: u64) -> bool {
        self.responded_within(id, ALIVE_MS, now_ms)
    }

    /// Whether a member's state is known to be wrong. Such a member is fenced and must not lead.
    pub(crate) fn is_differing(&self, id: NodeId) -> bool {
        self.differing.contains(&id)
    }

    /// Whether every live member has had time to answer in this term.
    pub(crate) const fn is_settled(&self, now_ms: u64) -> bool {
        self.since_ms + ALIVE_MS < now_ms
    }
}

impl Replica {
    pub(crate) fn is_alive(&self, id: NodeId) -> bool {
        self.progress.responded_within(id, ALIVE_MS, self.now.monotonic_ms)
    }

    pub(crate) fn member_progress(&self, id: NodeId) -> Option<MemberProgress> {
        self.progress.members.get(&id).copied()
    }

    /// The term or the leader changed.
    pub(crate) fn reset_progress(&mut self) {
        self.progress.since_ms = self.now.monotonic_ms;
        self.progress.compared_state = None;
        self.progress.next_compared_state = None;
        self.progress.votes.clear();
        self.progress.comparison = None;
        self.progress.differing.clear();
        self.progress.members.clear();
        self.progress.unconfirmed = None;
        self.progress.newest_received = 0;
        self.progress.sent_ms = 0;
        self.progress.sent.clear();
    }

    pub(crate) fn tick_progress(&mut self) {
        self.confirm();
        self.answer_all_live_waiters();
        if !self.driver.has_applied_own_term() || self.now.monotonic_ms < self.progress.sent_ms + REPORT_MS {
            return;
        }
        let own = (self.machine.applied.0, self.machine.state_hash());
        // The hash is of an older index, so that members which lag a little have it too.
        self.progress.compared_state = self.progress.next_compared_state.take();
        self.progress.next_compared_state = Some(own);
        self.progress.sequence += 1;
        self.progress.sent_ms = self.now.monotonic_ms;
        self.progress.sent.push_back((self.progress.sequence, self.now.monotonic_ms));
        if self.progress.sent.len() > REPORTS_SENT_MAX {
            self.progress.sent.pop_front();
        }
        self.progress.votes.clear();
        let (hash_index, hash) = match self.begin_comparison() {
            Some(compared) => {
                self.progress.compared_state = None;
                compared
            }
            None => self.progress.compared_state.unwrap_or(own),
        };
        self.progress.votes.insert(self.driver.id(), hash);
        let report = Report {
            term: self.driver.term(),
            sequence: self.progress.sequence,
            commit: self.highest_possible_commit(),
            hash_index,
            hash,
        };
        for id in self.driver.others() {
            self.send(id, &Frame::Report(report));
        }
        self.tick_rotation();
    }

    pub(crate) fn handle_report(&mut self, from: NodeId, report: Report) {
        if report.term != self.driver.term() || self.driver.leader() != Some(from) || self.driver.is_leader() {
            return;
        }
        // A reordered or repeated report proves nothing about the time of its arrival.
        if report.sequence <= self.progress.newest_received {
            return;
        }
        self.progress.newest_received = report.sequence;
        let now = self.now.monotonic_ms;
        self.progress.unconfirmed.get_or_insert((report.commit, now));
        self.confirm();
        let ack = ReportAck {
            term: report.term,
            sequence: report.sequence,
            applied: self.machine.applied.0,
            feature_level: self.config.feature_level,
            hash_index: report.hash_index,
            hash: self.machine.hashes.get(report.hash_index),
        };
        self.send(from, &Frame::ReportAck(ack));
        self.request_lease(from);
    }

    /// Confirms the state once everything is applied that was committed when a report arrived.
    fn confirm(&mut self) {
        if self.driver.has_applied_own_term() {
            if let Some(at_ms) = self.quorum_contact_ms().filter(|at_ms| at_ms + ALIVE_MS >= self.now.monotonic_ms) {
                // It confirms itself, and remembers when it leads no more.
                self.progress.confirmed_ms = self.progress.confirmed_ms.max(Some(at_ms));
                self.note_contact(at_ms);
                self.set_serving(Serving::Yes);
            }
            return;
        }
        if let Some((commit, at_ms)) = self.progress.unconfirmed
            && self.machine.applied.0 >= commit
        {
            self.progress.confirmed_ms = Some(at_ms);
            self.progress.unconfirmed = None;
            self.note_contact(at_ms);
            self.set_serving(Serving::Yes);
        }
    }

    /// At that time nothing newer was committed: the next record of the log says so, for the time after a restart.
    fn note_contact(&mut self, at_ms: u64) {
        let ago_ms = self.now.monotonic_ms.saturating_sub(at_ms);
        self.driver.log_mut().set_contact_wall_ms(self.now.wall_ms.saturating_sub(ago_ms));
    }

    /// When a majority last answered this leader; `None` before the first answers.
    fn quorum_contact_ms(&self) -> Option<u64> {
        self.quorum_ms(|member| member.at_ms)
    }

    /// The latest time at which a majority still followed this leader: all of them answered a report that was sent then
    /// or later. `None` before the first answers.
    pub(crate) fn quorum_followed_ms(&self) -> Option<u64> {
        self.quorum_ms(|member| member.sent_ms)
    }

    /// The latest time that is at or before `of` for a majority.
    fn quorum_ms(&self, of: impl Fn(MemberProgress) -> u64) -> Option<u64> {
        let own = self.driver.id();
        let at = |&id: &NodeId| {
            let contact_ms = if id == own { Some(self.now.monotonic_ms) } else { self.member_progress(id).map(&of) };
            contact_ms.map(|at_ms| (at_ms, id))
        };
        let mut contacts: Vec<_> = self.driver.voters().iter().filter_map(at).collect();
        contacts.sort_unstable_by(|a, b| b.cmp(a));
        let ids: Vec<_> = contacts.iter().map(|&(_, id)| id).collect();
        let count = (1..=ids.len()).find(|&count| self.driver.is_majority(&ids[..count]))?;
        contacts.get(count - 1).map(|&(at_ms, _)| at_ms)
    }

    pub(crate) fn handle_report_ack(&mut self, from: NodeId, ack: ReportAck) {
        if ack.term != self.driver.term() || !self.driver.is_leader() || !self.driver.counts(from) {
            return;
        }
        // On a slow link an answer may belong to an older report. A repeated or reordered answer is ignored.
        let sent = self.progress.sent.iter().find(|&&(sequence, _)| sequence == ack.sequence);
        let is_new = self.member_progress(from).is_none_or(|member| member.sequence < ack.sequence);
        let Some(&(sequence, sent_ms)) = sent.filter(|_| is_new) else { return };
        let ReportAck { applied, feature_level, .. } = ack;
        let member = MemberProgress { at_ms: self.now.monotonic_ms, sequence, sent_ms, applied, feature_level };
        self.progress.members.insert(from, member);
        self.handle_rotation_progress();
        self.answer_all_live_waiters();
        self.compare(from, ack);
        if sequence != self.progress.sequence {
            return;
        }
        let Some((index, own)) = self.progress.compared_state else { return };
        if let (true, Some(hash)) = (ack.hash_index == index, ack.hash) {
            self.progress.votes.insert(from, hash);
            if self.progress.votes.values().any(|&hash| hash != own) {
                let votes = std::mem::take(&mut self.progress.votes);
                self.compare_hashes(index, &votes);
                self.progress.votes = votes;
            } else if !self.fenced {
                // It started again meanwhile.
                self.progress.differing.remove(&from);
            }
        }
    }

    /// Begins a comparison if one is due, at an index that all reachable members have applied. Returns the index and
    /// the hash.
    fn begin_comparison(&mut self) -> Option<(u64, u128)> {
        if !self.progress.sequence.is_multiple_of(REPORTS_PER_COMPARISON) {
            return None;
        }
        let live = self.driver.others().into_iter().filter(|&id| self.is_alive(id));
        let slowest = live.filter_map(|id| self.member_progress(id)).map(|member| member.applied).min()?;
        let (index, own) = self.machine.hashes.last_up_to(slowest.min(self.machine.applied.0))?;
        self.progress.comparison = Some(Comparison { index, own, votes: BTreeMap::from([(self.driver.id(), own)]) });
        Some((index, own))
    }

    /// Counts a member's hash in the open comparison.
    fn compare(&mut self, from: NodeId, ack: ReportAck) {
        let Some(comparison) = self.progress.comparison.as_mut().filter(|open| open.index == ack.hash_index) else {
            return;
        };
        let Some(hash) = ack.hash else { return };
        // A response to an ordinary report about the same index counts once as well.
        if comparison.votes.insert(from, hash) == Some(hash) {
            return;
        }
        if comparison.votes.values().any(|&hash| hash != comparison.own) {
            let (index, votes) = (comparison.index, comparison.votes.clone());
            self.compare_hashes(index, &votes);
        }
    }

    /// Answers requests that wait until all live members have applied an index. Members that do not answer are not
    /// waited for, once every live member has had time to answer.
    fn answer_all_live_waiters(&mut self) {
        if !self.head.has_all_live_waiters() {
            return;
        }
        let now = self.now.monotonic_ms;
        let (own, others, is_settled) = (self.machine.applied.0, self.driver.others(), self.progress.is_settled(now));
        let progress = &self.progress;
        let has_applied = |id: &NodeId, index| match progress.members.get(id) {
            Some(member) if member.at_ms + ALIVE_MS >= now => member.applied >= index,
            _ => is_settled,
        };
        let has_reached_all = |index| own >= index && others.iter().all(|id| has_applied(id, index));
        let origins = self.head.take_all_live_waiters(now, has_reached_all);
        self.reply_all(origins, Answer::Done { index: own });
    }

    /// Somebody differs. What a majority of the voters has is right; without a majority nobody knows.
    fn compare_hashes(&mut self, index: u64, votes: &BTreeMap<NodeId, u128>) {
        self.machine.invariant_violations.hash_mismatches += 1;
        let mut holders: BTreeMap<u128, Vec<NodeId>> = BTreeMap::new();
        for (&id, &hash) in votes {
            holders.entry(hash).or_default().push(id);
        }
        let Some((&right, sound)) = holders.iter().find(|(_, ids)| self.driver.is_majority(ids)) else { return };
        // A member may have had the right state earlier and still be wrong now.
        if self.progress.compared_state.is_some_and(|(newest, _)| newest == index) {
            self.progress.differing.retain(|id| !sound.contains(id));
        }
        let wrong: Vec<_> = votes.iter().filter(|&(_, &hash)| hash != right).map(|(&id, _)| id).collect();
        self.progress.differing.extend(&wrong);
        let own = self.driver.id();
        for id in wrong {
            if id == own {
                self.fence();
            } else {
                self.send(id, &Frame::HashVerdict { index, hash: right });
            }
        }
    }

    pub(crate) fn handle_hash_verdict(&mut self, from: NodeId, index: u64, hash: u128) {
        if self.driver.leader() == Some(from) && self.machine.hashes.get(index).is_some_and(|own| own != hash) {
            self.machine.invariant_violations.hash_mismatches += 1;
            self.fence();
        }
    }

    /// This replica's state is not what a majority has: it stops answering and leading. Its log is sound, so it goes
    /// on storing and voting.
    fn fence(&mut self) {
        if planted!(NotFenced) {
            return;
        }
        self.fenced = true;
        self.set_serving(Serving::No);
        self.distrust_checkpoints();
        self.hand_over_if_fenced();
    }

    /// A hand-over may fail, and then it is tried again: a leader that is fenced takes no updates.
    pub(crate) fn hand_over_if_fenced(&mut self) {
        if self.fenced
            && !self.driver.is_transferring()
            && let Some(to) = self.successor()
        {
            self.driver.transfer_leader(to);
        }
    }

    /// Also when it is about to end because its state is not to be trusted.
    pub(crate) const fn is_fenced(&self) -> bool {
        self.fenced || self.pending_fatal.is_some()
    }

    pub(crate) fn set_serving(&mut self, serving: Serving) {
        // One that is fenced or removed never answers again; one that answered does so whatever becomes of the leader.
        let serving =
            if self.fenced || self.is_removed() && !planted!(RemovedMemberAnswers) { Serving::No } else { serving };
        if self.serving != serving {
            self.serving = serving;
            self.out.push_back(Output::ServingChanged { serving });
        }
    }

    /// A restarted replica that knows no leader answers after a while, marked stale. Everything it had published is in
    /// its log, unless the log is in doubt. If the log holds more than the known committed entries, the replica may
    /// have published part of that too. In both cases it waits longer, because its serials may be older than before.
    pub(crate) fn serve_stale_when_due(&mut self) {
        let knows_all = planted!(StaleDespiteLog) || self.knows_what_it_published();
        let waited = self.running_ms >= self.config.start_stale_after_ms;
        // One that has not applied yet that it is a member knows nothing of how the zones are to be served.
        let is_member = self.machine.settings.is_member(self.driver.id());
        if self.serving == Serving::No && is_member && (waited && knows_all || self.may_serve_behind()) {
            self.set_serving(Serving::Stale);
        }
    }

    /// Whether this replica has applied everything that it may have published before it started.
    fn knows_what_it_published(&self) -> bool {
        self.machine.applied.0 >= self.started_last_index && self.doubt().is_none()
    }

    /// Whether there was no leader for long, and all known committed entries are applied.
    fn may_serve_behind(&self) -> bool {
        self.running_ms - self.led_ms >= self.config.start_behind_after_ms
            && self.machine.applied.0 >= self.driver.log().hard_state().commit
    }

    /// Whether this replica answers although it may have published newer data before it started. Its serials may be
    /// older than before until a leader confirms the rest.
    #[must_use]
    pub fn serves_behind(&self) -> bool {
        self.serving == Serving::Stale && !self.knows_what_it_published()
    }

    /// Milliseconds since a leader last confirmed that nothing newer is committed than what is applied here.
    #[must_use]
    pub fn staleness_ms(&self) -> u64 {
        let now = self.now.monotonic_ms;
        if self.driver.has_applied_own_term() {
            return self.quorum_contact_ms().map_or(0, |at_ms| now.saturating_sub(at_ms));
        }
        match self.progress.confirmed_ms {
            Some(at_ms) => now.saturating_sub(at_ms),
            // The time before the start counts too; a clock that went back does not make it fresh.
            None => {
                let since_start = now.saturating_sub(self.started_ms);
                let contact = self.driver.log().contact_wall_ms();
                since_start.max(self.now.wall_ms.saturating_sub(contact))
            }
        }
    }
}

impl Replica {
    /// The highest feature level that every member knows, as this leader heard of late; zero while one is not heard. An
    /// administrator may raise the cluster's to it.
    pub(crate) fn level_of_members(&self) -> u32 {
        let own = self.driver.id();
        let level_of = |id: NodeId| {
            let of_other = || {
                self.member_progress(id)
                    .filter(|_| self.is_alive(id))
                    .map_or(if planted!(FeatureLevelWithoutSilent) { u32::MAX } else { 0 }, |member| {
                        member.feature_level
                    })
            };
            if id == own { self.config.feature_level } else { of_other() }
        };
        self.machine.settings.members().iter().map(|member| level_of(member.id)).min().unwrap_or(0)
    }
}
