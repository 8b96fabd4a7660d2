//! What a link has done.

use crate::delay::Counts;
use crate::quantiles::Quantiles;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;

/// One direction of a link.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize)]
pub struct LineStatistics {
    /// Packets that came in.
    pub packets: u64,
    /// Their octets, from the head of IP on.
    pub octets: u64,
    /// Packets that went out.
    pub delivered: u64,
    /// Packets that were lost as asked.
    pub lost: u64,
    /// Packets that found the queue of the limited rate full.
    pub dropped_by_rate: u64,
    /// Packets for which the link had no room.
    pub dropped_by_room: u64,
    /// Packets that the kernel dropped before the relay could read them: it was too slow.
    pub dropped_unread: u64,
    /// Packets that the kernel did not take at the end.
    pub refused: u64,
    /// Packets that were on their way when it ended.
    pub held_at_end: u64,
    /// The most packets that were held at once.
    pub held_max: u64,
    /// How late packets went out, in us: quartiles, 99th percentile and the latest.
    pub lateness_us: Quantiles,
}

impl LineStatistics {
    pub(super) fn new(counts: Counts, refused: u64, lateness: &Histogram<u64>) -> Self {
        Self {
            packets: counts.packets,
            octets: counts.octets,
            delivered: counts.delivered,
            lost: counts.lost,
            dropped_by_rate: counts.dropped_by_rate,
            dropped_by_room: counts.dropped_by_room,
            dropped_unread: 0,
            refused,
            held_at_end: counts.held,
            held_max: counts.held_max,
            lateness_us: Quantiles::of_ns(lateness),
        }
    }
}

impl fmt::Display for LineStatistics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} packets, {} octets; {} delivered", self.packets, self.octets, self.delivered)?;
        let whys = [
            (self.lost, "lost as asked"),
            (self.dropped_by_rate, "dropped by the rate's queue"),
            (self.dropped_by_room, "dropped for want of room"),
            (self.dropped_unread, "dropped before the relay read them"),
            (self.refused, "not taken by the kernel"),
            (self.held_at_end, "on their way at the end"),
        ];
        for (count, why) in whys.iter().filter(|(count, _)| *count > 0) {
            write!(out, ", {count} {why}")?;
        }
        write!(out, "; late by {}", self.lateness_us)
    }
}

/// A link, when it ended.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkStatistics {
    /// Its group.
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
