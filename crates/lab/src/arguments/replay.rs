//! Options that replay a trace.

use super::client_classes::ClientClassArguments;
use super::connections::Usage;
use super::mutation::{CommandChanges, MutationArguments};
use super::parse::{parse_port, parse_sockets, parse_timeout, parse_workers};
use super::reading::{FormatArgument, SideArguments};
use super::target::Ownership;
use clap::{Args, ValueEnum};
use load::engine::{ConnectionPolicy, Pace, Plan};
use load::limits::RUN_MAX;
use load::mutation::{TempTrace, TransportShares, parse_transports};
use load::population::Server;
use load::replay::{
    LatePolicy, Partition, PartitionedTrace, RendezvousHash, Replay, ReplayError, ReplayMode, Route, Selection,
    Sources, Survey, partition_trace, transport_of,
};
use load::workload::Workload;
use measure::Transport;
use report::parse_duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use trace::mutate::{Changes, Mutator};

/// Default idle timeout of a source's connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// Trace, in any format that `catlab trace` reads. It is read twice.
    trace: PathBuf,
    /// Servers to query: addresses or host names with an optional port. Each source uses one server, of its own address
    /// family if possible.
    #[arg(long, required = true, value_delimiter = ',')]
    server: Vec<Server>,
    /// Ports by transport, such as udp=5300,dot=8530.
    #[arg(long, value_name = "TRANSPORT=PORT", value_delimiter = ',', value_parser = parse_port)]
    ports: Vec<(Transport, u16)>,
    /// Transport of all queries (udp, tcp, dot, doh or doq), or shares such as tcp=0.3,dot=0.2. Other queries keep
    /// theirs.
    #[arg(long, value_name = "TRANSPORT|SHARES", value_parser = parse_transports)]
    transport: Option<TransportShares>,
    /// How to map sources: `addresses` (original addresses), `prefix` or `prefix=NETWORK` (an address of the network
    /// each; default 127.0.0.0/8), or `sockets` (a port each). The default is `addresses` if this machine has all of
    /// them, `prefix` for a server on loopback, and `sockets` otherwise.
    #[arg(long, value_name = "HOW")]
    sources: Option<Sources>,
    /// Speed factor: 2 replays two seconds of the trace in one second.
    #[arg(long, default_value_t = 1.0, value_parser = parse_speed, conflicts_with = "fast")]
    speed: f64,
    /// Ignore the times of the trace and send as fast as possible.
    #[arg(long)]
    fast: bool,
    /// What to do if a query is late: `slip` (send it as soon as possible; later queries keep their times) or `stop`
    /// (end the run).
    #[arg(long, default_value = "slip", value_name = "HOW")]
    late: LateArgument,
    /// Lag after which `--late stop` ends the run.
    #[arg(long, default_value = "100ms", value_name = "DURATION", value_parser = parse_duration)]
    late_limit: Duration,
    /// Send each query of a source only after the previous one was answered or timed out.
    #[arg(long)]
    wait_for_answer: bool,
    /// Pipe all messages through this shell command before the run, as lines of text (docs/catlab/mutate.md). Its
    /// output is stored in the temporary folder, except with --stream.
    #[arg(long, value_name = "COMMAND")]
    filter_command: Option<String>,
    /// Send the output of --filter-command while the command runs, and do not store it. The command runs twice, first
    /// to find the sources, and must write the same output both times.
    #[arg(long, requires = "filter_command")]
    stream: bool,
    /// End after this many queries.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Start this long after the first message.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = parse_duration)]
    from: Duration,
    /// End this long after the first message.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    until: Option<Duration>,
    /// Format of the trace. Without this option it is detected from the first bytes.
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatArgument>,
    /// Server port in captures and Zeek logs. May be given several times.
    #[arg(long = "trace-port", value_name = "PORT", default_values_t = [53])]
    trace_ports: Vec<u16>,
    #[command(flatten)]
    sides: SideArguments,
    /// Timeout of a query.
    #[arg(long, default_value = "2s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Sending threads, at most one per source. The default is one for every two cores.
    #[arg(long, value_parser = parse_workers)]
    workers: Option<usize>,
    /// UDP: ID tables per thread and server; more tables allow more queries in flight. DoQ: client ports.
    #[arg(long, default_value_t = 8, value_parser = parse_sockets)]
    sockets: usize,
    /// Largest p99 send lag of a valid run.
    #[arg(long, default_value = "1ms", value_parser = parse_duration)]
    pub(crate) lag_limit: Duration,
    #[command(flatten)]
    client_classes: ClientClassArguments,
    #[command(flatten)]
    ownership: Ownership,
    #[command(flatten)]
    connections: Usage,
    #[command(flatten)]
    mutation: MutationArguments,
    /// Set if the trace is one agent's partition.
    #[arg(skip)]
    pub(crate) partition: Option<Partition>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LateArgument {
    Slip,
    Stop,
}

