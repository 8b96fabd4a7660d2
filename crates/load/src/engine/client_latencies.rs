//! Latency by class of clients. Whether a client is busy is only known once it has sent enough queries, so the
//! latencies of each client are kept until then.

use measure::limits::LATENCY_MAX_NS;
use measure::{ClassTally, ClientClasses, record};

/// Steps of a kept latency per power of two: 0.05 %. The longest latency fits into 16 bits.
const STEPS_PER_OCTAVE: f64 = 1_536.0;

/// The latencies of the clients of one worker.
pub(super) struct ClientLatencies {
    busy_queries: usize,
    /// By client: its latencies, or none if it is busy.
    few: Vec<Option<Vec<u16>>>,
    busy: ClassTally,
}

impl ClientLatencies {
    /// No latencies. Clients with at least this many queries are busy.
    pub(super) const fn new(busy_queries: usize, busy: ClassTally) -> Self {
        Self { busy_queries, few: Vec::new(), busy }
    }

    /// Adds a query that was answered or lost.
    pub(super) fn record(&mut self, client: u32, latency_ns: u64) {
        let index = client as usize;
        if self.few.len() <= index {
            self.few.resize(index + 1, Some(Vec::new()));
        }
        let Some(kept) = &mut self.few[index] else {
            record(&mut self.busy.latency, latency_ns);
            return;
        };
        kept.push(packed(latency_ns));
        if kept.len() >= self.busy_queries {
            kept.iter().for_each(|&latency| record(&mut self.busy.latency, unpacked(latency)));
            self.busy.clients += 1;
            self.few[index] = None;
        }
    }

    /// The classes at the end of the run.
    pub(super) fn finish(self) -> ClientClasses {
        let mut non_busy = ClassTally::default();
        for kept in self.few.iter().flatten().filter(|kept| !kept.is_empty()) {
            non_busy.clients += 1;
            kept.iter().for_each(|&latency| record(&mut non_busy.latency, unpacked(latency)));
        }
        ClientClasses { busy_queries: self.busy_queries as u64, busy: self.busy, non_busy }
    }
}

fn packed(latency_ns: u64) -> u16 {
    ((latency_ns.clamp(1, LATENCY_MAX_NS) as f64).log2() * STEPS_PER_OCTAVE).round() as u16
}

fn unpacked(packed: u16) -> u64 {
    (f64::from(packed) / STEPS_PER_OCTAVE).exp2().round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_becomes_busy_with_its_last_missing_query() {
        let mut latencies = ClientLatencies::new(3, ClassTally::default());
        // Client 4 is busy, 1 and 2 are not, the others send nothing.
        for (client, us) in [(4, 10), (2, 500), (4, 20), (1, 700), (4, 30), (2, 600), (4, 40)] {
            latencies.record(client, us * 1_000);
        }
        let ClientClasses { busy, non_busy, busy_queries } = latencies.finish();
        assert_eq!((busy_queries, busy.clients, busy.latency.len()), (3, 1, 4));
        assert_eq!((non_busy.clients, non_busy.latency.len()), (2, 3));
        assert!(busy.latency.max() < 41_000 && non_busy.latency.min() > 499_000);
    }

    #[test]
    fn kept_latencies_are_precise_up_to_the_longest() {
        for latency_ns in [1, 1_000, 123_456_789, 5_000_000_000, LATENCY_MAX_NS] {
            let again = unpacked(packed(latency_ns));
            assert!((again as f64 / latency_ns as f64 - 1.0).abs() < 3e-4, "{latency_ns} {again}");
        }
        assert!(packed(LATENCY_MAX_NS) < u16::MAX && packed(0) == 0);
        assert_eq!(packed(u64::MAX), packed(LATENCY_MAX_NS));
    }
}
