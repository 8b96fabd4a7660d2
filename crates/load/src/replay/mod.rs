//! Replays a trace: each query at its time, from its source.
//!
//! ```text
//!    trace --> Picker --> Survey (first reading: sources, query counts, duration)
//!       \----> Picker --> Reader (second reading, a thread) --> blocks --> Feed (one per worker) --> engine
//!                                                    ^-----free blocks-------/
//! ```
//!
//! The first reading shows whether the run is possible on this machine, and finds the clients of the engine. The second
//! one reads ahead by a window of fixed size, so traces of any length need limited memory.

// Errors.
mod error;
pub use error::ReplayError;
// The input.
mod input;
// The times of a trace.
mod reorder_buffer;
mod timeline;
// Chooses messages and their times.
mod picker;
pub use picker::{Partition, Selection, transport_of};
// The first reading.
mod survey;
pub use survey::Survey;
// Source addresses.
mod prefix;
mod sources;
pub use prefix::Prefix;
pub use sources::Sources;
// Divides a trace among several processes.
mod partition;
mod rendezvous;
pub use partition::{PartitionedTrace, partition_trace};
pub use rendezvous::RendezvousHash;
// The second reading, and the queries of workers.
mod block;
mod dependents;
mod feed;
mod reader;
mod worker_queues;
// What the engine sees of them.
mod traffic;

use self::input::Input;
use crate::engine::Endpoint;
use crate::limits::RUN_MAX;
use crate::mutation::TempTrace;
use crate::population::Server;
use ::trace::Options;
use ::trace::mutate::Plan;
use hierarchy::refuse_stream;
use measure::Transport;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The handling of late queries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LatePolicy {
    /// Late queries are sent as soon as possible. Later queries keep their times.
    #[default]
    Slip,
    /// A query that is later than this ends the run.
    Stop(Duration),
}

/// How the queries of a trace are timed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReplayMode {
    /// Send as fast as possible and ignore the times.
    pub is_fast: bool,
    /// Send each query only after the previous query of the client was answered or timed out.
    pub is_dependent: bool,
    /// The handling of late queries.
    pub late: LatePolicy,
}

/// Servers, source addresses and changes of a replay.
#[derive(Clone, Debug)]
pub struct Route {
    /// Each source uses one server, of its own address family if possible.
    pub servers: Vec<Server>,
    /// Ports by transport. The default is the port given with the server, or that of the transport.
    pub ports: BTreeMap<Transport, u16>,
    /// How sources are mapped to local addresses. Chosen automatically if unset.
    pub sources: Option<Sources>,
    /// Maximum number of open files of this process.
    pub open_files_max: u64,
    /// Changes of messages before they are sent.
    pub rules: Option<Arc<Plan>>,
    /// A shell command that changes messages after the rules, as lines of text. It runs for each reading, the second
    /// time during the run.
    pub live: Option<String>,
}

/// A replay. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: PathBuf,
    /// The filtered trace that is read instead. Kept until the last reading.
    _spool: Option<Arc<TempTrace>>,
    input: Arc<Input>,
    selection: Selection,
    mode: ReplayMode,
    survey: Arc<Survey>,
    sources: Sources,
    /// By client number.
    endpoints: Arc<[Endpoint]>,
}

