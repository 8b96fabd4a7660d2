//! What happens with time.

use super::Replica;
use crate::limits::{CONTACT_NOTE_MS, RUNNING_STEP_MS_MAX};

/// Ticks between two looks at those who wait.
const WAITERS_TICKS: u64 = 5;
/// Ticks between two looks at the membership and at what is stale.
const SLOW_TICKS: u64 = 10;
/// Ticks without a record after which the commit index and the last leader contact are written by themselves, so that a
/// restarted replica knows how much of its log was committed, and how stale it is.
const QUIET_TICKS: u64 = 10;

impl Replica {
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
        self.head.tick();
        self.explanations_left = 1;
        self.running_ms += self.now.monotonic_ms.saturating_sub(self.ticked_ms).min(RUNNING_STEP_MS_MAX);
        self.ticked_ms = self.now.monotonic_ms;
        self.correct_clock();
        self.check_disk();
        // Memory that readers released is freed even if nothing changes.
        self.machine.reclaim();
        if !self.driver.log().is_durable() {
            if self.is_log_full() {
                self.tick_without_log();
            }
            return;
        }
        self.note_leaderless();
        self.tick_doubts();
        // A fenced member does not campaign, and must not block other candidates either. A member with a full log could
        // not store its own vote.
        if (self.fenced || self.is_doubted() || self.is_log_full()) && !self.driver.is_leader() {
            self.driver.tick_without_campaign();
        } else {
            self.driver.tick();
        }
        self.note_role();
        self.campaign_when_due();
        self.tick_full();
        self.tick_progress();
        self.tick_reads();
        self.tick_stop();
        self.tick_background();
        if self.ticks.is_multiple_of(WAITERS_TICKS) {
            self.tick_waiters();
            self.tick_pending_outcomes();
            self.tick_admin();
        }
        if self.ticks.is_multiple_of(SLOW_TICKS) {
            self.hand_over_if_fenced();
            self.reconcile_membership();
            self.tick_transfers();
            self.serve_stale_when_due();
            self.abandon_idle_stages();
            self.tick_memory();
            self.tick_clock();
        }
        self.quiet_ticks += 1;
        let log = self.driver.log();
        let commit_is_due = self.quiet_ticks >= QUIET_TICKS && log.hard_state().commit > self.recorded_commit;
        let contact_is_due = log.contact_wall_ms().abs_diff(self.recorded_contact_ms) >= CONTACT_NOTE_MS;
        // While the log is short of room, the time of the last contact does not justify a record.
        if commit_is_due || contact_is_due && !self.is_short_of_room() {
            self.driver.log_mut().touch();
        }
    }
}
