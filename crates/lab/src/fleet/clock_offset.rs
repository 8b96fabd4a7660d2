//! How far the clock of another machine is from ours: it is asked several times, and the quickest answer counts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One question and its answer; nanoseconds since 1970, each by the clock of who says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockSample {
    /// When it was asked, by ours.
    pub sent_ns: u64,
    /// What the other one said.
    pub remote_ns: u64,
    /// When the answer was there, by ours.
    pub received_ns: u64,
}

/// What to add to a time of ours to have that of the other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClockOffset {
    /// It is ahead by so much.
    pub ahead_ns: i64,
    /// Give or take: half of the time that question and answer took.
    pub uncertainty_ns: u64,
}

impl ClockOffset {
    /// From the quickest of several rounds; `None` of none.
    #[must_use]
    pub fn of(samples: &[ClockSample]) -> Option<Self> {
        let took = |sample: &ClockSample| sample.received_ns.saturating_sub(sample.sent_ns);
        let best = samples.iter().min_by_key(|sample| took(sample))?;
        let half = took(best) / 2;
        let ahead = i128::from(best.remote_ns) - i128::from(best.sent_ns) - i128::from(half);
        let ahead_ns = i64::try_from(ahead).ok()?;
        // Of an odd number of nanoseconds half a one more.
        Some(Self { ahead_ns, uncertainty_ns: took(best).div_ceil(2) })
    }

    /// The other's time at a time of ours.
    #[must_use]
    pub fn to_remote(self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.ahead_ns)
    }

    /// Our time at a time of the other.
    #[must_use]
    pub fn to_local(self, to_remote: SystemTime) -> SystemTime {
        let by = Duration::from_nanos(self.ahead_ns.unsigned_abs());
        if self.ahead_ns >= 0 { to_remote.checked_sub(by) } else { to_remote.checked_add(by) }.unwrap_or(to_remote)
    }
}

/// This machine's time.
#[must_use]
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_sample_sets_the_offset() {
        // The other is 5,000 ahead. On the slow round all of the time passed on the way there.
        let slow = ClockSample { sent_ns: 1_000, remote_ns: 16_000, received_ns: 11_000 };
        let quick = ClockSample { sent_ns: 20_000, remote_ns: 25_110, received_ns: 20_200 };
        let offset = ClockOffset::of(&[slow, quick]).unwrap();
        assert_eq!(offset, ClockOffset { ahead_ns: 5_010, uncertainty_ns: 100 });
        assert_eq!(offset.to_remote(1_000_000), 1_005_010);
        let to_remote = UNIX_EPOCH + Duration::from_nanos(1_005_010);
        assert_eq!(offset.to_local(to_remote), UNIX_EPOCH + Duration::from_nanos(1_000_000));
        let behind = ClockOffset { ahead_ns: -7, uncertainty_ns: 0 };
        assert_eq!((behind.to_remote(10), behind.to_local(UNIX_EPOCH)), (3, UNIX_EPOCH + Duration::from_nanos(7)));
        assert_eq!(ClockOffset::of(&[]), None);
    }

    #[test]
    fn the_true_offset_is_within_the_uncertainty() {
        // However the time of a round is shared between there and back.
        for to_remote in 0..=101_u64 {
            let sample = ClockSample { sent_ns: 1_000, remote_ns: 1_000 + to_remote + 77, received_ns: 1_101 };
            let offset = ClockOffset::of(&[sample]).unwrap();
            assert!(offset.ahead_ns.abs_diff(77) <= offset.uncertainty_ns, "{to_remote}: {offset:?}");
        }
    }
}
