//! Periodic work.

use super::Replica;
use crate::context::Context;
use crate::entry::SettingsChange;
use crate::limits::RUNNING_STEP_MS_MAX;

/// Ticks between checks of waiting requests.
const WAITERS_TICKS: u64 = 5;
/// Ticks between checks of the membership and of staleness.
const SLOW_TICKS: u64 = 10;

impl Replica {
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
        self.head.tick();
        self.requests.explanations_left = 1;
        self.local.running_ms += self.local.now.monotonic_ms.saturating_sub(self.ticked_ms).min(RUNNING_STEP_MS_MAX);
        self.ticked_ms = self.local.now.monotonic_ms;
        self.clocks.correct(self.local.now);
        self.check_disk();
        // Memory that readers released is freed even if nothing changes.
        self.machine.reclaim();
        if !self.driver.log().is_durable() {
            if self.full.is_log_full() {
                // It answers queries from the log that it has read. All those entries are committed, so a majority has
                // them on disk.
                self.serve_stale_when_due();
                self.tick_stop();
            }
            return;
        }
        self.note_leaderless();
        let context = Context::new(&self.local, &self.driver, &self.machine);
        if let Some(term) = self.log_loss.tick(&context, &self.progress, &mut self.outputs) {
            self.driver.enter_term(term);
        }
        // A fenced member does not campaign, and must not block other candidates either. A member with a full log could
        // not store its own vote.
        if (self.local.lifecycle.is_fenced_by_hash || self.log_loss.is_suspected() || self.full.is_log_full())
            && !self.driver.is_leader()
        {
            self.driver.tick_without_campaign();
        } else {
            self.driver.tick();
        }
        self.note_role();
        self.campaign_when_due();
        self.hand_over_if_short();
        self.tick_progress();
        self.tick_reads();
        self.tick_stop();
        self.background.tick(self.local.running_ms);
        if self.ticks.is_multiple_of(WAITERS_TICKS) {
            let (requests, mut shared) = self.requests();
            requests.tick_waiters(&mut shared);
            self.rotation.tick_pending(self.local.now.monotonic_ms, &mut self.outputs);
            let (requests, mut shared) = self.requests();
            requests.tick_admin(&mut shared);
        }
        if self.ticks.is_multiple_of(SLOW_TICKS) {
            self.tick_slowly();
        }
        let is_short_of_room = self.full.is_short_of_room(&self.driver);
        if self.log_jobs.tick(self.driver.log(), is_short_of_room) {
            self.driver.log_mut().touch();
        }
    }

    /// Work that is not due at each tick.
    fn tick_slowly(&mut self) {
        self.hand_over_if_fenced();
        self.reconcile_membership();
        for id in self.transfers.silent(self.local.now.monotonic_ms) {
            self.transfer_ended(id, false);
        }
        let context = Context::new(&self.local, &self.driver, &self.machine);
        self.transfers.tick(&context, &mut self.outputs);
        self.serve_stale_when_due();
        let (requests, mut shared) = self.requests();
        requests.abandon_idle_stages(&mut shared);
        let context = Context::new(&self.local, &self.driver, &self.machine);
        self.memory.tick(&context, &mut self.outputs);
        if self.clocks.tick(&context, &mut self.outputs) {
            // The real difference is computed when the command is evaluated. The next tick checks the entry times
            // again.
            self.propose_own(SettingsChange::ClockBack { by_ms: 0 });
        }
    }

    /// Reports to the leader whether there is room on the disk, or hands over if this member leads and is short of it.
    fn hand_over_if_short(&mut self) {
        let context = Context::new(&self.local, &self.driver, &self.machine);
        if let Some(to) = self.full.tick(&context, &self.progress, &mut self.outputs) {
            self.outputs.counters.disk_full_transfers += 1;
            self.driver.transfer_leader(to);
        }
    }
}
