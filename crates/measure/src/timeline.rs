//! The seconds of a worker that may still change, in a moving window.

use super::{ConnectionSecond, Second};
use std::collections::VecDeque;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// One second of one transport.
#[derive(Clone, Debug, Default)]
pub struct TransportSecond {
    /// Its queries.
    pub queries: Second,
    /// Its connections.
    pub connections: ConnectionSecond,
}

/// A window that starts with the oldest second that may still change.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Index of the first second of the window.
    first: u64,
    window: VecDeque<Box<TransportSecond>>,
}

impl Timeline {
    /// The second of `at_ns`, in nanoseconds from the start of the run. Events of a second that has left the window
    /// count in the oldest one.
    pub fn at(&mut self, at_ns: u64) -> &mut TransportSecond {
        let index = (at_ns / SECOND_NS).saturating_sub(self.first) as usize;
        while self.window.len() <= index {
            self.window.push_back(Box::default());
        }
        &mut self.window[index]
    }

    /// Removes the next second that ended before `before_ns`, with its index.
    pub fn retire(&mut self, before_ns: u64) -> Option<(u64, Box<TransportSecond>)> {
        if (self.first + 1) * SECOND_NS > before_ns {
            return None;
        }
        let index = self.first;
        self.first += 1;
        Some((index, self.window.pop_front().unwrap_or_default()))
    }

    /// Whether the window is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// The remaining seconds at the end of the run.
    pub fn finish(self) -> impl Iterator<Item = (u64, Box<TransportSecond>)> {
        self.window.into_iter().enumerate().map(move |(offset, second)| (self.first + offset as u64, second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_retire_in_order() {
        let mut timeline = Timeline::default();
        timeline.at(2_500_000_000).queries.sent += 1;
        timeline.at(0).queries.sent += 2;
        assert!(timeline.retire(999_999_999).is_none());
        assert_eq!(timeline.retire(2_000_000_000).map(|(index, second)| (index, second.queries.sent)), Some((0, 2)));
        assert_eq!(timeline.retire(2_000_000_000).map(|(index, second)| (index, second.queries.sent)), Some((1, 0)));
        assert!(timeline.retire(2_000_000_000).is_none());
        let rest: Vec<_> = timeline.finish().map(|(index, second)| (index, second.queries.sent)).collect();
        assert_eq!(rest, [(2, 1)]);
    }
}
