//! Reports of the leader and the members' answers: they confirm the state, or show that it is wrong.

use super::Replica;
use crate::command::Answer;
use crate::context::Context;
use crate::io::{NodeId, Serving};
use crate::peer::{Frame, Report, ReportAck};
use crate::progress::HashVerdict;

impl Replica {
    pub(super) fn tick_progress(&mut self) {
        self.confirm();
        self.answer_all_live_waiters();
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let commit = self.follower_commit.highest_possible_commit(&self.driver);
        if !self.progress.send_report(&context, commit, &mut self.outputs) {
            return;
        }
        let change = self.rotation.tick(&context, &self.progress, &mut self.outputs);
        if change.is_some_and(|change| self.propose_own(change)) {
            self.rotation.note_proposed(self.local.now.monotonic_ms);
        }
    }

    pub(super) fn handle_report(&mut self, from: NodeId, report: Report) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        if !self.progress.take_report(&context, from, &report) {
            return;
        }
        self.confirm();
        let ack = ReportAck {
            term: report.term,
            sequence: report.sequence,
            applied: self.machine.applied.0,
            feature_level: self.local.config.feature_level,
            hash_index: report.hash_index,
            hash: self.machine.hashes.get(report.hash_index),
        };
        self.outputs.send(from, &Frame::ReportAck(ack));
        let context = Context::new(&self.local, &self.driver, &self.machine);
        self.rotation.request_lease(&context, &mut self.outputs, from);
    }

    /// Confirms the state. Then this member may answer.
    fn confirm(&mut self) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let Some(at_ms) = self.progress.confirm(&context) else { return };
        // Nothing newer was committed at that time. The next log record stores it for use after a restart.
        let ago_ms = self.local.now.monotonic_ms.saturating_sub(at_ms);
        self.driver.log_mut().set_contact_wall_ms(self.local.now.wall_ms.saturating_sub(ago_ms));
        self.local.lifecycle.set_serving(Serving::Yes, &mut self.outputs);
    }

    pub(super) fn handle_report_ack(&mut self, from: NodeId, ack: ReportAck) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        if !self.progress.take_ack(&context, from, &ack) {
            return;
        }
        self.rotation.handle_progress(&context, &self.progress, &mut self.outputs);
        self.answer_all_live_waiters();
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let verdict = self.progress.compare_open(&context, from, &ack, &mut self.outputs);
        self.execute_verdict(verdict);
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let verdict = self.progress.compare_newest(&context, from, &ack, &mut self.outputs);
        self.execute_verdict(verdict);
    }

    /// Answers requests that wait until all live members have applied an index.
    fn answer_all_live_waiters(&mut self) {
        if !self.head.has_all_live_waiters() {
            return;
        }
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let others = self.driver.others();
        let has_reached_all = |index| self.progress.has_reached_all(&context, &others, index);
        let origins = self.head.take_all_live_waiters(context.now_ms(), has_reached_all);
        let index = self.machine.applied.0;
        self.reply_all(origins, Answer::Done { index });
    }

    /// Tells the members whose state is wrong, or stops answering if it is this one.
    fn execute_verdict(&mut self, verdict: Option<HashVerdict>) {
        let Some(HashVerdict { index, hash, wrong }) = verdict else { return };
        for id in wrong {
            if id == self.driver.id() {
                self.fence();
            } else {
                self.outputs.send(id, &Frame::HashVerdict { index, hash });
            }
        }
    }

    pub(super) fn handle_hash_verdict(&mut self, from: NodeId, index: u64, hash: u128) {
        if self.driver.leader() == Some(from) && self.machine.hashes.get(index).is_some_and(|own| own != hash) {
            self.outputs.invariant_violations.hash_mismatches += 1;
            self.fence();
        }
    }

    /// This replica's state differs from the majority's, so it stops answering and leading. Its log is sound, so it
    /// continues to store entries and to vote.
    fn fence(&mut self) {
        if planted!(NotFenced) {
            return;
        }
        self.local.lifecycle.is_fenced_by_hash = true;
        self.local.lifecycle.set_serving(Serving::No, &mut self.outputs);
        self.withdraw_checkpoint();
        self.hand_over_if_fenced();
    }

    /// Retries a failed hand-over, because a fenced leader accepts no updates.
    pub(super) fn hand_over_if_fenced(&mut self) {
        if self.local.lifecycle.is_fenced_by_hash
            && !self.driver.is_transferring()
            && let Some(to) = self.successor()
        {
            self.driver.transfer_leader(to);
        }
    }

    /// A restarted replica that knows no leader answers after a while, marked stale. Everything it had published is in
    /// its log, unless the log may lack entries. If the log holds more than the known committed entries, the replica
    /// may have published part of that too. In both cases it waits longer, because its serials may be older than
    /// before.
    pub(super) fn serve_stale_when_due(&mut self) {
        let knows_all = planted!(StaleDespiteLog) || self.knows_what_it_published();
        let waited = self.local.running_ms >= self.local.config.start_stale_after_ms;
        // A replica that has not applied its own membership does not know how to serve the zones.
        let is_member = self.machine.settings.is_member(self.driver.id());
        if self.local.lifecycle.serving() == Serving::No
            && is_member
            && (waited && knows_all || self.may_serve_behind())
        {
            self.local.lifecycle.set_serving(Serving::Stale, &mut self.outputs);
        }
    }

    /// Whether this replica has applied everything that it may have published before it started.
    fn knows_what_it_published(&self) -> bool {
        self.machine.applied.0 >= self.local.started_last_index && self.suspected_loss().is_none()
    }

    /// Whether there was no leader for a long time, and all known committed entries are applied.
    fn may_serve_behind(&self) -> bool {
        self.local.running_ms - self.local.led_ms >= self.local.config.start_behind_after_ms
            && self.machine.applied.0 >= self.driver.log().hard_state().commit
    }

    /// Whether this replica answers although it may have published newer data before it started. Its serials may be
    /// older than before until a leader confirms the rest.
    #[must_use]
    pub fn serves_behind(&self) -> bool {
        self.local.lifecycle.serving() == Serving::Stale && !self.knows_what_it_published()
    }
}
