//! A program that changes a trace while what it writes is read: nothing is written down, and it ends when nobody reads.

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

/// How often it is looked whether the program has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// So long the thread that feeds it may take to see that nobody reads any more.
const FED_END_MAX: Duration = Duration::from_secs(1);

/// The program, which runs, and the thread that feeds it. When this goes, the program is killed.
pub(crate) struct StreamingFilter {
    child: Child,
    /// What became of the feeding, once it has ended.
    fed: Receiver<Result<Option<String>, FilterError>>,
    kill_handle: KillHandle,
}

/// How it came to its end, if it has not failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StreamEnd {
    /// By itself.
    Whole,
    /// By itself, after a trace that could not be read on, for this reason.
    Damaged(String),
    /// From here, because no more of it was wanted.
    Stopped,
}

impl StreamingFilter {
    /// Starts a command of the shell, as a process group of its own: all that it starts ends with it, and a key that
    /// stops this program does not stop that one first.
    ///
    /// # Errors
    /// When there is no shell, or no thread.
    pub(crate) fn start(command: &str, fed: FilterInput, kill_handle: KillHandle) -> io::Result<(Reader, Self)> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = shell.spawn()?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        kill_handle.hold(child.id());
        let (tell, told) = channel();
        let live = Self { child, fed: told, kill_handle: kill_handle.clone() };
        let feed = move || {
            let mut pipe = Pipe::new(stdin);
            let fed = fed.feed(&mut pipe, || !kill_handle.is_stopped());
            // Nobody may want to know.
            let _told = tell.send(pipe.end().and(fed));
        };
        std::thread::Builder::new().name("through".into()).spawn(feed)?;
        Ok((read_lines(Box::new(BufReader::with_capacity(PIPE_BYTES, stdout))), live))
    }

    /// What ends it from elsewhere.
    pub(crate) fn kill_handle(&self) -> KillHandle {
        self.kill_handle.clone()
    }

    /// All that it writes has been read, of which this is the tally: waits for its end, which has to come soon.
    ///
    /// # Errors
    /// How the program failed, if it did; not when it was ended from here.
    pub(crate) fn end(mut self, lines: &Tally) -> Result<StreamEnd, String> {
        let status = self.wait().map_err(|error| error.to_string())?;
        if self.kill_handle.is_stopped() {
            return Ok(StreamEnd::Stopped);
        }
        let Some(status) = status else {
            return Err(format!("{} s after the end of what it wrote it was still there", LIVE_END_MAX.as_secs()));
        };
        if !status.success() {
            return Err(status.to_string());
        }
        if let Some(reason) = no_lines(lines) {
            return Err(reason);
        }
        match self.fed.recv_timeout(FED_END_MAX) {
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(Some(reason))) => Ok(StreamEnd::Damaged(reason)),
            // What the program has started and left behind holds the pipe; that it was not read to its end is no error.
            Ok(Ok(None)) | Err(RecvTimeoutError::Timeout) => Ok(StreamEnd::Whole),
            Err(RecvTimeoutError::Disconnected) => Err("what feeds it panicked".to_owned()),
        }
    }

    /// Nothing if it does not end in time.
    fn wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            let status = {
                // Nobody kills a group whose number may be another's by then.
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
        // The shell at least, where there is no `kill`; nothing happens to one that has ended.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
        // With nobody at the other end of its pipe it has nothing to wait for.
        let _fed = self.fed.recv_timeout(FED_END_MAX);
    }
}

/// Ends a program from another thread than the one that reads what it writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct KillHandle(Arc<Held>);

#[derive(Debug, Default)]
struct Held {
    /// Its process group, until it has ended.
    group: Mutex<Option<u32>>,
    is_stopped: AtomicBool,
    is_read: AtomicBool,
}

impl KillHandle {
    /// Kills the program and all that it has started; what it writes then ends.
    pub(crate) fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        if let Some(group) = self.group().take() {
            let _killed = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status();
        }
    }

    /// The same, unless all that it writes has been read: then it ends by itself, and it counts how.
    pub(crate) fn stop_unless_read(&self) {
        if !self.0.is_read.load(Ordering::Acquire) {
            self.stop();
        }
    }

    /// All that it writes has been read.
    pub(crate) fn note_read(&self) {
        self.0.is_read.store(true, Ordering::Release);
    }

    fn hold(&self, group: u32) {
        *self.group() = Some(group);
        // It may have been stopped before there was anything to stop.
        if self.is_stopped() {
            self.stop();
        }
    }

    /// Whether it was ended from here.
    fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }

    fn group(&self) -> MutexGuard<'_, Option<u32>> {
        self.0.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
