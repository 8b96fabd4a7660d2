//! Receives the commands of a controller and replies.

use super::run::{PreparedRun, RunFolder};
use crate::controller;
use async_nats::Message;
use fleet::limits::COMMAND_BYTES_MAX;
use fleet::{
    AgentInfo, Assignment, Bus, BusError, Command, Content, Envelope, Heartbeat, InputFile, Kind, Phase, Reply, is_run,
    next, subjects, wall_ns,
};
use lab::limits::{AGENTS_MAX, HEARTBEAT_INTERVAL, INPUT_FILES_MAX, SHARE_WAIT_MAX, SPOOL_BYTES_MAX};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

/// Maximum number of queued events.
const EVENT_QUEUE_MAX: usize = 16;
/// How long a stopped run may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest and longest time without a heartbeat after which a controller is lost.
const SILENCE_RANGE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(600));
/// A start farther ahead is rejected.
const START_AHEAD_MAX: Duration = Duration::from_secs(60);

/// Handles the commands of controllers.
pub(crate) struct CommandHandler {
    bus: Bus,
    info: AgentInfo,
    spool: PathBuf,
    /// Whether it may load servers that are neither on loopback nor in private ranges.
    is_owned: bool,
    active: Option<ActiveRun>,
    /// The folder of the previous run, while a thread still uses it.
    previous_folder: Weak<RunFolder>,
    events: (Sender<RunEvent>, Receiver<RunEvent>),
    /// Number of runs that it was released from.
    runs: u64,
}

/// The run that this agent takes part in.
struct ActiveRun {
    run: String,
    silence: Duration,
    folder: Arc<RunFolder>,
    phase: Phase,
    prepared: Option<Box<PreparedRun>>,
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicU8>,
    heard: Instant,
    /// The task that receives the input or sends the run folder.
    transfer: Option<AbortHandle>,
}

/// The run, and what happened.
type RunEvent = (String, Event);

/// A background task of a run has ended.
enum Event {
    Prepared(Result<Box<PreparedRun>, String>),
    Ran(Result<Phase, String>),
    Sent(Result<(), String>),
}

impl CommandHandler {
    pub(crate) fn new(bus: Bus, info: AgentInfo, spool: PathBuf, is_owned: bool) -> Self {
        let events = channel(EVENT_QUEUE_MAX);
        Self { bus, info, spool, is_owned, active: None, previous_folder: Weak::new(), events, runs: 0 }
    }

    /// Takes part in runs until the user stops it, or in one run if `is_once` is set. Calls `ready` once it listens for
    /// commands.
    ///
    /// # Errors
    /// The connection to the NATS server is lost.
    pub(crate) async fn serve(
        &mut self,
        runs_max: Option<u64>,
        stops: &dyn Fn() -> u8,
        ready: impl FnOnce(),
    ) -> Result<(), BusError> {
        let mut hails = self.bus.subscribe(subjects::DISCOVER.to_owned()).await?;
        let mut commands = self.bus.subscribe(subjects::commands(&self.info.id)).await?;
        ready();
        let mut heartbeat = tokio::time::interval(HEARTBEAT_INTERVAL);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stops() == 0 && runs_max.is_none_or(|most| self.runs < most) {
            tokio::select! {
                hail = next(&mut hails) => self.answer_discovery(hail).await?,
                command = next(&mut commands) => self.handle_message(command).await?,
                Some((run, event)) = self.events.1.recv() => self.handle_event(&run, event).await?,
                _ = heartbeat.tick() => self.send_heartbeat().await?,
            }
        }
        self.release("the agent was stopped");
        // A stopped run ends soon and removes its folder.
        let began = Instant::now();
        while self.previous_folder.strong_count() > 0 && began.elapsed() < STOP_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.active.is_none() && self.previous_folder.strong_count() == 0
    }

    async fn answer_discovery(&self, hail: Option<Message>) -> Result<(), BusError> {
        let hail = hail.ok_or_else(connection_closed)?;
        if self.is_idle() { self.bus.reply(&hail, &self.info).await } else { Ok(()) }
    }

    async fn handle_message(&mut self, message: Option<Message>) -> Result<(), BusError> {
        let message = message.ok_or_else(connection_closed)?;
        let reply = match serde_json::from_slice::<Envelope>(&message.payload) {
            _ if message.payload.len() > COMMAND_BYTES_MAX => {
                Reply::Refused { reason: "the command is too long".into() }
            }
            Ok(envelope) => self.handle(envelope).unwrap_or_else(|reason| Reply::Refused { reason }),
            Err(error) => Reply::Refused { reason: format!("cannot parse the command: {error}") },
        };
        self.bus.reply(&message, &reply).await
    }

