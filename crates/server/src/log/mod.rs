//! What the program says on standard error: log lines, problems, panics.
//!
//! ```text
//!   tracing, say, panics --> LineQueue --> thread `log-writer` --> standard error
//! ```
//! Losing this output costs this output only: no caller waits for it, and no caller hears that it failed. A process
//! that must end does so whether it can say why or not.

mod writer;

pub(crate) use writer::LineQueue;

use crate::limits::{LOG_END_MS, LOG_FATAL_MS};
use crate::log_limit::LogLimit;
use crate::metrics::text::{Kind, Page};
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

/// Lines for standard error.
static STDERR: LineQueue = LineQueue::new();
/// Lines of `up` for standard output, which it must not wait for either.
static STDOUT: LineQueue = LineQueue::new();

/// What is logged; it can change.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// The libraries of the encrypted transports.
const LIBRARIES: [&str; 5] = ["h2", "quinn", "quinn_proto", "quinn_udp", "rustls"];

/// From now on log lines and panics go into the queue. They are written once [`start`] was called, or at the end.
pub(crate) fn init(level: Level) {
    std::panic::set_hook(Box::new(panicked));
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(&STDERR)
        .with_ansi(io::stderr().is_terminal())
        // Else a line that cannot be formatted is reported with `eprintln!`, which can block and panic.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    // It is called once.
    let _ = FILTER.set(handle);
}

/// From now on lines of this level and of those above it are logged.
pub(crate) fn set_level(level: Level) {
    if let Some(handle) = FILTER.get() {
        // It fails only once the subscriber is gone, with the process.
        let _ = handle.reload(filter(level));
    }
}

/// What libraries say of clients that break the rules is for operators who look for it; it is counted. A client must
/// not fill the disk.
fn filter(level: Level) -> Targets {
    let of_libraries = if level > Level::INFO { level } else { Level::ERROR };
    Targets::new().with_default(level).with_targets(LIBRARIES.map(|name| (name, of_libraries)))
}

/// Starts the thread that writes. A process with a sandbox calls it once it is inside: the thread inherits it.
pub(crate) fn start() {
    // Without a thread lines are lost and counted, which is no reason not to serve.
    let _ = STDERR.start("log-writer", || output(&io::stderr(), Box::new(io::stderr())), report_lost);
}

/// As [`start`], for what [`print_unattended`] prints.
pub(crate) fn start_stdout() {
    let _ = STDOUT.start("out-writer", || output(&io::stdout(), Box::new(io::stdout())), |_| {});
}

/// A handle of our own: the lock of the standard one would be held for as long as a write blocks.
fn output(of: &impl AsFd, otherwise: Box<dyn Write + Send>) -> Box<dyn Write + Send> {
    match of.as_fd().try_clone_to_owned() {
        Ok(own) => Box::new(File::from(own)),
        Err(_) => otherwise,
    }
}

fn report_lost(count: u64) {
    crate::warn_limited!(count, "log lines were lost: their output was full, closed or too slow");
}

/// Puts a text for a person on standard error, as it is.
pub(crate) fn say(text: impl Display) {
    STDERR.put(format!("{text}\n").as_bytes());
}

/// Puts a line on standard output, whose reader may be gone or slow.
pub(crate) fn print_unattended(line: &str) {
    STDOUT.put(format!("{line}\n").as_bytes());
}

/// Has everything written that can be written within a short time. The process is about to end.
pub(crate) fn flush() {
    flush_within(Duration::from_millis(LOG_END_MS));
}

fn flush_within(limit: Duration) {
    start();
    STDERR.wait_until_empty(limit);
    STDOUT.wait_until_empty(limit);
}

/// Says why, and ends the process by SIGABRT. It ends within [`LOG_FATAL_MS`] whether that can be said or not.
pub(crate) fn abort(why: impl Display) -> ! {
    say(why);
    flush_within(Duration::from_millis(LOG_FATAL_MS));
    std::process::abort()
}

/// Says why, and ends the process with this code; as [`abort`].
pub(crate) fn exit_at_once(exit: Exit, why: impl Display) -> ! {
    say(why);
    flush_within(Duration::from_millis(LOG_FATAL_MS));
    crate::node::system::exit_at_once(exit)
}

/// Ends the process when the thread or the task that holds it panics: without it the others would go on as if nothing
/// had happened.
pub(crate) struct Vital(String);

impl Vital {
    /// For a thread or a task of this name.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            abort(format_args!("catamaran: `{}` panicked, which is a bug; aborting", self.0));
        }
    }
}

/// A task that the process cannot be without, as [`Vital`].
pub(crate) async fn vital(name: &str, task: impl Future<Output = ()>) {
    let _vital = Vital::new(name);
    task.await;
}

/// The panic hook: as the usual one, through the queue.
fn panicked(panic: &PanicHookInfo<'_>) {
    // Messages of strangers may meet a bug again and again.
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
    // The process ends with its first thread, which does not come to its own flush.
    if name == "main" {
        flush();
    }
}

/// Writes the metrics of the log.
pub(crate) fn write_metrics(page: &mut Page) {
    let help = "Log lines that were lost: their output was full, closed or too slow.";
    page.single("catamaran_log_lines_lost_total", Kind::Counter, help, STDERR.lost());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus, Stdio};
    use std::time::Instant;

    const CHILD: &str = "CATAMARAN_TEST_VITAL";

    /// The test again, in a process of its own, with this for its standard error.
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
            "task" => drop(runtime.spawn(vital("task", async { panic!("a bug") }))),
            _ => drop(std::thread::spawn(|| {
                let _vital = Vital::new("thread");
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
