//! Limits the time of a transfer, and the memory that it keeps from being freed.
//!
//! A transfer pins one version of all zones. Memory is freed in order, so until the transfer ends, no old data of any
//! zone is freed. A slow client would make a busy node grow without limit. So the client must keep a minimum rate, and
//! the pinned memory is limited.

use super::slots::Slots;
use crate::metrics::Counter;
use crate::published::zone_memory::ZoneMemory;
use config::transfer::Transfer;
use metrics_text::{Kind, Page};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why the server ended a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AbortReason {
    /// The client reads too slowly.
    Slow,
    /// It pinned too much memory of old versions.
    Memory,
    /// It was the slowest, and another key, or another client of its key, had fewer transfers.
    Evicted,
}

impl AbortReason {
    pub(crate) const ALL: [Self; 3] = [Self::Slow, Self::Memory, Self::Evicted];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Memory => "memory",
            Self::Evicted => "evicted",
        }
    }
}

/// All transfers of a node.
#[derive(Default, Debug)]
pub(crate) struct Transfers {
    pub(super) slots: Slots,
    aborted: [Counter; AbortReason::ALL.len()],
    limits: Transfer,
    memory: Arc<ZoneMemory>,
}

impl Transfers {
    pub(crate) fn new(limits: Transfer, memory: Arc<ZoneMemory>) -> Self {
        Self { slots: Slots::default(), aborted: Default::default(), limits, memory }
    }

    pub(super) fn record_abort(&self, why: AbortReason) {
        self.aborted[why as usize].one_shared();
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.single("catamaran_transfers_running", Kind::Gauge, "Transfers in progress.", self.slots.count() as u64);
        let help = "Transfers that the server ended, by reason.";
        let mut family = page.family("catamaran_transfers_aborted_total", Kind::Counter, help);
        for why in AbortReason::ALL {
            family.series(&[("reason", why.label())], self.aborted[why as usize].get());
        }
    }
}

/// The limits of one transfer.
pub(super) struct TransferBudget {
    transfers: Arc<Transfers>,
    started_at: Instant,
    /// Bytes retired before it pinned a version.
    retired_before: u64,
}

impl TransferBudget {
    /// The budget of a transfer that starts now. Call it before the transfer pins a version.
    pub(super) fn new(transfers: Arc<Transfers>, now: Instant) -> Self {
        let retired_before = transfers.memory.retired_bytes();
        Self { transfers, started_at: now, retired_before }
    }

    /// Whether the transfer may continue after this many bytes.
    pub(super) fn check(&self, bytes: u64, now: Instant) -> Result<(), AbortReason> {
        let Transfer { bytes_per_second_min, grace_ms, held_bytes_max } = self.transfers.limits;
        // The count may be lower than before: a checkpoint of the leader replaces all zones and restarts it.
        if self.transfers.memory.retired_bytes().saturating_sub(self.retired_before) > held_bytes_max {
            return Err(AbortReason::Memory);
        }
        let earned = bytes as f64 / bytes_per_second_min as f64;
        let earned = Duration::try_from_secs_f64(earned).unwrap_or(Duration::MAX);
        let allowed = Duration::from_millis(grace_ms).saturating_add(earned);
        if now.saturating_duration_since(self.started_at) > allowed { Err(AbortReason::Slow) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_limited_in_time_and_memory() {
        let limits = Transfer { bytes_per_second_min: 1_000, grace_ms: 5_000, held_bytes_max: 100 };
        let memory = Arc::<ZoneMemory>::default();
        memory.retire_more(1_000_000);
        let transfers = Arc::new(Transfers::new(limits, memory.clone()));
        let start = Instant::now();
        let budget = TransferBudget::new(transfers.clone(), start);
        let after = |seconds: f64| start + Duration::from_secs_f64(seconds);
        assert_eq!(budget.check(0, after(5.0)), Ok(()));
        assert_eq!(budget.check(0, after(5.1)), Err(AbortReason::Slow));
        assert_eq!(budget.check(3_000, after(8.0)), Ok(()));
        assert_eq!(budget.check(3_000, after(8.1)), Err(AbortReason::Slow));
        assert_eq!(budget.check(u64::MAX, after(1e6)), Ok(()), "no overflow");
        memory.retire_more(100);
        assert_eq!(budget.check(0, start), Ok(()));
        memory.retire_more(1);
        assert_eq!(budget.check(0, start), Err(AbortReason::Memory));
        // A later transfer is only charged for memory retired after its start.
        assert_eq!(TransferBudget::new(transfers, start).check(0, start), Ok(()));
    }
}
