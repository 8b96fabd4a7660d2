//! Progress of the members. Every few ticks the leader sends a report: the commit index, and the state hash at an
//! index. Each member responds with its applied index and its own hash.
//!
//! So members know how stale they are, a restarted member knows when it may answer, and a member whose state differs
//! from the majority's stops answering.

use crate::context::{Context, Outputs};
use crate::io::NodeId;
use crate::limits::{REPORT_MS, REPORTS_PER_COMPARISON, REPORTS_SENT_MAX};
use crate::peer::{Frame, Report, ReportAck};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// State of the reports, on the leader and on a follower.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    sequence: u64,
    sent_ms: u64,
    /// The last reports of this term, with their send times.
    sent: VecDeque<(u64, u64)>,
    /// Index and hash that the current report compares, and those of the next one.
    compared_state: Option<(u64, u128)>,
    next_compared_state: Option<(u64, u128)>,
    /// The newest report received in this term.
    newest_received: u64,
    /// When this term began on this replica.
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

/// The right state hash at an index, and the members that have another one.
pub(crate) struct HashVerdict {
    pub(crate) index: u64,
    pub(crate) hash: u128,
    pub(crate) wrong: Vec<NodeId>,
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

    /// A member's last response.
    pub(crate) fn member(&self, id: NodeId) -> Option<MemberProgress> {
        self.members.get(&id).copied()
    }

    /// The term or the leader changed.
    pub(crate) fn reset(&mut self, now_ms: u64) {
        self.since_ms = now_ms;
        self.compared_state = None;
        self.next_compared_state = None;
        self.votes.clear();
        self.comparison = None;
        self.differing.clear();
        self.members.clear();
        self.unconfirmed = None;
        self.newest_received = 0;
        self.sent_ms = 0;
        self.sent.clear();
    }

    /// Sends the next report to the other members, if this member leads and one is due. `commit` is the highest index
    /// that any member may have committed. Returns whether it was due.
    pub(crate) fn send_report(&mut self, context: &Context<'_>, commit: u64, outputs: &mut Outputs) -> bool {
        let now_ms = context.now_ms();
        if !context.driver.has_applied_own_term() || now_ms < self.sent_ms + REPORT_MS {
            return false;
        }
        let own = (context.applied(), context.machine.state_hash());
        // The hash is of an earlier index, so that members that lag a little have it too.
        self.compared_state = self.next_compared_state.take();
        self.next_compared_state = Some(own);
        self.sequence += 1;
        self.sent_ms = now_ms;
        self.sent.push_back((self.sequence, now_ms));
        if self.sent.len() > REPORTS_SENT_MAX {
            self.sent.pop_front();
        }
        self.votes.clear();
        let (hash_index, hash) = match self.begin_comparison(context) {
            Some(compared) => {
                self.compared_state = None;
                compared
            }
            None => self.compared_state.unwrap_or(own),
        };
        self.votes.insert(context.own(), hash);
        let report = Report { term: context.driver.term(), sequence: self.sequence, commit, hash_index, hash };
        for id in context.driver.others() {
            outputs.send(id, &Frame::Report(report));
        }
        true
    }

    /// Takes a report; `false` if it does not count.
    pub(crate) fn take_report(&mut self, context: &Context<'_>, from: NodeId, report: &Report) -> bool {
        let driver = context.driver;
        if report.term != driver.term() || driver.leader() != Some(from) || driver.is_leader() {
            return false;
        }
        // A reordered or repeated report proves nothing about the time of its arrival.
        if report.sequence <= self.newest_received {
            return false;
        }
        self.newest_received = report.sequence;
        self.unconfirmed.get_or_insert((report.commit, context.now_ms()));
        true
    }

    /// Confirms the state once everything is applied that was committed when the report arrived. Returns the time at
    /// which nothing newer was committed.
    pub(crate) fn confirm(&mut self, context: &Context<'_>) -> Option<u64> {
        if context.driver.has_applied_own_term() {
            let at_ms = self.quorum_contact_ms(context).filter(|at_ms| at_ms + ALIVE_MS >= context.now_ms())?;
            // A leader confirms itself, and keeps the time after it loses leadership.
            self.confirmed_ms = self.confirmed_ms.max(Some(at_ms));
            return Some(at_ms);
        }
        let (_, at_ms) = self.unconfirmed.filter(|&(commit, _)| context.applied() >= commit)?;
        self.confirmed_ms = Some(at_ms);
        self.unconfirmed = None;
        Some(at_ms)
    }

