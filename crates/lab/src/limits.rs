//! Every bound of this crate.

/// Bytes of a name (RFC 1035 2.3.4).
pub const NAME_BYTES_MAX: usize = 255;
/// Labels and pointers that are followed in one name.
pub const POINTER_COUNT_MAX: usize = 256;
/// Messages that wait for an answer of one server.
pub const IN_FLIGHT_MAX: usize = 256;
/// TCP connections to one server at once.
pub const CONNECTIONS_MAX: usize = 4;

/// Bytes of a query of the load engine: more than any real one, with room for padding.
pub const QUERY_BYTES_MAX: usize = 4_096;
/// Bytes of a datagram that are kept; what matching needs lies far in front.
pub const RESPONSE_BYTES_KEPT: usize = 2_048;
/// The same where answers are checked: all that a datagram can have.
pub const RESPONSE_BYTES_CHECKED: usize = 65_535;
/// A run that is late goes on after its end for as long as it was to last, and for this time more.
pub const OVERDUE_MIN: std::time::Duration = std::time::Duration::from_secs(2);
/// Sockets of each worker to each server: each has a table of 2.5 MB.
pub const SOCKETS_MAX: usize = 256;
/// All stray sockets of a worker are read once in this number of 5 ms ticks.
pub const STRAY_CHECK_TICKS: usize = 16;
/// Threads that send.
pub const WORKERS_MAX: usize = 256;
/// Questions of which right answers are known.
pub const ANSWERS_MAX: usize = 5_000_000;
/// Bytes of a line in a file of answers.
pub const ANSWER_LINE_BYTES_MAX: u64 = 16 << 10;
/// Answers that each worker knows to be right by their bytes: 16 MB.
pub const RIGHT_BYTES_KEPT_MAX: usize = 1 << 20;
/// Wrong answers that are told of a run, the first ones.
pub const WRONG_ANSWERS_TOLD_MAX: usize = 10;
/// Number of RCODEs that `catlab compare` compares, most frequent first.
pub const COMPARED_RCODES_MAX: usize = 16;
/// Messages of one system call.
pub const BATCH_COUNT: usize = 64;
/// Longest query that fits every link, in bytes: the smallest one of IPv6 (RFC 8200 5) less the headers. Longer ones
/// may be fragmented, and do not go to the kernel together.
pub const UNFRAGMENTED_BYTES_MAX: usize = 1_232;
/// Send and receive buffer asked for each socket.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Reports of workers that wait for the collector.
pub const REPORTS_WAITING_MAX: usize = 64;
/// Empty histograms that are kept for the next second: 90 kB each, more after a long wait.
pub const HISTOGRAMS_KEPT_MAX: usize = 240;
/// The longest latency told apart: 100 minutes.
pub const LATENCY_MAX_NS: u64 = 6_000_000_000_000;
/// Closer together, readings would load the machine that is measured.
pub const MONITOR_INTERVAL_MIN: std::time::Duration = std::time::Duration::from_millis(20);
/// Descriptors of a watched process that are looked at.
pub const DESCRIPTORS_READ_MAX: usize = 100_000;
/// Processes of a control group, or of one process and what it started, that are watched.
pub const WATCHED_PROCESSES_MAX: usize = 256;
/// Control groups below one that is watched, itself among them, whose processes are listed.
pub const CGROUPS_READ_MAX: usize = 256;
/// Samples for which the list of a process's sockets holds.
pub const SOCKETS_AGE_MAX: u32 = 10;
/// Samples of all sources that a run keeps: ten sources for a day, each second.
pub const SAMPLES_MAX: usize = 864_000;
/// Metrics of a Prometheus endpoint that are kept of one reading.
pub const METRICS_MAX: usize = 500;
/// Bytes of such a reading.
pub const METRICS_BODY_BYTES_MAX: u64 = 4 << 20;
/// How long such a reading may take at each step.
pub const METRICS_TIMEOUT_MS: u64 = 500;
/// Marks of a run.
pub const MARKS_MAX: usize = 10_000;
/// Bytes of the file of marks that are read at once, and of its longest line.
pub const MARK_BYTES_MAX: u64 = 64 << 10;
/// The longest run: each of its seconds is kept, with some ten kilobytes.
pub const RUN_MAX: std::time::Duration = std::time::Duration::from_secs(86_400);
/// How long a client of the run's own endpoint may take at each step.
pub const EXPORTER_WAIT_MS: u64 = 500;
/// How often a rate is tried again that this tool could not send.
pub const TOOL_RETRIES_MAX: usize = 2;
/// From one look of the freshness probe to the next.
pub const FRESHNESS_POLL: std::time::Duration = std::time::Duration::from_micros(300);
/// Updates of a freshness probe.
pub const FRESHNESS_ROUNDS_MAX: usize = 1_000_000;
/// How long the probe waits for the answer to an update.
pub const FRESHNESS_PATIENCE: std::time::Duration = std::time::Duration::from_secs(6);
/// After how long it sends the same bytes again.
pub const FRESHNESS_RETRY: std::time::Duration = std::time::Duration::from_secs(3);
/// A step of a handshake that waits for longer on this side is counted: the server is not to blame for it.
pub const HANDSHAKE_WAIT_MAX: std::time::Duration = std::time::Duration::from_millis(1);
/// Queries of a connection that are remembered after their time-out, so that late answers are known.
pub const CONNECTION_LATE_COUNT_MAX: usize = 1_024;
/// Bytes of one read from a connection.
pub const STREAM_READ_BYTES: usize = 64 << 10;
/// Bytes that wait for the kernel on one connection; with more, nothing more is sent on it.
pub const STREAM_UNSENT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a message after two bytes of length (RFC 1035 4.2.2).
pub const STREAM_MESSAGE_BYTES_MAX: usize = 65_535;
/// TLS sessions that are kept for resumption, for each worker.
pub const TLS_TICKETS_MAX: usize = 32_768;
/// Events of one look at the connections.
pub const EVENTS_MAX: usize = 1_024;
/// Queries that wait on one connection, unless the command line says otherwise.
pub const CONNECTION_IN_FLIGHT_DEFAULT: usize = 1_000;
/// Queries of one worker that wait or have timed out lately and have a row in `queries.parquet`.
pub const PER_QUERY_WAITING_MAX: usize = 1 << 20;
/// Queries that go to the writer of `queries.parquet` together.
pub const PER_QUERY_CHUNK_ROWS: usize = 4_096;
/// Times as many that it may be behind a worker: some 20 MB.
pub const PER_QUERY_CHUNKS: usize = 32;
/// Queries of a row group: 30 chunks, as many as readers like to take at once.
pub const PER_QUERY_GROUP_ROWS: usize = 122_880;
/// Groups of clients in a population.
pub const GROUPS_MAX: usize = 1_000;
/// Clients of a population.
pub const CLIENTS_MAX: usize = 10_000_000;
/// Sources of a trace that is sent again, each counted once for each transport: some 100 bytes each.
pub const REPLAY_SOURCES_MAX: usize = 4 << 20;
/// Bytes of a trace that are read ahead for all workers together.
pub const REPLAY_WINDOW_BYTES: usize = 64 << 20;
/// Bytes that go from the reader to a worker together.
pub const REPLAY_BLOCK_BYTES: usize = 64 << 10;
/// Blocks of each worker, however many workers there are.
pub const REPLAY_BLOCKS_MIN: usize = 16;
/// Bytes of queries of one worker that wait for the answer to the one before them.
pub const REPLAY_HELD_BYTES: usize = 64 << 20;
/// Sources that are looked at whether they are addresses of this machine.
pub const REPLAY_ADDRESSES_CHECKED: usize = 4_096;
/// A longer pause in a trace is taken for a clock that was set.
pub const TRACE_GAP_MAX: std::time::Duration = RUN_MAX;
/// So is a step back that is longer.
pub const TRACE_BACK_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Receive buffer asked for each socket that is one source's alone.
pub const SOURCE_BUFFER_BYTES: usize = 256 << 10;
/// How long a program that changes a trace meanwhile (`--stream`) may be there after the end of what it writes.
pub const LIVE_END_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// So long after its first query what such a program has written is sent, though it is not as much as may be read
/// ahead.
pub const LIVE_LOAD_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// From then on workers have what it has written after so long, however little it is.
pub const LIVE_GATHER_MAX: std::time::Duration = std::time::Duration::from_millis(100);
/// Bytes of a trace that is not in the order of time that are looked at to put it in order.
pub const REPLAY_REORDER_BYTES: usize = 64 << 20;
/// Processes that carry a run out together.
pub const AGENTS_MAX: usize = 256;
/// Bytes of a message that carries a chunk of a file: larger ones make nats-server 2.9 drop slow consumers.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Pieces that are asked for together, and their bytes.
pub const CHUNKS_PULLED_MAX: usize = 32;
/// See [`CHUNKS_PULLED_MAX`].
pub const PULLED_BYTES_MAX: usize = 4 << 20;
/// Bytes of chunks that wait in the NATS server; with more the sender waits.
pub const STREAM_BYTES_MAX: i64 = 64 << 20;
/// A transfer fails after this time without a chunk, or without room for one.
pub const CHUNK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
/// How long an agent waits for the first chunk of its input: other agents may be served first.
pub const SHARE_WAIT_MAX: std::time::Duration = RUN_MAX;
/// Bytes of the share of an agent, and of what it sends back.
pub const SPOOL_BYTES_MAX: u64 = 64 << 30;
/// Files of a run folder that an agent sends back.
pub const BUNDLE_FILES_MAX: usize = 64;
/// Bytes of a command to an agent.
pub const COMMAND_BYTES_MAX: usize = CHUNK_BYTES_MAX;
/// Files of an order: one of each content.
pub const INPUT_FILES_MAX: usize = 6;
/// Words of a plan that goes to agents.
pub const ORDER_ARGS_MAX: usize = 1_000;
/// Bytes of the name of an agent.
pub const AGENT_NAME_BYTES_MAX: usize = 64;
/// Between two heartbeats of an agent or of the controller.
pub const HEARTBEAT_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);
/// How often an agent is asked for its time.
pub const CLOCK_SAMPLES: usize = 16;
/// From the command to start to the start: every agent has it by then, and its connections open.
pub const START_LEAD: std::time::Duration = std::time::Duration::from_secs(3);
/// An agent that began later than agreed by more than this spoils the run.
pub const START_LATE_MAX: std::time::Duration = std::time::Duration::from_millis(50);
/// Bytes of a file of rules for traces.
pub const RULES_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a file with the key of anonymized traces.
pub const KEY_BYTES_MAX: u64 = 4_096;

