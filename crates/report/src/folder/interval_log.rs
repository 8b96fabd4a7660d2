//! `latency.hlog`, `service.hlog` and `send_lag.hlog`: HdrHistogram interval logs (V2, deflated) with one interval per
//! second.
//!
//! Lines without a tag are the sum of all transports. With several transports, each also has lines with its tag.

use crate::{Distribution, Recording, Row, Validity};
use data_encoding::BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

/// The column of maximum values is in milliseconds, the histograms are in nanoseconds.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// The kind of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timing {
    Latency,
    Service,
    SendLag,
}

impl Timing {
    pub(super) const ALL: [Self; 3] = [Self::Latency, Self::Service, Self::SendLag];

    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Latency => "latency.hlog",
            Self::Service => "service.hlog",
            Self::SendLag => "send_lag.hlog",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Latency => "from the planned time of a query to its answer, including timeouts",
            Self::Service => "from the sending of a query to its answer, including timeouts",
            Self::SendLag => "from the planned time of a query to its sending",
        }
    }

    pub(super) fn of(self, row: &Row) -> &Distribution {
        match self {
            Self::Latency => &row.latency,
            Self::Service => &row.service,
            Self::SendLag => &row.send_lag,
        }
    }

    pub(super) fn of_mut(self, row: &mut Row) -> &mut Distribution {
        match self {
            Self::Latency => &mut row.latency,
            Self::Service => &mut row.service,
            Self::SendLag => &mut row.send_lag,
        }
    }
}

/// Writes one log.
pub(super) fn write(
    out: &mut impl Write,
    recording: &Recording,
    validity: &Validity,
    timing: Timing,
) -> io::Result<()> {
    // A comment must be on one line.
    let reasons = validity.reasons.join("; ").replace('\n', " ");
    let verdict = if validity.valid { "valid".to_owned() } else { format!("INVALID: {reasons}") };
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("[catlab: {}]", timing.meaning()))
        .add_comment("[Values are nanoseconds; the column of largest values is divided by 1000000, milliseconds]")
        .add_comment(&format!("[{verdict}]"))
        .with_start_time(recording.started)
        .with_base_time(recording.started)
        .with_max_value_divisor(MAX_VALUE_DIVISOR)
        .begin_log_with(out, &mut serializer)?;
    let mut block = |rows: &[Row], tag: Option<&str>| {
        rows.iter().try_for_each(|row| {
            let [start, span] = [row.start_seconds, row.span_seconds].map(Duration::from_secs_f64);
            log.write_histogram(&timing.of(row).histogram(), start, span, tag.and_then(Tag::new))
                .map_err(io::Error::other)
        })
    };
    block(&recording.rows, None)?;
    if recording.transports.len() > 1 {
        recording
            .transports
            .iter()
            .try_for_each(|(transport, transport_rows)| block(&transport_rows.rows, Some(transport)))?;
    }
    Ok(())
}

/// Distributions by tag ("" for none), and by the millisecond of the run in which the interval begins.
pub(super) type Intervals = BTreeMap<String, BTreeMap<u64, Distribution>>;

/// Reads a log.
///
/// # Errors
/// Says what is wrong and where.
pub(super) fn read(text: &str) -> Result<Intervals, String> {
    let mut intervals = Intervals::new();
    let mut deserializer = Deserializer::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let LogEntry::Interval(interval) = entry.map_err(|error| format!("no interval log: {error:?}"))? else {
            continue;
        };
        let at = interval.start_timestamp();
        let invalid = |reason: &dyn std::fmt::Display| format!("interval at {:.3} s: {reason}", at.as_secs_f64());
        let bytes = BASE64.decode(interval.encoded_histogram().as_bytes()).map_err(|error| invalid(&error))?;
        let histogram: Histogram<u64> =
            deserializer.deserialize(&mut bytes.as_slice()).map_err(|error| invalid(&error))?;
        let tag = interval.tag().map_or_else(String::new, |tag| tag.as_str().to_owned());
        intervals.entry(tag).or_default().insert(at.as_millis() as u64, Distribution::from(&histogram));
    }
    Ok(intervals)
}