impl ReplayArguments {
    /// The plan for a process that may have this many open files.
    ///
    /// # Errors
    /// If the target is not allowed, or if the trace or this machine cannot be used.
    pub(crate) fn plan(&self, open_files_max: u64) -> Result<Plan, Box<dyn std::error::Error>> {
        self.ownership.allow(self.server.iter().map(|server| server.at(53)))?;
        let replay = self.replay(open_files_max)?;
        let mut servers: Vec<_> = replay.servers().collect();
        servers.sort_unstable();
        servers.dedup();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.unwrap_or(cores.div_ceil(2)).min(replay.survey().source_count());
        let connection_policy = self.connections.connection_policy();
        Ok(Plan {
            transport: self.only_transport().unwrap_or(Transport::Udp),
            timeout: self.timeout,
            worker_count: workers.max(1),
            socket_count: self.sockets,
            connection_policy: ConnectionPolicy {
                idle_timeout: connection_policy.idle_timeout.or(Some(IDLE_TIMEOUT)),
                ..connection_policy
            },
            handshake_timeout: self.connections.handshake_timeout,
            tls: self.connections.tls(),
            http: self.connections.http(),
            busy_queries: self.client_classes.busy_queries,
            ..Plan::new(servers, Workload::traced(), Pace::of(replay))
        })
    }

    /// The path of the trace.
    pub(crate) fn trace(&self) -> &Path {
        &self.trace
    }

    /// CAs to trust instead of the system's.
    pub(crate) fn authorities(&self) -> Option<PathBuf> {
        self.connections.tls().authorities
    }

    /// Seconds of the trace per second.
    pub(crate) const fn speed(&self) -> f64 {
        self.speed
    }

    /// Divides the trace into one partition per agent, in a folder.
    ///
    /// # Errors
    /// If the target is not allowed, or if the trace cannot be used.
    pub(crate) fn divide(
        &self,
        names: &[String],
        folder: &Path,
    ) -> Result<PartitionedTrace, Box<dyn std::error::Error>> {
        self.ownership.allow(self.server.iter().map(|server| server.at(53)))?;
        let hash = RendezvousHash::new(names);
        let (spool, rules) = self.changed()?;
        let (trace, reading) = self.read_from(spool.as_ref());
        let division = partition_trace(trace, &reading, self.selection(), rules.as_ref(), &hash, folder);
        let mut division = division.map_err(|error| self.named(error))?;
        self.print_left_out(&division.survey);
        if let Some(reason) = spool.as_ref().and_then(TempTrace::damaged) {
            division.survey.damaged = Some(reason.to_owned());
        }
        if !self.fast && division.survey.duration() > RUN_MAX {
            return Err(ReplayError::Long(division.survey.duration()).into());
        }
        Ok(division)
    }

    fn selection(&self) -> Selection {
        Selection {
            from: self.from,
            until: self.until,
            limit: self.limit,
            speed: self.speed,
            transport: self.only_transport(),
            partition: self.partition,
        }
    }