/// Questions of one harvest.
pub const HARVEST_QUESTIONS_MAX: usize = 2_000_000;

/// How often a question of a harvest is sent before it counts as unanswered.
pub const HARVEST_SENDS: u32 = 3;

/// Bytes of an answer that a harvest takes over UDP: its own are of no interest.
pub const HARVEST_PAYLOAD: u16 = 1_232;

/// Connections to the servers of a hierarchy, for each thread; more wait to be accepted.
pub const EMULATED_CONNECTIONS_MAX: usize = 4_096;
/// How long such a connection may be silent (RFC 7766 6.2.3).
pub const EMULATED_IDLE_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// Threads that answer for the servers of a hierarchy.
pub const EMULATED_THREADS_MAX: usize = 64;
/// Questions that a resolver is asked one after the other.
pub const RESOLVER_QUESTIONS_MAX: usize = 1_000_000;
/// Bytes of a file of such questions.
pub const QUESTIONS_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a file with the trust anchor of a resolver.
pub const ANCHOR_BYTES_MAX: u64 = 64 << 10;

/// Port of the server under test of the first level of a hierarchy.
pub const BACKEND_PORT: u16 = 5_301;

/// Ports for each of these servers: ours takes the one before, too.
pub const BACKEND_PORT_COUNT: u16 = 16;

/// How long such a server may take to answer.
pub const BACKEND_PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// Number of invalid query-file entries that are printed. All are counted.
pub const SKIPPED_SHOWN_MAX: usize = 5;
/// Characters of a word that are printed.
pub const WORD_SHOWN_MAX: usize = 80;
