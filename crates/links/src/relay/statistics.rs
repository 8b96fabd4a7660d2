//! Statistics of a link.

use crate::delay::Counts;
use crate::quantiles::Quantiles;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;

/// One direction of a link.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize)]
pub struct LineStatistics {
    /// Counts of packets in the link.
    #[serde(flatten)]
    pub counts: Counts,
    /// Packets that the kernel dropped because the relay read too slowly.
    pub dropped_unread: u64,
    /// Packets that the kernel refused when they were due.
    pub refused: u64,
    /// How late packets were sent, in us.
    pub lateness_us: Quantiles,
}

impl LineStatistics {
    pub(super) fn new(counts: Counts, refused: u64, lateness: &Histogram<u64>) -> Self {
        Self { counts, dropped_unread: 0, refused, lateness_us: Quantiles::of_ns(lateness) }
    }
}

impl fmt::Display for LineStatistics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        write!(out, "{} packets, {} bytes; {} delivered", counts.packets, counts.bytes, counts.delivered)?;
        let causes = [
            (counts.lost, "lost as configured"),
            (counts.dropped_by_rate, "dropped by the rate's queue"),
            (counts.dropped_by_room, "dropped for want of room"),
            (self.dropped_unread, "dropped before the relay read them"),
            (self.refused, "not taken by the kernel"),
            (counts.held, "on their way at the end"),
        ];
        for (count, cause) in causes.iter().filter(|(count, _)| *count > 0) {
            write!(out, ", {count} {cause}")?;
        }
        write!(out, "; late by {}", self.lateness_us)
    }
}

/// Statistics of a link at its end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkStatistics {
    /// Name of the group.
    pub group: String,
    /// From the clients.
    pub up: LineStatistics,
    /// To the clients.
    pub down: LineStatistics,
}

impl fmt::Display for LinkStatistics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} up:   {}", self.group, self.up)?;
        write!(out, "{} down: {}", self.group, self.down)
    }
}