    /// The transport of all queries, if only one was given.
    fn only_transport(&self) -> Option<Transport> {
        match self.transport.as_deref() {
            Some([(transport, 1.0)]) => Some(transport_of(*transport)),
            _ => None,
        }
    }

    /// The changes of messages, if any. A partition was changed before it was divided.
    fn rules(&self) -> Result<Option<trace::mutate::Plan>, Box<dyn std::error::Error>> {
        if self.partition.is_some() {
            return Ok(None);
        }
        let transports = self.transport.clone().filter(|_| self.only_transport().is_none()).unwrap_or_default();
        let changes = Changes { transports, ..Changes::default() };
        let plan = self.mutation.plan(CommandChanges { changes, ..CommandChanges::default() })?;
        // An invalid plan is refused before anything is read.
        Mutator::new(plan.clone()).map_err(|error| error.to_string())?;
        Ok((plan != trace::mutate::Plan { seed: plan.seed, ..Default::default() }).then_some(plan))
    }

    /// The output of the filter command, if there is one. It already includes the rules.
    fn changed(&self) -> Result<(Option<TempTrace>, Option<trace::mutate::Plan>), Box<dyn std::error::Error>> {
        let rules = self.rules()?;
        match &self.filter_command {
            None => Ok((None, rules)),
            Some(command) => {
                hierarchy::refuse_stream(&self.trace)?;
                Ok((Some(TempTrace::make(&self.trace, &self.reading(), rules, command)?), None))
            }
        }
    }

    /// Names the filter command in the error if its output is read.
    fn named(&self, error: ReplayError) -> ReplayError {
        let is_live = self.stream && !matches!(error, ReplayError::NoQuery(_));
        match &self.filter_command {
            Some(command) if !is_live => error.of_program(command),
            _ => error,
        }
    }

    /// Prints which messages of the trace were not replayed: other protocols, or other dnstap sides.
    fn print_left_out(&self, survey: &Survey) {
        for (reason, count) in &survey.left_out {
            eprintln!("{}: {}", self.trace.display(), reason.line(*count));
        }
    }

    /// The input of the replay.
    fn read_from<'a>(&'a self, spool: Option<&'a TempTrace>) -> (&'a Path, trace::Options) {
        spool.map_or_else(|| (self.trace(), self.reading()), |spool| (spool.path(), trace::Options::default()))
    }

    fn reading(&self) -> trace::Options {
        trace::Options {
            format: self.format.as_ref().map(|named| named.0),
            ports: self.trace_ports.clone(),
            dnstap: self.sides.chosen(),
        }
    }

    fn replay(&self, open_files_max: u64) -> Result<Replay, Box<dyn std::error::Error>> {
        let late = match self.late {
            LateArgument::Slip => LatePolicy::Slip,
            LateArgument::Stop => LatePolicy::Stop(self.late_limit),
        };
        let live = self.filter_command.clone().filter(|_| self.stream);
        let (spool, rules) = if live.is_some() { (None, self.rules()?) } else { self.changed()? };
        let route = Route {
            servers: self.server.clone(),
            ports: self.ports.iter().copied().collect(),
            sources: self.sources,
            open_files_max,
            rules: rules.map(Arc::new),
            live,
        };
        let mode = ReplayMode { is_fast: self.fast, is_dependent: self.wait_for_answer, late };
        let (trace, reading) = self.read_from(spool.as_ref());
        let replay = Replay::new(trace, reading, self.selection(), mode, &route).map_err(|error| self.named(error))?;
        self.print_left_out(replay.survey());
        Ok(match spool {
            Some(spool) => replay.out_of(spool, &self.trace),
            None => replay,
        })
    }
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed: &f64| *speed > 0.0 && speed.is_finite());
    speed.ok_or_else(|| format!("{text} is not a speed; write 2 for twice as fast, 0.5 for half as fast"))
}
