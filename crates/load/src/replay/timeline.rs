//! The times of a trace, corrected for a replay: they start at zero and never decrease.

use crate::limits::{TRACE_BACK_MAX, TRACE_GAP_MAX};

/// The times of a trace, corrected for a replay.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    last_ns: Option<u64>,
    /// An implausible time: an error, or the first after a clock was set. The next message decides.
    away_ns: Option<u64>,
    elapsed_ns: u64,
    /// Messages that were earlier than a previous one. They get its time.
    pub(super) backwards: u64,
    /// Implausible times. They do not advance the time.
    pub(super) jumps: u64,
}

/// The step between two times.
enum TimeStep {
    /// Later by this time.
    On(u64),
    /// Slightly earlier, as in a capture of several queues.
    Back,
    /// An implausible step.
    Jump,
}

impl TimeStep {
    fn between(last_ns: u64, at_ns: u64) -> Self {
        let (on, back) = (at_ns.saturating_sub(last_ns), last_ns.saturating_sub(at_ns));
        if u128::from(on) > TRACE_GAP_MAX.as_nanos() || u128::from(back) > TRACE_BACK_MAX.as_nanos() {
            Self::Jump
        } else if back > 0 {
            Self::Back
        } else {
            Self::On(on)
        }
    }
}

impl Timeline {
    /// The corrected time of a message recorded at `at_ns`, in nanoseconds since the first message.
    pub(super) fn advance(&mut self, at_ns: u64) -> u64 {
        let last_ns = *self.last_ns.get_or_insert(at_ns);
        match (TimeStep::between(last_ns, at_ns), self.away_ns) {
            (TimeStep::On(step), _) => self.go_on(at_ns, step),
            (TimeStep::Back, _) => self.backwards += 1,
            (TimeStep::Jump, None) => self.jump(at_ns),
            (TimeStep::Jump, Some(away_ns)) => match TimeStep::between(away_ns, at_ns) {
                // The clock was set.
                TimeStep::On(step) => self.go_on(at_ns, step),
                TimeStep::Back => self.backwards += 1,
                TimeStep::Jump => self.jump(at_ns),
            },
        }
        self.elapsed_ns
    }

    fn go_on(&mut self, at_ns: u64, step: u64) {
        self.elapsed_ns = self.elapsed_ns.saturating_add(step);
        (self.last_ns, self.away_ns) = (Some(at_ns), None);
    }

    fn jump(&mut self, at_ns: u64) {
        self.jumps += 1;
        self.away_ns = Some(at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn times(recorded: &[u64]) -> (Vec<u64>, u64, u64) {
        let mut timeline = Timeline::default();
        let elapsed = recorded.iter().map(|&at| timeline.advance(at)).collect();
        (elapsed, timeline.backwards, timeline.jumps)
    }

    #[test]
    fn the_timeline_starts_at_zero_and_is_monotonic() {
        let start = 1_700_000_000 * SECOND;
        let recorded = [start, start + 30, start + 10, start + 20, start + 40];
        assert_eq!(times(&recorded), (vec![0, 30, 30, 30, 40], 2, 0));
    }

    #[test]
    fn one_outlier_timestamp_is_ignored() {
        let start = 1_700_000_000 * SECOND;
        for absurd in [0, 1, start - 3_600 * SECOND, start + 90_000 * SECOND, u64::MAX] {
            let recorded = [start, start + SECOND, absurd, start + 2 * SECOND, start + 3 * SECOND];
            assert_eq!(times(&recorded), (vec![0, SECOND, SECOND, 2 * SECOND, 3 * SECOND], 0, 1), "{absurd}");
        }
    }

    #[test]
    fn a_clock_step_does_not_stall_the_timeline() {
        let recorded = [500 * SECOND, 501 * SECOND, 9 * SECOND, 10 * SECOND];
        assert_eq!(times(&recorded), (vec![0, SECOND, SECOND, 2 * SECOND], 0, 1));
    }
}
