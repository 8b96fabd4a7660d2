//! The clock offset of another machine, measured by several requests. The fastest one counts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One request and its reply, in nanoseconds since 1970. Each time is that of the sender's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockSample {
    /// When the request was sent, on the local clock.
    pub sent_ns: u64,
    /// The time in the reply, on the remote clock.
    pub remote_ns: u64,
    /// When the reply arrived, on the local clock.
    pub received_ns: u64,
}

/// The offset to add to local times to get remote times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClockOffset {
    /// How far the remote clock is ahead.
    pub ahead_ns: i64,
    /// Half of the round-trip time.
    pub uncertainty_ns: u64,
}

impl ClockOffset {
    /// The offset of the fastest sample. `None` without samples.
    #[must_use]
    pub fn of(samples: &[ClockSample]) -> Option<Self> {
        let round_trip = |sample: &ClockSample| sample.received_ns.saturating_sub(sample.sent_ns);
        let best = samples.iter().min_by_key(|sample| round_trip(sample))?;
        let half = round_trip(best) / 2;
        let ahead = i128::from(best.remote_ns) - i128::from(best.sent_ns) - i128::from(half);
        let ahead_ns = i64::try_from(ahead).ok()?;
        // Rounds up.
        Some(Self { ahead_ns, uncertainty_ns: round_trip(best).div_ceil(2) })
    }

    /// Converts a local time to a remote time.
    #[must_use]
    pub fn to_remote(self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.ahead_ns)
    }

    /// Converts a remote time to a local time.
    #[must_use]
    pub fn to_local(self, remote: SystemTime) -> SystemTime {
        let by = Duration::from_nanos(self.ahead_ns.unsigned_abs());
        if self.ahead_ns >= 0 { remote.checked_sub(by) } else { remote.checked_add(by) }.unwrap_or(remote)
    }
}

/// The local time.
#[must_use]
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_sample_sets_the_offset() {
        // The remote clock is 5,000 ns ahead. In the slow sample, only the request was delayed.
        let slow = ClockSample { sent_ns: 1_000, remote_ns: 16_000, received_ns: 11_000 };
        let quick = ClockSample { sent_ns: 20_000, remote_ns: 25_110, received_ns: 20_200 };
        let offset = ClockOffset::of(&[slow, quick]).unwrap();
        assert_eq!(offset, ClockOffset { ahead_ns: 5_010, uncertainty_ns: 100 });
        assert_eq!(offset.to_remote(1_000_000), 1_005_010);
        let remote = UNIX_EPOCH + Duration::from_nanos(1_005_010);
        assert_eq!(offset.to_local(remote), UNIX_EPOCH + Duration::from_nanos(1_000_000));
        let behind = ClockOffset { ahead_ns: -7, uncertainty_ns: 0 };
        assert_eq!((behind.to_remote(10), behind.to_local(UNIX_EPOCH)), (3, UNIX_EPOCH + Duration::from_nanos(7)));
        assert_eq!(ClockOffset::of(&[]), None);
    }

    #[test]
    fn the_true_offset_is_within_the_uncertainty() {
        // Any division of the round-trip time between request and reply.
        for request_ns in 0..=101_u64 {
            let sample = ClockSample { sent_ns: 1_000, remote_ns: 1_000 + request_ns + 77, received_ns: 1_101 };
            let offset = ClockOffset::of(&[sample]).unwrap();
            assert!(offset.ahead_ns.abs_diff(77) <= offset.uncertainty_ns, "{request_ns}: {offset:?}");
        }
    }
}