    fn handle(&mut self, Envelope { run, command }: Envelope) -> Result<Reply, String> {
        if let Command::Assign(assignment) = command {
            return self.accept_assignment(run, *assignment);
        }
        let active =
            self.active.as_mut().filter(|active| active.run == run).ok_or("it does not take part in this run")?;
        active.heard = Instant::now();
        match command {
            Command::Clock => return Ok(Reply::Clock { now_ns: wall_ns() }),
            Command::Start { at_ns } => self.start(at_ns)?,
            Command::Stop => {
                active.stop.fetch_max(active.stop.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
            }
            Command::Collect => self.send()?,
            Command::Release => self.release("released by the controller"),
            Command::Heartbeat | Command::Assign(_) => {}
        }
        Ok(Reply::Accepted)
    }

    /// Joins a run: fetches and reads its input. No query is sent yet.
    fn accept_assignment(&mut self, run: String, assignment: Assignment) -> Result<Reply, String> {
        if !is_run(&run) {
            return Err("invalid run name".into());
        }
        if !self.is_idle() {
            return Err("it is busy with another run".into());
        }
        controller::check_args(assignment.kind, &assignment.args)?;
        if assignment.count > AGENTS_MAX || assignment.index >= assignment.count {
            return Err(format!("it cannot be number {} of {}", assignment.index, assignment.count));
        }
        check_files(assignment.kind, &assignment.files, self.bus.is_private())?;
        let folder = RunFolder::make(&self.spool, &run, &self.info.id);
        let folder = Arc::new(folder.map_err(|error| format!("{}: {error}", self.spool.display()))?);
        lab::print(format_args!("run {run}: {}\n", if assignment.kind == Kind::Load { "load" } else { "replay" }));
        self.active = Some(ActiveRun {
            run: run.clone(),
            silence: Duration::from_millis(assignment.silence_ms).clamp(SILENCE_RANGE.0, SILENCE_RANGE.1),
            folder: Arc::clone(&folder),
            phase: Phase::Spooling,
            prepared: None,
            sent: Arc::default(),
            stop: Arc::default(),
            heard: Instant::now(),
            transfer: None,
        });
        let (bus, id, is_owned, events) =
            (self.bus.clone(), self.info.id.clone(), self.is_owned, self.events.0.clone());
        let transfer = tokio::spawn(async move {
            let prepared = prepare(&bus, &run, &id, assignment, &folder, is_owned).await;
            // The receiver outlives this task.
            let _told = events.send((run, Event::Prepared(prepared))).await;
        });
        if let Some(active) = &mut self.active {
            active.transfer = Some(transfer.abort_handle());
        }
        Ok(Reply::Accepted)
    }

    fn start(&mut self, at_ns: u64) -> Result<(), String> {
        let events = self.events.0.clone();
        let active = self.active.as_mut().ok_or("it does not take part in a run")?;
        if at_ns.saturating_sub(wall_ns()) > START_AHEAD_MAX.as_nanos() as u64 {
            return Err("the start is too far ahead".into());
        }
        let prepared = active.prepared.take().ok_or("it is not ready")?;
        active.phase = Phase::Running;
        let (run, folder) = (active.run.clone(), Arc::clone(&active.folder));
        let (sent, stop) = (Arc::clone(&active.sent), Arc::clone(&active.stop));
        let work = move || {
            let ran = prepared.run(at_ns, &folder, &sent, &stop);
            drop(folder);
            // The receiver outlives this thread.
            let _told = events.blocking_send((run, Event::Ran(ran)));
        };
        let spawned = std::thread::Builder::new().name("run".into()).spawn(work);
        spawned.map(|_| ()).map_err(|error| format!("cannot start a thread: {error}"))
    }

    fn send(&mut self) -> Result<(), String> {
        let active = self.active.as_mut().filter(|active| matches!(active.phase, Phase::Finished { .. }));
        let active = active.ok_or("it has not ended")?;
        let (run, folder, bus) = (active.run.clone(), Arc::clone(&active.folder), self.bus.clone());
        let (subject, events) = (subjects::up(&run, &self.info.id), self.events.0.clone());
        let transfer = tokio::spawn(async move {
            let sent = bus.send_file(&subject, &folder.bundle()).await.map_err(|error| error.to_string());
            drop(folder);
            let _told = events.send((run, Event::Sent(sent))).await;
        });
        active.transfer = Some(transfer.abort_handle());
        Ok(())
    }

    /// A background task has ended.
    async fn handle_event(&mut self, run: &str, event: Event) -> Result<(), BusError> {
        let Some(active) = self.active.as_mut().filter(|active| active.run == run) else { return Ok(()) };
        let failed = |reason: String| Phase::Failed { reason };
        match event {
            Event::Prepared(Ok(prepared)) => {
                active.phase = Phase::Ready { queries: prepared.queries() };
                active.prepared = Some(prepared);
            }
            Event::Ran(Ok(phase)) => active.phase = phase,
            Event::Sent(Ok(())) => {}
            Event::Prepared(Err(reason)) | Event::Ran(Err(reason)) | Event::Sent(Err(reason)) => {
                eprintln!("run {run}: {reason}");
                active.phase = failed(reason);
            }
        }
        self.send_heartbeat().await
    }

    /// Sends a heartbeat, or releases a run whose controller sends none.
    async fn send_heartbeat(&mut self) -> Result<(), BusError> {
        let Some(active) = &self.active else { return Ok(()) };
        if active.heard.elapsed() > active.silence {
            self.release("no heartbeat from its controller");
            return Ok(());
        }
        let heartbeat = Heartbeat {
            id: self.info.id.clone(),
            phase: active.phase.clone(),
            sent: active.sent.load(Ordering::Relaxed),
        };
        self.bus.publish(subjects::heartbeats(&active.run), &heartbeat).await
    }

    /// Releases the run and stops it.
    fn release(&mut self, why: &str) {
        let Some(active) = self.active.take() else { return };
        active.stop.store(u8::MAX, Ordering::Relaxed);
        if let Some(transfer) = &active.transfer {
            transfer.abort();
        }
        self.previous_folder = Arc::downgrade(&active.folder);
        self.runs += 1;
        lab::print(format_args!("run {} ended: {why}\n", active.run));
    }
}

fn connection_closed() -> BusError {
    BusError::Lost("to listen", "the connection has been closed".into())
}

/// Checks that an agent accepts these files for this kind of run.
fn check_files(kind: Kind, files: &[InputFile], is_private: bool) -> Result<(), String> {
    let is_plain = |text: &str| text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    for (number, file) in files.iter().enumerate() {
        if file.bytes > SPOOL_BYTES_MAX || !is_plain(&file.extension) {
            return Err(format!("it takes no share of {} bytes", file.bytes));
        }
        let is_second = files[..number].iter().any(|other| other.content == file.content);
        if number >= INPUT_FILES_MAX || is_second || !file.content.is_of(kind) {
            return Err(format!("it takes no {:?} here", file.content));
        }
        if file.content == Content::Key && !is_private {
            return Err("it takes no key: its connection to the NATS server is not encrypted (tls://)".into());
        }
    }
    let has_trace = files.iter().any(|file| file.content == Content::Trace);
    if kind == Kind::Replay && !has_trace { Err("a replay needs a trace".into()) } else { Ok(()) }
}

/// Receives the input files and reads them.
async fn prepare(
    bus: &Bus,
    run: &str,
    id: &str,
    assignment: Assignment,
    folder: &Arc<RunFolder>,
    is_owned: bool,
) -> Result<Box<PreparedRun>, String> {
    let mut files = Vec::new();
    for (number, file) in assignment.files.iter().enumerate() {
        let into = folder.file(file);
        let taken = bus.take_file(run, &subjects::down(run, id, number), file.bytes, &into, SHARE_WAIT_MAX).await;
        taken.map_err(|error| format!("cannot receive its input: {error}"))?;
        files.push((file.content, into));
    }
    let reading = tokio::task::spawn_blocking(move || PreparedRun::new(&assignment, &files, is_owned));
    reading.await.map_err(|_| "the first reading panicked".to_owned())?.map(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_must_fit_the_plan_and_keys_need_encryption() {
        let file = |content| InputFile { content, bytes: 7, extension: "x".into() };
        let check = |kind, contents: &[Content], is_private| {
            check_files(kind, &contents.iter().copied().map(file).collect::<Vec<_>>(), is_private)
        };
        let (load, replay) = (Kind::Load, Kind::Replay);
        check(load, &[], false).unwrap();
        check(load, &[Content::Queries, Content::Population, Content::Authorities, Content::Key], true).unwrap();
        check(replay, &[Content::Trace, Content::Authorities], false).unwrap();
        assert!(check(load, &[Content::Queries, Content::Key], false).unwrap_err().contains("not encrypted"));
        assert!(check(load, &[Content::Queries, Content::Queries], true).is_err());
        assert!(check(load, &[Content::Trace], true).is_err());
        assert!(check(replay, &[Content::Trace, Content::Key], true).is_err());
        assert!(check(replay, &[Content::Authorities], true).is_err());
        for wrong in ["../x", "", "a.b", "seventeenletters1"] {
            let file = InputFile { extension: wrong.into(), ..file(Content::Queries) };
            assert_eq!(check_files(load, &[file], true).is_err(), !wrong.is_empty(), "{wrong}");
        }
    }
}
