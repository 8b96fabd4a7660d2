//! Chooses the next server. Servers that failed recently come last.

use super::io::Now;
use crate::limits::SERVER_PAUSE_MS;
use std::collections::BTreeSet;

/// The servers of the zone, by their index in the configuration.
#[derive(Debug)]
pub(super) struct Servers {
    /// Until when each server comes last.
    paused_until_ms: Vec<u64>,
}

impl Servers {
    pub(super) fn new(count: usize) -> Self {
        Self { paused_until_ms: vec![0; count] }
    }

    /// The next server that was not tried. `None` if all were.
    pub(super) fn next(&self, tried: &BTreeSet<usize>, now: Now) -> Option<usize> {
        let untried = || (0..self.paused_until_ms.len()).filter(|server| !tried.contains(server));
        let is_fresh = |server: &usize| self.paused_until_ms[*server] <= now.ms;
        untried().find(is_fresh).or_else(|| untried().next())
    }

    pub(super) fn failed(&mut self, server: usize, now: Now) {
        self.paused_until_ms[server] = now.ms + SERVER_PAUSE_MS;
    }

    pub(super) fn worked(&mut self, server: usize) {
        self.paused_until_ms[server] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_servers_come_last_for_a_while() {
        let now = Now { ms: 1_000, unix_s: 0 };
        let mut servers = Servers::new(3);
        let none = BTreeSet::new();
        assert_eq!(servers.next(&none, now), Some(0));
        servers.failed(0, now);
        assert_eq!(servers.next(&none, now), Some(1));
        assert_eq!(servers.next(&BTreeSet::from([1, 2]), now), Some(0), "better than none");
        assert_eq!(servers.next(&BTreeSet::from([0, 1, 2]), now), None);
        assert_eq!(servers.next(&none, Now { ms: 1_000 + SERVER_PAUSE_MS, ..now }), Some(0));
        servers.worked(0);
        assert_eq!(servers.next(&none, now), Some(0));
    }
}