    /// When a majority last answered this leader; `None` before the first answers.
    fn quorum_contact_ms(&self, context: &Context<'_>) -> Option<u64> {
        self.quorum_ms(context, |member| member.at_ms)
    }

    /// The latest time at which a majority still followed this leader. Every member of it has answered a report sent
    /// then or later. `None` before the first answers.
    pub(crate) fn quorum_followed_ms(&self, context: &Context<'_>) -> Option<u64> {
        self.quorum_ms(context, |member| member.sent_ms)
    }

    /// The latest time that a majority has reached, by `of`.
    fn quorum_ms(&self, context: &Context<'_>, of: impl Fn(MemberProgress) -> u64) -> Option<u64> {
        let own = context.own();
        let at = |&id: &NodeId| {
            let contact_ms = if id == own { Some(context.now_ms()) } else { self.member(id).map(&of) };
            contact_ms.map(|at_ms| (at_ms, id))
        };
        let mut contacts: Vec<_> = context.driver.voters().iter().filter_map(at).collect();
        contacts.sort_unstable_by(|a, b| b.cmp(a));
        let ids: Vec<_> = contacts.iter().map(|&(_, id)| id).collect();
        let count = (1..=ids.len()).find(|&count| context.driver.is_majority(&ids[..count]))?;
        contacts.get(count - 1).map(|&(at_ms, _)| at_ms)
    }

    /// Notes a member's answer; `false` if it does not count.
    pub(crate) fn take_ack(&mut self, context: &Context<'_>, from: NodeId, ack: &ReportAck) -> bool {
        let driver = context.driver;
        if ack.term != driver.term() || !driver.is_leader() || !driver.counts(from) {
            return false;
        }
        // On a slow link an answer may belong to an older report. A repeated or reordered answer is ignored.
        let sent = self.sent.iter().find(|&&(sequence, _)| sequence == ack.sequence);
        let is_new = self.member(from).is_none_or(|member| member.sequence < ack.sequence);
        let Some(&(sequence, sent_ms)) = sent.filter(|_| is_new) else { return false };
        let ReportAck { applied, feature_level, .. } = *ack;
        let member = MemberProgress { at_ms: context.now_ms(), sequence, sent_ms, applied, feature_level };
        self.members.insert(from, member);
        true
    }

    /// Begins a comparison if one is due, at an index that all reachable members have applied. Returns the index and
    /// the hash.
    fn begin_comparison(&mut self, context: &Context<'_>) -> Option<(u64, u128)> {
        if !self.sequence.is_multiple_of(REPORTS_PER_COMPARISON) {
            return None;
        }
        let live = context.driver.others().into_iter().filter(|&id| self.is_alive(id, context.now_ms()));
        let slowest = live.filter_map(|id| self.member(id)).map(|member| member.applied).min()?;
        let (index, own) = context.machine.hashes.last_up_to(slowest.min(context.applied()))?;
        self.comparison = Some(Comparison { index, own, votes: BTreeMap::from([(context.own(), own)]) });
        Some((index, own))
    }

    /// Counts a member's hash in the open comparison. Returns the verdict if hashes differ.
    pub(crate) fn compare_open(
        &mut self,
        context: &Context<'_>,
        from: NodeId,
        ack: &ReportAck,
        outputs: &mut Outputs,
    ) -> Option<HashVerdict> {
        let comparison = self.comparison.as_mut().filter(|open| open.index == ack.hash_index)?;
        let hash = ack.hash?;
        // A response to an ordinary report about the same index counts once as well.
        if comparison.votes.insert(from, hash) == Some(hash) {
            return None;
        }
        if comparison.votes.values().all(|&hash| hash == comparison.own) {
            return None;
        }
        let (index, votes) = (comparison.index, comparison.votes.clone());
        self.judge(context, index, &votes, outputs)
    }

