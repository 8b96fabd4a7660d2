//! The first reading of a trace: who asks, how often, over what time.

use super::ReplayError;
use super::input::{Input, Opened};
use super::picker::{Pick, Picker, Selection};
use super::reorder_buffer::ReorderBuffer;
use crate::engine::Transport;
use crate::limits::{REPLAY_SOURCES_MAX, RUN_MAX};
use crate::mutation::{KillHandle, StreamEnd, no_lines};
use ::trace::{Group, Unread};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// One who asks over one transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    pub(super) transport: Transport,
    /// The number of its source: addresses in the order in which they first ask.
    pub(super) source: u32,
}

/// What a trace asks for.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// In the order in which they first ask.
    pub(super) clients: Vec<Client>,
    /// Their numbers.
    pub(super) numbers: HashMap<(IpAddr, Transport), u32>,
    source_count: usize,
    /// Queries that are to be sent.
    pub queries: u64,
    /// When the first of them is planned: at once, unless it is the share of one process of several.
    pub first_ns: u64,
    /// When the last of them is planned.
    pub last_ns: u64,
    /// How many are planned in each second of the run, as far as a run goes.
    pub(crate) by_second: Vec<u32>,
    /// Responses among what was selected; they are not sent.
    pub responses: u64,
    /// Queries that have more bytes than are sent.
    pub too_long: u64,
    /// Whether the trace is not in the order of time, so that it is put in order.
    pub is_sorted: bool,
    /// Messages that were recorded earlier than one before them, and stand too far behind it to be put in order.
    pub backwards: u64,
    /// Times that made no sense beside the one before.
    pub jumps: u64,
    /// Frames, segments and lines that something is missing for (`catlab trace info` says what).
    pub lost: u64,
    /// Messages that were left out: other protocols, or not selected.
    pub left_out: Vec<(Unread, u64)>,
    /// Why the trace could not be read to its end, if so.
    pub damaged: Option<String>,
}

impl Survey {
    /// Reads a trace; once more if it turns out not to be in the order of time.
    ///
    /// # Errors
    /// When it cannot be read at all, has no query, or more sources than are told apart.
    pub(super) fn take(input: &Input, selection: Selection) -> Result<Self, ReplayError> {
        match Self::read(input, selection, false)? {
            Some(survey) => Ok(survey),
            None => Ok(Self::read(input, selection, true)?.unwrap_or_default()),
        }
    }

    /// Gives none for a trace that is not in order, unless it is sorted.
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
                    // What came before it stands.
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
        let is_left_out = |reason: Unread| !matches!(reason.group(), Group::Lost | Group::NoMessage);
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

    /// Addresses that ask.
    #[must_use]
    pub const fn source_count(&self) -> usize {
        self.source_count
    }

    /// Addresses that ask, once for each transport that they use.
    #[must_use]
    pub const fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// From the first query to the last.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        Duration::from_nanos(self.last_ns)
    }
}
