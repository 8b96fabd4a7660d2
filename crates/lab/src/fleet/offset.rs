//! How far the clock of another machine is from ours: it is asked several times, and the quickest answer counts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One question and its answer; nanoseconds since 1970, each by the clock of who says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// When it was asked, by ours.
    pub asked_ns: u64,
    /// What the other one said.
    pub told_ns: u64,
    /// When the answer was there, by ours.
    pub heard_ns: u64,
}

/// What to add to a time of ours to have that of the other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Offset {
    /// It is ahead by so much.
    pub ahead_ns: i64,
    /// Give or take: half of the time that question and answer took.
    pub uncertainty_ns: u64,
}

impl Offset {
    /// From the quickest of several rounds; `None` of none.
    #[must_use]
    pub fn of(rounds: &[Round]) -> Option<Self> {
        let took = |round: &Round| round.heard_ns.saturating_sub(round.asked_ns);
        let best = rounds.iter().min_by_key(|round| took(round))?;
        let half = took(best) / 2;
        let ahead = i128::from(best.told_ns) - i128::from(best.asked_ns) - i128::from(half);
        let ahead_ns = i64::try_from(ahead).ok()?;
        // Of an odd number of nanoseconds half a one more.
        Some(Self { ahead_ns, uncertainty_ns: took(best).div_ceil(2) })
    }

    /// The other's time at a time of ours.
    #[must_use]
    pub fn there(self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.ahead_ns)
    }

    /// Our time at a time of the other.
    #[must_use]
    pub fn here(self, there: SystemTime) -> SystemTime {
        let by = Duration::from_nanos(self.ahead_ns.unsigned_abs());
        if self.ahead_ns >= 0 { there.checked_sub(by) } else { there.checked_add(by) }.unwrap_or(there)
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
    fn the_quickest_round_counts() {
        // The other is 5,000 ahead. On the slow round all of the time passed on the way there.
        let slow = Round { asked_ns: 1_000, told_ns: 16_000, heard_ns: 11_000 };
        let quick = Round { asked_ns: 20_000, told_ns: 25_110, heard_ns: 20_200 };
        let offset = Offset::of(&[slow, quick]).unwrap();
        assert_eq!(offset, Offset { ahead_ns: 5_010, uncertainty_ns: 100 });
        assert_eq!(offset.there(1_000_000), 1_005_010);
        let there = UNIX_EPOCH + Duration::from_nanos(1_005_010);
        assert_eq!(offset.here(there), UNIX_EPOCH + Duration::from_nanos(1_000_000));
        let behind = Offset { ahead_ns: -7, uncertainty_ns: 0 };
        assert_eq!((behind.there(10), behind.here(UNIX_EPOCH)), (3, UNIX_EPOCH + Duration::from_nanos(7)));
        assert_eq!(Offset::of(&[]), None);
    }

    #[test]
    fn the_truth_lies_within_what_is_said() {
        // However the time of a round is shared between there and back.
        for there in 0..=101_u64 {
            let round = Round { asked_ns: 1_000, told_ns: 1_000 + there + 77, heard_ns: 1_101 };
            let offset = Offset::of(&[round]).unwrap();
            assert!(offset.ahead_ns.abs_diff(77) <= offset.uncertainty_ns, "{there}: {offset:?}");
        }
    }
}