    /// Compares the hash in the answer to the newest report. Returns the verdict if hashes differ.
    pub(crate) fn compare_newest(
        &mut self,
        context: &Context<'_>,
        from: NodeId,
        ack: &ReportAck,
        outputs: &mut Outputs,
    ) -> Option<HashVerdict> {
        if ack.sequence != self.sequence {
            return None;
        }
        let (index, own) = self.compared_state?;
        let hash = ack.hash.filter(|_| ack.hash_index == index)?;
        self.votes.insert(from, hash);
        if self.votes.values().any(|&hash| hash != own) {
            let votes = core::mem::take(&mut self.votes);
            let verdict = self.judge(context, index, &votes, outputs);
            self.votes = votes;
            return verdict;
        }
        if !context.local.lifecycle.is_fenced_by_hash {
            // The member restarted meanwhile.
            self.differing.remove(&from);
        }
        None
    }

    /// Some hashes differ. The hash of a majority of the voters is right; without a majority the right one is
    /// unknown.
    fn judge(
        &mut self,
        context: &Context<'_>,
        index: u64,
        votes: &BTreeMap<NodeId, u128>,
        outputs: &mut Outputs,
    ) -> Option<HashVerdict> {
        outputs.invariant_violations.hash_mismatches += 1;
        let mut holders: BTreeMap<u128, Vec<NodeId>> = BTreeMap::new();
        for (&id, &hash) in votes {
            holders.entry(hash).or_default().push(id);
        }
        let (&right, sound) = holders.iter().find(|(_, ids)| context.driver.is_majority(ids))?;
        // A member may have had the right state earlier and still be wrong now.
        if self.compared_state.is_some_and(|(newest, _)| newest == index) {
            self.differing.retain(|id| !sound.contains(id));
        }
        let wrong: Vec<_> = votes.iter().filter(|&(_, &hash)| hash != right).map(|(&id, _)| id).collect();
        self.differing.extend(&wrong);
        Some(HashVerdict { index, hash: right, wrong })
    }

    /// Whether a request that waits for all live members is over, given the index that this leader has applied.
    /// Members that do not answer are not waited for, once every live member has had time to answer.
    pub(crate) fn has_reached_all(&self, context: &Context<'_>, others: &[NodeId], index: u64) -> bool {
        let now_ms = context.now_ms();
        let has_applied = |id: &NodeId| match self.members.get(id) {
            Some(member) if member.at_ms + ALIVE_MS >= now_ms => member.applied >= index,
            _ => self.is_settled(now_ms),
        };
        context.applied() >= index && others.iter().all(has_applied)
    }

    /// Milliseconds since a leader last confirmed that nothing newer is committed than what is applied here.
    pub(crate) fn staleness_ms(&self, context: &Context<'_>) -> u64 {
        let now_ms = context.now_ms();
        if context.driver.has_applied_own_term() {
            return self.quorum_contact_ms(context).map_or(0, |at_ms| now_ms.saturating_sub(at_ms));
        }
        match self.confirmed_ms {
            Some(at_ms) => now_ms.saturating_sub(at_ms),
            // The time before the start counts too. A wall clock that went back does not make the state fresh.
            None => {
                let since_start = now_ms.saturating_sub(context.local.started_ms);
                let contact = context.driver.log().contact_wall_ms();
                since_start.max(context.local.now.wall_ms.saturating_sub(contact))
            }
        }
    }

    /// The highest feature level that every member supports, by their last answers to this leader; zero if one is not
    /// heard. An administrator may raise the cluster to it.
    pub(crate) fn level_of_members(&self, context: &Context<'_>) -> u32 {
        let level_of = |id: NodeId| {
            let of_other = || {
                self.member(id)
                    .filter(|_| self.is_alive(id, context.now_ms()))
                    .map_or(if planted!(FeatureLevelWithoutSilent) { u32::MAX } else { 0 }, |member| {
                        member.feature_level
                    })
            };
            if id == context.own() { context.local.config.feature_level } else { of_other() }
        };
        context.settings().members().iter().map(|member| level_of(member.id)).min().unwrap_or(0)
    }
}