impl Replay {
    /// Reads a trace for the first time, and assigns a server to each client.
    ///
    /// # Errors
    /// [`ReplayError`] if the trace or this machine cannot be used.
    pub fn new(
        trace: &Path,
        reading: Options,
        selection: Selection,
        mode: ReplayMode,
        route: &Route,
    ) -> Result<Self, ReplayError> {
        refuse_stream(trace).map_err(ReplayError::Stream)?;
        let input = Arc::new(Input::new(trace, reading, route.rules.clone(), route.live.clone()));
        let survey = Survey::take(&input, selection)?;
        if !mode.is_fast && survey.duration() > RUN_MAX {
            return Err(ReplayError::Long(survey.duration()));
        }
        let servers: Vec<_> = route.servers.iter().map(|server| server.at_or(53)).collect();
        let sources = Sources::choose(route.sources, &survey, &servers, route.open_files_max)?;
        let [for_ipv4, for_ipv6] = [true, false].map(|is_ipv4| servers_for(&route.servers, sources, is_ipv4));
        let endpoints = survey.clients.iter().map(|client| -> Result<Endpoint, ReplayError> {
            let servers = if client.address.is_ipv4() { &for_ipv4 } else { &for_ipv6 };
            let server = servers.get(client.source as usize % servers.len().max(1));
            let server = server.ok_or(ReplayError::Family(client.address))?;
            let named = route.ports.get(&client.transport).copied().or(server.port);
            let port = named.unwrap_or(client.transport.default_port());
            Ok(Endpoint {
                transport: client.transport,
                server: server.at(port),
                policy: 0,
                source: sources.address(client.address, among_all(&selection, client.source)),
            })
        });
        let endpoints = endpoints.collect::<Result<_, _>>()?;
        let (trace, survey) = (trace.to_owned(), Arc::new(survey));
        Ok(Self { trace, _spool: None, input, selection, mode, survey, sources, endpoints })
    }

    /// Replays the output of a filter command for this trace.
    #[must_use]
    pub fn out_of(mut self, spool: TempTrace, trace: &Path) -> Self {
        spool.damaged().inspect(|reason| Arc::make_mut(&mut self.survey).damaged = Some((*reason).to_owned()));
        self._spool = Some(Arc::new(spool));
        trace.clone_into(&mut self.trace);
        self
    }

    /// The path of the trace.
    #[must_use]
    pub fn trace(&self) -> &Path {
        &self.trace
    }

    /// The results of the first reading.
    #[must_use]
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// The replayed part.
    #[must_use]
    pub const fn selection(&self) -> &Selection {
        &self.selection
    }

    /// The timing.
    #[must_use]
    pub const fn mode(&self) -> ReplayMode {
        self.mode
    }

    /// The mapping of sources.
    #[must_use]
    pub const fn sources(&self) -> Sources {
        self.sources
    }

    /// Whether sources share addresses, because there are more sources than addresses.
    #[must_use]
    pub fn has_shared_addresses(&self) -> bool {
        let partitions = self.selection.partition.map_or(1, |partition| partition.count as usize);
        matches!(self.sources, Sources::Prefix(prefix) if !prefix.has_room_for(self.survey.source_count() * partitions))
    }

    /// The queried servers.
    pub fn servers(&self) -> impl Iterator<Item = SocketAddr> {
        self.endpoints.iter().map(|endpoint| endpoint.server)
    }

    /// The planned duration. Zero if the times are ignored.
    #[must_use]
    pub fn duration(&self) -> Duration {
        if self.mode.is_fast { Duration::ZERO } else { self.survey.duration() }
    }

    /// The clients of worker `index` of `count`, in its numbering.
    pub(crate) fn endpoints(&self, index: usize, count: usize) -> Vec<Endpoint> {
        let assignments = self.assignments(count).zip(self.endpoints.iter());
        assignments.filter(|((worker, _), _)| *worker == index).map(|(_, endpoint)| *endpoint).collect()
    }

    /// The worker of each client, and its number there. All queries of a source are sent by one worker.
    fn assignments(&self, worker_count: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
        let mut counts = vec![0; worker_count];
        self.survey.clients.iter().map(move |client| {
            let worker = client.source as usize % worker_count;
            counts[worker] += 1;
            (worker, counts[worker] - 1)
        })
    }
}

/// The number of a source among the sources of all processes. Each process numbers its own sources from 0.
fn among_all(selection: &Selection, source: u32) -> u32 {
    selection.partition.map_or(source, |partition| source.wrapping_mul(partition.count).wrapping_add(partition.index))
}

/// The servers for sources of this address family.
fn servers_for(servers: &[Server], sources: Sources, is_ipv4: bool) -> Vec<Server> {
    let family = sources.family(is_ipv4);
    let own: Vec<Server> = servers.iter().copied().filter(|server| server.address.is_ipv4() == family).collect();
    // With `sockets`, sources of both families can use any server.
    if own.is_empty() && sources == Sources::Sockets { servers.to_vec() } else { own }
}
