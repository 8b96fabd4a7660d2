//! Replays a trace: each query at its time, from its source.
//!
//! ```text
//!   trace --> Picker --> Survey (first reading: who asks, how often, over what time)
//!      \----> Picker --> Reader (second reading, a thread) --> blocks --> Feed (one a worker) --> engine
//!                                                   ^-------emptied---------/
//! ```
//!
//! The first reading tells whether the run is possible here at all, and makes the clients of the engine known before
//! it starts. The second one runs ahead of the workers by a window of bounded size, so that a trace of any length is
//! sent out of bounded memory.

// What is read.
mod input;
// The time of a trace.
mod reorder_buffer;
mod timeline;
// Which messages, and when.
mod picker;
pub use picker::{Partition, Selection};
// The first reading.
mod survey;
pub use survey::Survey;
// Where the sources are.
mod sources;
pub use sources::{Prefix, Sources};
// Divides a trace among several processes.
mod partition;
mod rendezvous;
pub use partition::{PartitionedTrace, partition_trace};
pub use rendezvous::RendezvousHash;
// The second reading, and what workers have of it.
mod block;
mod dependents;
mod feed;
mod pacing;
mod reader;
mod worker_queues;
pub(crate) use feed::Feed;
pub use pacing::Pacing;
pub(crate) use reader::Reading;
pub use reader::SecondReading;

use self::input::Input;
use crate::engine::{Endpoint, Transport};
use crate::limits::RUN_MAX;
use crate::mutation::TempTrace;
use crate::population::Server;
use ::trace::mutate::{Plan, PlanError};
use ::trace::{Options, TraceError};
use hierarchy::refuse_stream;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What happens to late queries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LatePolicy {
    /// They go out as soon as they can; those after them at their own times.
    #[default]
    Slip,
    /// One that is later than this ends the run.
    Stop(Duration),
}

/// How the queries of a trace are timed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReplayMode {
    /// As fast as they can be sent, whatever their times.
    pub is_fast: bool,
    /// Each only after the answer to the one before it of the same client, or after that has timed out.
    pub is_dependent: bool,
    /// What happens to late queries.
    pub late: LatePolicy,
}

/// Where the queries of a trace go, from which sources, and how they are changed.
#[derive(Clone, Debug)]
pub struct Route {
    /// Each source keeps to one of them, of its own address family where there is one.
    pub servers: Vec<Server>,
    /// Ports by transport; for others the port that a server was named with counts, or that of the transport.
    pub ports: BTreeMap<Transport, u16>,
    /// Where sources are on this machine; found out if nothing is said.
    pub sources: Option<Sources>,
    /// How many files this process may have open.
    pub open_files_max: u64,
    /// What messages are changed by before they are sent.
    pub rules: Option<Arc<Plan>>,
    /// A command of the shell that messages go through next, as lines of our text: it runs once for each reading, the
    /// second time while the run goes on.
    pub live: Option<String>,
}

/// A trace that is to be sent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: PathBuf,
    /// What a program made of the trace, which is read in its place: kept as long as it may be read.
    _spool: Option<Arc<TempTrace>>,
    input: Arc<Input>,
    selection: Selection,
    mode: ReplayMode,
    survey: Arc<Survey>,
    sources: Sources,
    /// By client.
    endpoints: Arc<[Endpoint]>,
}

impl Replay {
    /// Reads a trace for the first time, and gives each of its clients a server.
    ///
    /// # Errors
    /// [`ReplayError`], when the trace, or this machine, is no use for it.
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

    /// The same, of what a program made of this trace.
    #[must_use]
    pub fn out_of(mut self, spool: TempTrace, trace: &Path) -> Self {
        spool.damaged().inspect(|reason| Arc::make_mut(&mut self.survey).damaged = Some((*reason).to_owned()));
        self._spool = Some(Arc::new(spool));
        trace.clone_into(&mut self.trace);
        self
    }

    /// The file.
    #[must_use]
    pub fn trace(&self) -> &Path {
        &self.trace
    }

    /// What the first reading found.
    #[must_use]
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Which part of it is sent.
    #[must_use]
    pub const fn selection(&self) -> &Selection {
        &self.selection
    }

    /// How.
    #[must_use]
    pub const fn mode(&self) -> ReplayMode {
        self.mode
    }

    /// Where the sources are on this machine.
    #[must_use]
    pub const fn sources(&self) -> Sources {
        self.sources
    }

    /// Sources that share their address with another one, because there are more of them than addresses.
    #[must_use]
    pub fn has_shared_addresses(&self) -> bool {
        let partitions = self.selection.partition.map_or(1, |partition| partition.count as usize);
        matches!(self.sources, Sources::Prefix(prefix) if !prefix.holds(self.survey.source_count() * partitions))
    }

    /// Everyone who is asked.
    pub fn servers(&self) -> impl Iterator<Item = SocketAddr> {
        self.endpoints.iter().map(|endpoint| endpoint.server)
    }

