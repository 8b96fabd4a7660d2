//! The cluster's time, for threads other than the replica's. Certificates are issued by it.

use crate::tls::names::node_number;
use replica::Replica;
use replica::limits::CLOCK_DIFFERENCE_MS_MAX;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval between checks for wrong clocks.
const CLOCK_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval between warnings about wrong clocks.
const CLOCK_WARN_EVERY: Duration = Duration::from_secs(60);

/// How far this machine's clock is ahead of the cluster's time, as last set by the replica's thread.
#[derive(Default, Debug)]
pub(crate) struct ClusterClock {
    ahead_ms: AtomicI64,
}

impl ClusterClock {
    /// Seconds since 1970: this machine's clock, or the median of all nodes' clocks if they differ too much.
    pub(crate) fn now_s(&self) -> u64 {
        let wall_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let wall_ms = u64::try_from(wall_ms).unwrap_or(u64::MAX);
        wall_ms.saturating_add_signed(self.ahead_ms.load(Relaxed).saturating_neg()) / 1_000
    }
}

/// Updates the cluster's time, and warns about wrong clocks.
#[derive(Default)]
pub(crate) struct ClockWatch {
    looked_at: Option<Instant>,
    warned_at: Option<Instant>,
}

impl ClockWatch {
    /// Runs at each tick of the replica.
    pub(crate) fn tick(&mut self, replica: &Replica, clock: &ClusterClock) {
        let cluster_ms = replica.cluster_wall_ms();
        clock.ahead_ms.store(replica.own_wall_ms().cast_signed().saturating_sub(cluster_ms.cast_signed()), Relaxed);
        let is_recent = |at: Option<Instant>, within| at.is_some_and(|at| at.elapsed() < within);
        if is_recent(self.looked_at, CLOCK_LOOK_EVERY) || is_recent(self.warned_at, CLOCK_WARN_EVERY) {
            return;
        }
        self.looked_at = Some(Instant::now());
        for (id, ahead_ms) in replica.wrong_clocks() {
            self.warned_at = Some(Instant::now());
            tracing::warn!(
                node = node_number(id),
                ahead_s = ahead_ms / 1_000,
                allowed_s = CLOCK_DIFFERENCE_MS_MAX / 1_000,
                "the clock of a node is wrong: set it, and run chrony or systemd-timesyncd on that machine"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_of_the_cluster_issues_nothing_from_the_future() {
        let wall_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let ten_years_s = 10 * 365 * 86_400;
        let clock = ClusterClock { ahead_ms: AtomicI64::new(ten_years_s as i64 * 1_000) };
        assert!((wall_s - ten_years_s).abs_diff(clock.now_s()) < 60);
        assert!(wall_s.abs_diff(ClusterClock::default().now_s()) < 60);
    }
}
