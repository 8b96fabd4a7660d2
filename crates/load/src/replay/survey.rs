//! The first reading of a trace: its sources, queries and duration.

use super::error::ReplayError;
use super::input::{Input, Opened};
use super::picker::{Pick, Picker, Selection};
use super::reorder_buffer::ReorderBuffer;
use crate::limits::{REPLAY_SOURCES_MAX, RUN_MAX};
use crate::mutation::{KillHandle, StreamEnd, no_lines};
use ::trace::{Group, UnreadReason};
use measure::Transport;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// A source with one transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    pub(super) transport: Transport,
    /// The number of its source, in order of appearance.
    pub(super) source: u32,
}

/// The results of the first reading.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// In order of appearance.
    pub(super) clients: Vec<Client>,
    /// The number of each client.
    pub(super) numbers: HashMap<(IpAddr, Transport), u32>,
    source_count: usize,
    /// Queries to send.
    pub queries: u64,
    /// Planned time of the first query: zero, unless the trace is a partition.
    pub first_ns: u64,
    /// Planned time of the last query.
    pub last_ns: u64,
    /// Planned queries in each second of the run.
    pub by_second: Vec<u32>,
    /// Selected responses, which are not sent.
    pub responses: u64,
    /// Queries that are too long.
    pub too_long: u64,
    /// Whether the trace must be sorted by time.
    pub is_sorted: bool,
    /// Messages that are earlier than a previous one, but too far behind it to be sorted.
    pub backwards: u64,
    /// Implausible times.
    pub jumps: u64,
    /// Incomplete frames, segments and lines (`catlab trace info` has details).
    pub lost: u64,
    /// Messages left out: other protocols, or not selected.
    pub left_out: Vec<(UnreadReason, u64)>,
    /// Why the trace could not be read to its end, if so.
    pub damaged: Option<String>,
}

impl Survey {
    /// Reads a trace, and reads it again if it has to be sorted.
    ///
    /// # Errors
    /// If it cannot be read, has no query, or has too many sources.
    pub(super) fn take(input: &Input, selection: Selection) -> Result<Self, ReplayError> {
        match Self::read(input, selection, false)? {
            Some(survey) => Ok(survey),
            None => Ok(Self::read(input, selection, true)?.unwrap_or_default()),
        }
    }

    /// Returns none if the trace is unsorted, unless `is_sorting` is set.
    fn read(input: &Input, selection: Selection, is_sorting: bool) -> Result<Option<Self>, ReplayError> {
        let mut picker = Picker::new(selection).after(input.remaining_rules()).map_err(ReplayError::Rules)?;
        let Opened { reader, mut program } = input.open(KillHandle::default())?;
        let mut trace = ReorderBuffer::new(reader, is_sorting);
        let (mut survey, mut sources) = (Self::default(), HashMap::new());
        while !picker.is_done() {
            match trace.next() {
                Ok(None) => {
                    if let Some(program) = program.take() {
                        let end = program.end(trace.tally()).map_err(ReplayError::Program)?;
                        survey.damaged = if let StreamEnd::Damaged(reason) = end { Some(reason) } else { None };
                    }
                    break;
                }
                Err(error) => {
                    if let Some(program) = &program {
                        return Err(ReplayError::Program(program.unread(&error)));
                    }
                    // Earlier messages are kept.
                    survey.damaged = Some(error.to_string());
                    break;
                }
                Ok(Some(message)) => match picker.pick(&message) {
                    Pick::End => break,
                    Pick::Nothing => {}
                    Pick::Query(query) => {
                        survey.queries += 1;
                        survey.count_planned(query.planned_ns);
                        survey.add_client(query.source, query.transport, &mut sources)?;
                    }
                },
            }
            if !is_sorting && trace.is_out_of_order() {
                return Ok(None);
            }
        }
        if let (Some(program), Some(reason)) = (program, no_lines(trace.tally())) {
            return Err(ReplayError::Program(program.unread(&reason)));
        }
        if survey.queries == 0 {
            let path = input.path();
            return Err(match survey.damaged {
                Some(reason) => ReplayError::Unreadable(path.to_owned(), reason),
                None => ReplayError::NoQuery(path.to_owned()),
            });
        }
        survey.source_count = sources.len();
        (survey.responses, survey.too_long) = (picker.responses, picker.too_long);
        (survey.backwards, survey.jumps) = (picker.timeline.backwards, picker.timeline.jumps);
        (survey.lost, survey.is_sorted) = (trace.tally().lost(), is_sorting);
        let is_left_out = |reason: UnreadReason| !matches!(reason.group(), Group::Lost | Group::NoMessage);
        survey.left_out = trace.tally().all_unread().filter(|&(reason, _)| is_left_out(reason)).collect();
        Ok(Some(survey))
    }

    fn count_planned(&mut self, planned_ns: u64) {
        if self.queries == 1 {
            self.first_ns = planned_ns;
        }
        self.last_ns = planned_ns;
        let second = planned_ns / SECOND_NS;
        if second > RUN_MAX.as_secs() {
            return;
        }
        if self.by_second.len() <= second as usize {
            self.by_second.resize(second as usize + 1, 0);
        }
        self.by_second[second as usize] += 1;
    }

    fn add_client(
        &mut self,
        address: IpAddr,
        transport: Transport,
        sources: &mut HashMap<IpAddr, u32>,
    ) -> Result<(), ReplayError> {
        if self.numbers.contains_key(&(address, transport)) {
            return Ok(());
        }
        let next = sources.len() as u32;
        let source = *sources.entry(address).or_insert(next);
        if self.clients.len() == REPLAY_SOURCES_MAX {
            return Err(ReplayError::Sources);
        }
        self.numbers.insert((address, transport), self.clients.len() as u32);
        self.clients.push(Client { address, transport, source });
        Ok(())
    }

    /// Number of source addresses.
    #[must_use]
    pub const fn source_count(&self) -> usize {
        self.source_count
    }

    /// Number of clients: source addresses counted once per transport.
    #[must_use]
    pub const fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Time from the first query to the last.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        Duration::from_nanos(self.last_ns)
    }
}
