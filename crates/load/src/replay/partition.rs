//! Divides a trace among several processes that replay it together.
//!
//! Selection, changes and speed apply before. A partition is a binary trace that only has queries, with the times of
//! the run.

use super::input::Input;
use super::picker::{Pick, Picker, Selection};
use super::reorder_buffer::ReorderBuffer;
use super::{RendezvousHash, ReplayError, Survey};
use ::trace::mutate::Plan;
use ::trace::{Format, Message, Options, Transport, Writer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The time in a partition at which the run begins.
const ORIGIN_NS: u64 = 0;

/// A divided trace.
#[derive(Clone, Debug)]
pub struct PartitionedTrace {
    /// The first reading of the whole trace.
    pub survey: Survey,
    /// The file of each process, and its number of queries.
    pub partitions: Vec<(PathBuf, u64)>,
}

impl PartitionedTrace {
    /// The time in each partition at which the run begins.
    #[must_use]
    pub const fn origin_ns(&self) -> u64 {
        ORIGIN_NS
    }
}

/// Reads a trace twice and writes the partitions (`0.catrace` and so on) to a folder.
///
/// # Errors
/// [`ReplayError`] if the trace cannot be used, or a partition cannot be written.
pub fn partition_trace(
    trace: &Path,
    reading: &Options,
    selection: Selection,
    rules: Option<&Plan>,
    hash: &RendezvousHash,
    folder: &Path,
) -> Result<PartitionedTrace, ReplayError> {
    hierarchy::refuse_stream(trace).map_err(ReplayError::Stream)?;
    let input = Input::new(trace, reading.clone(), rules.cloned().map(Arc::new), None);
    let survey = Survey::take(&input, selection)?;
    let mut files = Vec::new();
    for index in 0..hash.count() {
        let path = folder.join(format!("{index}.catrace"));
        let writer = Writer::create(&path, Format::Binary).map_err(|error| ReplayError::Spool(path.clone(), error))?;
        files.push((path, writer, 0));
    }
    let read = ::trace::open(trace, reading).map_err(|error| ReplayError::Trace(trace.to_owned(), error))?;
    let mut read = ReorderBuffer::new(read, survey.is_sorted);
    let mut picker = Picker::new(selection).after(rules).map_err(ReplayError::Rules)?;
    // The survey has reported the damage.
    while let Ok(Some(message)) = read.next() {
        let query = match picker.pick(&message) {
            Pick::End => break,
            Pick::Nothing => continue,
            Pick::Query(query) => query,
        };
        let Some((path, writer, count)) = files.get_mut(hash.owner(query.source)) else { break };
        let message = Message {
            at_ns: ORIGIN_NS + query.planned_ns,
            source: SocketAddr::new(query.source, 0),
            destination: server_of(query.source),
            transport: recorded(query.transport),
            bytes: query.bytes,
        };
        writer.write(&message).map_err(|error| ReplayError::Spool(path.clone(), error))?;
        *count += 1;
    }
    let mut partitions = Vec::new();
    for (path, writer, count) in files {
        let written = count - writer.left_out();
        writer.finish().map_err(|error| ReplayError::Spool(path.clone(), error))?;
        partitions.push((path, written));
    }
    Ok(PartitionedTrace { survey, partitions })
}

/// A placeholder, because each process assigns servers itself.
fn server_of(source: IpAddr) -> SocketAddr {
    let unspecified: IpAddr =
        if source.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(unspecified, 53)
}

/// The transport in a trace.
const fn recorded(transport: measure::Transport) -> Transport {
    use measure::Transport as Sent;
    match transport {
        Sent::Udp => Transport::Udp,
        Sent::Tcp => Transport::Tcp,
        Sent::Dot => Transport::Dot,
        Sent::Doh => Transport::Doh,
        Sent::Doq => Transport::Doq,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_query_is_in_one_partition_at_its_time() {
        let folder = std::env::temp_dir().join(format!("catlab-division-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("trace.txt");
        let mut writer = Writer::create(&path, Format::Text).unwrap();
        let server = SocketAddr::from(([192, 0, 2, 1], 53));
        for number in 0..600_u32 {
            let source = SocketAddr::from((Ipv4Addr::from(0x0A00_0000 + number % 50), 4_711));
            let mut bytes = [0; 12];
            bytes[..2].copy_from_slice(&(number as u16).to_be_bytes());
            let transport = if number % 50 == 7 { Transport::Tcp } else { Transport::Udp };
            let at_ns = 1_700_000_000_000_000_000 + u64::from(number) * 1_000_000;
            writer.write(&Message { at_ns, source, destination: server, transport, bytes: &bytes }).unwrap();
        }
        writer.finish().unwrap();
        let selection = Selection { speed: 2.0, ..Selection::default() };
        let hash = RendezvousHash::new(["one", "two", "three"]);
        let division = partition_trace(&path, &Options::default(), selection, None, &hash, &folder).unwrap();
        assert_eq!(division.survey.queries, 600);
        let (mut seen, mut owners) = (BTreeSet::new(), BTreeMap::new());
        for (index, (path, count)) in division.partitions.iter().enumerate() {
            let (mut share, mut read) = (::trace::open(path, &Options::default()).unwrap(), 0);
            while let Some(message) = share.next().unwrap() {
                let number = u32::from(u16::from_be_bytes([message.bytes[0], message.bytes[1]]));
                // Intervals of 0.5 ms, at double speed.
                assert_eq!(message.at_ns, u64::from(number) * 500_000);
                assert_eq!(message.transport == Transport::Tcp, number % 50 == 7);
                assert!(seen.insert(number), "{number} twice");
                assert_eq!(*owners.entry(message.source.ip()).or_insert(index), index, "{}", message.source);
                read += 1;
            }
            assert_eq!(read, *count);
            assert!(*count > 0);
        }
        assert_eq!((seen.len(), owners.len()), (600, 50));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
