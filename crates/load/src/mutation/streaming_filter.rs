//! A filter command whose output is sent while it runs. The output is not stored, and the command is killed when it is
//! no longer needed.

use super::filter_command::PIPE_BYTES;
use super::{FilterError, FilterInput, Pipe, no_lines};
use crate::limits::LIVE_END_MAX;
use std::io::{self, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trace::{Reader, Tally, read_lines};

/// Interval of the check whether the command has exited.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long the feeding thread may take to notice that the command has closed its input.
const FED_END_MAX: Duration = Duration::from_secs(1);

/// The running command, and the thread that feeds it. The command is killed on drop.
pub(crate) struct StreamingFilter {
    child: Child,
    /// The outcome of feeding.
    input_result: Receiver<Result<Option<String>, FilterError>>,
    kill_handle: KillHandle,
}

/// How the command ended, if it did not fail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StreamEnd {
    /// It exited by itself.
    Whole,
    /// It exited by itself, after its input ended early because the trace is damaged, for this reason.
    Damaged(String),
    /// It was killed because no further output was needed.
    Stopped,
}

impl StreamingFilter {
    /// Starts a shell command as its own process group. All its processes are killed together, and Ctrl-C in the
    /// terminal does not reach it.
    ///
    /// # Errors
    /// If there is no shell, or the thread cannot be started.
    pub(crate) fn start(command: &str, input: FilterInput, kill_handle: KillHandle) -> io::Result<(Reader, Self)> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = shell.spawn()?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        kill_handle.set_group(child.id());
        let (result_sender, input_result) = channel();
        let live = Self { child, input_result, kill_handle: kill_handle.clone() };
        let feed = move || {
            let mut pipe = Pipe::new(stdin);
            let result = input.feed(&mut pipe, || !kill_handle.is_stopped());
            // The receiver may be gone.
            let _sent = result_sender.send(pipe.end().and(result));
        };
        std::thread::Builder::new().name("through".into()).spawn(feed)?;
        Ok((read_lines(Box::new(BufReader::with_capacity(PIPE_BYTES, stdout))), live))
    }

    /// A handle to kill the command.
    pub(crate) fn kill_handle(&self) -> KillHandle {
        self.kill_handle.clone()
    }

    /// Waits for the command to exit soon after its output was read. `lines` counts that output.
    ///
    /// # Errors
    /// If the command failed, unless it was killed.
    pub(crate) fn end(mut self, lines: &Tally) -> Result<StreamEnd, String> {
        let status = self.wait().map_err(|error| error.to_string())?;
        if self.kill_handle.is_stopped() {
            return Ok(StreamEnd::Stopped);
        }
        let Some(status) = status else {
            return Err(format!("it was still running {} s after the end of its output", LIVE_END_MAX.as_secs()));
        };
        if !status.success() {
            return Err(status.to_string());
        }
        if let Some(reason) = no_lines(lines) {
            return Err(reason);
        }
        match self.input_result.recv_timeout(FED_END_MAX) {
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(Some(reason))) => Ok(StreamEnd::Damaged(reason)),
            // A child process of the command may keep the pipe open. Unread input is not an error.
            Ok(Ok(None)) | Err(RecvTimeoutError::Timeout) => Ok(StreamEnd::Whole),
            Err(RecvTimeoutError::Disconnected) => Err("the thread that feeds it panicked".to_owned()),
        }
    }

    /// Waits for the exit. `None` if it takes too long.
    fn wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            let status = {
                // While this lock is held, the group is not killed: its number may belong to another process.
                let mut group = self.kill_handle.group();
                let status = self.child.try_wait()?;
                if status.is_some() {
                    *group = None;
                }
                status
            };
            if status.is_some() || start.elapsed() > LIVE_END_MAX {
                return Ok(status);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for StreamingFilter {
    fn drop(&mut self) {
        self.kill_handle.stop();
        // Without `kill`, this kills at least the shell. It does nothing if the shell has exited.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        // The feeding thread ends because its pipe is closed.
        let _ended = self.input_result.recv_timeout(FED_END_MAX);
    }
}

/// Kills a command, from any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct KillHandle(Arc<FilterProcess>);

#[derive(Debug, Default)]
struct FilterProcess {
    /// Its process group, until it has exited.
    group: Mutex<Option<u32>>,
    is_stopped: AtomicBool,
    is_read: AtomicBool,
}

impl KillHandle {
    /// Kills the command and all its child processes, which ends its output.
    pub(crate) fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        if let Some(group) = self.group().take() {
            let _killed = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status();
        }
    }

    /// The same, unless all its output was read. Then it exits by itself, and its exit status counts.
    pub(crate) fn stop_unless_read(&self) {
        if !self.0.is_read.load(Ordering::Acquire) {
            self.stop();
        }
    }

    /// All its output was read.
    pub(crate) fn note_read(&self) {
        self.0.is_read.store(true, Ordering::Release);
    }

    fn set_group(&self, group: u32) {
        *self.group() = Some(group);
        // The command may have been stopped before it was started.
        if self.is_stopped() {
            self.stop();
        }
    }

    /// Whether it was killed by this program.
    fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }

    fn group(&self) -> MutexGuard<'_, Option<u32>> {
        self.0.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
