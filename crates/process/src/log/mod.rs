//! Output on standard error: log lines, error messages, panics.
//!
//! ```text
//!   tracing, say, panics --> LineQueue --> thread `log-writer` --> standard error
//! ```
//! No caller waits for this output, and no caller sees an error if it is lost. A process that must end does so even if
//! it cannot report why.

mod writer;

use writer::LineQueue;

use crate::limits::{LOG_END_MS, LOG_FATAL_MS};
use crate::log_limit::LogLimit;
use crate::problem::Exit;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::time::Duration;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

/// Queue for standard error.
static STDERR: LineQueue = LineQueue::new();
/// Queue for the lines of `up` on standard output, which must not block `up` either.
static STDOUT: LineQueue = LineQueue::new();

/// The log filter. A reload can change it.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Libraries of the encrypted transports.
const LIBRARIES: [&str; 5] = ["h2", "quinn", "quinn_proto", "quinn_udp", "rustls"];

/// Sends log lines and panics to the queue. They are written after [`start`], or by [`flush`].
pub fn init(level: Level) {
    std::panic::set_hook(Box::new(panicked));
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(&STDERR)
        .with_ansi(io::stderr().is_terminal())
        // Otherwise tracing reports a line that it cannot format with `eprintln!`, which can block and panic.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    // `init` runs once, so the handle is not set yet.
    let _ = FILTER.set(handle);
}

/// Sets the log level.
pub fn set_level(level: Level) {
    if let Some(handle) = FILTER.get() {
        // It fails only after the subscriber is gone, when the process ends.
        let _ = handle.reload(filter(level));
    }
}

/// Libraries log protocol errors of clients, which metrics count. Up to level `info`, only the libraries' ERROR lines
/// are logged, so that a client cannot fill the disk.
fn filter(level: Level) -> Targets {
    let of_libraries = if level > Level::INFO { level } else { Level::ERROR };
    Targets::new().with_default(level).with_targets(LIBRARIES.map(|name| (name, of_libraries)))
}

/// Starts the writer thread. A process with a sandbox calls it inside the sandbox, so that the thread inherits it.
pub fn start() {
    // Without the thread, lines are lost and counted. The node can still serve.
    let _ = STDERR.start("log-writer", || output(&io::stderr(), Box::new(io::stderr())), report_lost);
}

/// Starts the writer thread for [`print_unattended`].
pub fn start_stdout() {
    let _ = STDOUT.start("out-writer", || output(&io::stdout(), Box::new(io::stdout())), |_| {});
}

/// A duplicate of the handle: the lock of the standard one would be held for as long as a write blocks.
fn output(of: &impl AsFd, otherwise: Box<dyn Write + Send>) -> Box<dyn Write + Send> {
    match of.as_fd().try_clone_to_owned() {
        Ok(own) => Box::new(File::from(own)),
        Err(_) => otherwise,
    }
}

fn report_lost(count: u64) {
    crate::warn_limited!(count, "log lines were lost: their output was full, closed or too slow");
}

/// Queues a text for standard error, without level or time.
pub fn say(text: impl Display) {
    STDERR.put(format!("{text}\n").as_bytes());
}

/// Queues a line for standard output. The reader may be gone or slow.
pub fn print_unattended(line: &str) {
    STDOUT.put(format!("{line}\n").as_bytes());
}

/// Waits a short time until the queues are written. Called before the process ends.
pub fn flush() {
    flush_within(Duration::from_millis(LOG_END_MS));
}

fn flush_within(limit: Duration) {
    start();
    STDERR.wait_until_empty(limit);
    STDOUT.wait_until_empty(limit);
}

/// Logs the reason and ends the process by SIGABRT, within [`LOG_FATAL_MS`] even if the log is blocked.
pub fn abort(why: impl Display) -> ! {
    say(why);
    flush_within(Duration::from_millis(LOG_FATAL_MS));
    std::process::abort()
}

/// Logs the reason and ends the process with this exit code, as [`abort`] does.
pub fn exit_at_once(exit: Exit, why: impl Display) -> ! {
    say(why);
    flush_within(Duration::from_millis(LOG_FATAL_MS));
    crate::exit::exit_at_once(exit)
}

/// Ends the process if the thread or task that holds it panics. Otherwise the other threads would continue without it.
pub struct AbortOnPanic(String);

impl AbortOnPanic {
    /// `name` is the thread or task, for the error message.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            abort(format_args!("catamaran: `{}` panicked, which is a bug; aborting", self.0));
        }
    }
}

/// Runs a task whose panic ends the process; see [`AbortOnPanic`].
pub async fn abort_on_panic(name: &str, task: impl Future<Output = ()>) {
    let _abort_on_panic = AbortOnPanic::new(name);
    task.await;
}

/// The panic hook. It writes the usual message, through the queue.
fn panicked(panic: &PanicHookInfo<'_>) {
    // Messages of clients may trigger the same bug many times.
    static LIMIT: LogLimit = LogLimit::new();
    let Some(admitted) = LIMIT.admit() else { return };
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("?");
    let what = panic.payload_as_str().unwrap_or("no text");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let suppressed = admitted.suppressed.map(|count| format!(" ({count} panics before it are left out)"));
    say(format_args!("thread '{name}' panicked at {place}{}:\n{what}", suppressed.unwrap_or_default()));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        say(backtrace);
    }
    // A panic of the main thread ends the process before the flush at its end.
    if name == "main" {
        flush();
    }
}

/// The number of log lines that were lost: their output was full, closed or too slow.
#[must_use]
pub fn lost_lines() -> u64 {
    STDERR.lost()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus, Stdio};
    use std::time::Instant;

    const CHILD: &str = "CATAMARAN_TEST_VITAL";

    /// Runs this test in a child process with the given standard error.
    fn child(how: &str, stderr: Stdio) -> ExitStatus {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "log::tests::a_panic_of_a_vital_thread_or_task_ends_the_process", "--nocapture"])
            .env(CHILD, how)
            .stdout(Stdio::null())
            .stderr(stderr)
            .status()
            .unwrap()
    }

    fn panic_in(how: &str) {
        std::panic::set_hook(Box::new(panicked));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        match how {
            "task" => drop(runtime.spawn(abort_on_panic("task", async { panic!("a bug") }))),
            _ => drop(std::thread::spawn(|| {
                let _abort_on_panic = AbortOnPanic::new("thread");
                panic!("a bug");
            })),
        }
        std::thread::sleep(Duration::from_secs(20));
    }

    #[test]
    fn a_panic_of_a_vital_thread_or_task_ends_the_process() {
        if let Ok(how) = std::env::var(CHILD) {
            return panic_in(&how);
        }
        for how in ["task", "thread"] {
            let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
            assert_eq!(child(how, full.into()).signal(), Some(libc::SIGABRT), "{how}");
            let (_reader, mut stalled) = std::io::pipe().unwrap();
            stalled.write_all(&[b'\n'; 64 << 10]).unwrap();
            let start = Instant::now();
            assert_eq!(child(how, stalled.into()).signal(), Some(libc::SIGABRT), "{how}");
            assert!(start.elapsed() < Duration::from_secs(15), "{how}");
        }
    }
}