    /// How long queries are sent; no time at all when it is done as fast as it can.
    #[must_use]
    pub fn duration(&self) -> Duration {
        if self.mode.is_fast { Duration::ZERO } else { self.survey.duration() }
    }

    /// The clients of worker `index` of `count`, as it numbers them.
    pub(crate) fn endpoints(&self, index: usize, count: usize) -> Vec<Endpoint> {
        let assignments = self.assignments(count).zip(self.endpoints.iter());
        assignments.filter(|((worker, _), _)| *worker == index).map(|(_, endpoint)| *endpoint).collect()
    }

    /// Of each client its worker of so many, and its number there: whatever a source sends is sent by one worker.
    fn assignments(&self, worker_count: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
        let mut counts = vec![0; worker_count];
        self.survey.clients.iter().map(move |client| {
            let worker = client.source as usize % worker_count;
            counts[worker] += 1;
            (worker, counts[worker] - 1)
        })
    }
}

/// The number of a source among those of all processes, which number theirs apart.
fn among_all(selection: &Selection, source: u32) -> u32 {
    selection.partition.map_or(source, |partition| source.wrapping_mul(partition.count).wrapping_add(partition.index))
}

/// Whom sources of an address family ask.
fn servers_for(servers: &[Server], sources: Sources, is_ipv4: bool) -> Vec<Server> {
    let family = sources.family(is_ipv4);
    let own: Vec<Server> = servers.iter().copied().filter(|server| server.address.is_ipv4() == family).collect();
    // A socket of any family does for a source of any.
    if own.is_empty() && sources == Sources::Sockets { servers.to_vec() } else { own }
}

/// Why a trace cannot be sent.
#[derive(Debug)]
pub enum ReplayError {
    /// It is read twice, and is none that can be.
    Stream(io::Error),
    /// It cannot be read.
    Trace(PathBuf, TraceError),
    /// Rules that cannot be carried out.
    Rules(PlanError),
    /// A program that changes it while it is read: which, and how it ended or what was wrong with what it wrote.
    Program(String),
    /// It is damaged before its first query.
    Unreadable(PathBuf, String),
    /// There is no query in what was selected.
    NoQuery(PathBuf),
    /// More sources than are told apart.
    Sources,
    /// The share of one of several processes cannot be written.
    Spool(PathBuf, io::Error),
    /// Longer than a run may be.
    Long(Duration),
    /// No server has the address family of this source.
    Family(IpAddr),
    /// A source that is no address of this machine.
    ForeignSource(IpAddr),
    /// A network that is none of this machine.
    PrefixNotLocal(Prefix),
    /// More sockets than this process may open.
    OpenFiles {
        /// That many it would be.
        wanted: u64,
        /// That many it may be.
        open_files_max: u64,
    },
}

impl ReplayError {
    /// The same, of what the program of `--filter-command` wrote, whose file is nobody's business.
    #[must_use]
    pub fn of_program(self, command: &str) -> Self {
        let why = match self {
            Self::NoQuery(_) => "it wrote no query, or none in the part that is wanted".to_owned(),
            Self::Unreadable(_, reason) => format!("it wrote no query before {reason}"),
            Self::Trace(_, error) => error.to_string(),
            other => return other,
        };
        Self::Program(format!("--filter-command {command}: {why}"))
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Trace(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Unreadable(path, reason) => write!(f, "{}: no query before the damage: {reason}", path.display()),
            Self::Spool(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Rules(error) => write!(f, "--rules: {error}"),
            Self::Program(outcome) => write!(f, "{outcome}; nothing was sent"),
            Self::NoQuery(path) => write!(f, "{}: no query in it, or none in the part that is wanted", path.display()),
            Self::Sources => {
                write!(f, "more than {} sources; --limit or --until takes a part", crate::limits::REPLAY_SOURCES_MAX)
            }
            Self::Long(duration) => write!(
                f,
                "from the first query to the last it is {:.1} hours, and a run may be 24: --until takes a part, \
                 --speed makes it shorter, --fast leaves the times out",
                duration.as_secs_f64() / 3_600.0
            ),
            Self::Family(address) => write!(
                f,
                "{address} cannot ask any --server: there is none of its address family; name one too, or say \
                 --sources sockets"
            ),
            Self::ForeignSource(address) => write!(
                f,
                "{address} is a source of the trace and no address of this machine: answers would not come back. In a \
                 network namespace `ip route add local 0.0.0.0/0 dev lo` makes every address its own; otherwise say \
                 --sources prefix or --sources sockets"
            ),
            Self::PrefixNotLocal(prefix) => {
                write!(f, "{prefix} is none of this machine: `ip route add local {prefix} dev lo` makes it so")
            }
            Self::OpenFiles { wanted, open_files_max } => write!(
                f,
                "a socket for each source would be {wanted} open files, and this process may have {open_files_max} \
                 (ulimit -Hn); --sources addresses and --sources prefix need one for all. Addresses want a --server of \
                 each address family that sources have, and a machine that has them all: that is what programs in \
                 `catlab net run` see, of several groups if `networks` (--network) names theirs"
            ),
        }
    }
}

impl std::error::Error for ReplayError {}
