//! Every bound of this crate.

/// Sockets per worker and server. Each has a table of 2.5 MB.
pub const SOCKETS_MAX: usize = 256;
/// Sending threads.
pub const WORKERS_MAX: usize = 256;
/// Questions with expected answers.
pub const ANSWERS_MAX: usize = 5_000_000;
/// Maximum length of a line in a file of answers.
pub const ANSWER_LINE_BYTES_MAX: u64 = 16 << 10;
/// Answers that each worker recognizes by their bytes: 16 MB.
pub const RIGHT_BYTES_KEPT_MAX: usize = 1 << 20;
/// Minimum interval of samples. More would load the monitored machine.
pub const MONITOR_INTERVAL_MIN: std::time::Duration = std::time::Duration::from_millis(20);
/// Maximum number of descriptors read of a monitored process.
pub const DESCRIPTORS_READ_MAX: usize = 100_000;
/// Maximum number of monitored processes of a control group, or of a process and its descendants.
pub const WATCHED_PROCESSES_MAX: usize = 256;
/// Maximum number of control groups below a monitored one, including itself.
pub const CGROUPS_READ_MAX: usize = 256;
/// The list of a process's sockets is refreshed after this many samples.
pub const SOCKETS_AGE_MAX: u32 = 10;
/// Maximum number of samples per run: ten sources for a day, one per second.
pub const SAMPLES_MAX: usize = 864_000;
/// Maximum size of a reading of a Prometheus endpoint.
pub const METRICS_BODY_BYTES_MAX: u64 = 4 << 20;
/// Timeout of each step of such a reading, in milliseconds.
pub const METRICS_TIMEOUT_MS: u64 = 500;
/// Maximum number of marks per run.
pub const MARKS_MAX: usize = 10_000;
/// Maximum number of bytes read at once from the file of marks, and of its longest line.
pub const MARK_BYTES_MAX: u64 = 64 << 10;
/// Timeout of each step for a client of the run's metrics endpoint, in milliseconds.
pub const EXPORTER_WAIT_MS: u64 = 500;
/// Retries of a rate that this tool could not send.
pub const TOOL_RETRIES_MAX: usize = 2;
/// Interval between two queries of the freshness probe.
pub const FRESHNESS_POLL: std::time::Duration = std::time::Duration::from_micros(300);
/// Maximum number of updates of a freshness probe.
pub const FRESHNESS_ROUNDS_MAX: usize = 1_000_000;
/// Timeout of an update of the probe.
pub const FRESHNESS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(6);
/// The probe repeats an update after this time.
pub const FRESHNESS_RETRY: std::time::Duration = std::time::Duration::from_secs(3);
/// Maximum number of agents in a run.
pub const AGENTS_MAX: usize = 256;
/// How long an agent waits for the first chunk of its input: other agents may be served first.
pub const SHARE_WAIT_MAX: std::time::Duration = load::limits::RUN_MAX;
/// Maximum size of an agent's input, and of its results.
pub const SPOOL_BYTES_MAX: u64 = 64 << 30;
/// Maximum number of input files of an assignment: one of each content.
pub const INPUT_FILES_MAX: usize = 6;
/// Maximum number of arguments of a plan for agents.
pub const ORDER_ARGS_MAX: usize = 1_000;
/// Maximum length of an agent's name.
pub const AGENT_NAME_BYTES_MAX: usize = 64;
/// Interval of heartbeats.
pub const HEARTBEAT_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);
/// Number of clock samples per agent.
pub const CLOCK_SAMPLES: usize = 16;
/// Time from the start command to the start. Agents receive it and open connections in this time.
pub const START_LEAD: std::time::Duration = std::time::Duration::from_secs(3);
/// Maximum size of a key file for anonymized traces.
pub const KEY_BYTES_MAX: u64 = 4_096;

/// Maximum number of questions in a harvest.
pub const HARVEST_QUESTIONS_MAX: usize = 2_000_000;

/// How often a harvest sends a question.
pub const HARVEST_SENDS: u32 = 3;

/// UDP payload size of a harvest. Its own answers are not used.
pub const HARVEST_PAYLOAD: u16 = 1_232;

/// Connections per thread to the servers of a hierarchy. Others wait in the accept queue.
pub const EMULATED_CONNECTIONS_MAX: usize = 4_096;
/// Idle timeout of such a connection (RFC 7766 6.2.3).
pub const EMULATED_IDLE_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// Maximum number of threads that serve a hierarchy.
pub const EMULATED_THREADS_MAX: usize = 64;
/// Maximum number of questions for a resolver.
pub const RESOLVER_QUESTIONS_MAX: usize = 1_000_000;
/// Maximum size of a file of such questions.
pub const QUESTIONS_BYTES_MAX: u64 = 256 << 20;
/// Maximum size of a trust anchor file.
pub const ANCHOR_BYTES_MAX: u64 = 64 << 10;

/// The port of the servers of an emulated hierarchy.
pub const EMULATED_PORT: u16 = 53;
/// Port of the server under test for the first level of a hierarchy.
pub const BACKEND_PORT: u16 = 5_301;

/// Number of ports for each of these servers. Catamaran also uses the port before its own.
pub const BACKEND_PORT_COUNT: u16 = 16;

/// How long such a server may take to answer.
pub const BACKEND_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);
