//! Where an agent hears commands and answers them.

use super::work::{Folder, Prepared};
use crate::controller;
use async_nats::Message;
use lab::fleet::{
    Beat, Bus, BusError, Command, Content, Envelope, Kind, Order, Parcel, Phase, Presence, Reply, is_run, next,
    subjects, wall_ns,
};
use lab::limits::{AGENTS_MAX, BEAT_INTERVAL, COMMAND_BYTES_MAX, PARCELS_MAX, SHARE_WAIT_MAX, SPOOL_BYTES_MAX};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

/// What has come to an end waits for so many places.
const EVENTS_WAITING_MAX: usize = 16;
/// How long what is broken off is waited for at the end.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The shortest and the longest silence after which a controller is lost.
const SILENCE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(600));
/// A start that lies farther ahead is a mistake.
const START_AHEAD_MAX: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Desk {
    bus: Bus,
    presence: Presence,
    spool: PathBuf,
    /// Whether it may load servers that are neither on loopback nor in private ranges.
    is_owned: bool,
    hired: Option<Hired>,
    /// The folder of the run before, as long as somebody still works in it.
    former: Weak<Folder>,
    events: (Sender<Ended>, Receiver<Ended>),
    /// Runs that it has been released from.
    runs: u64,
}

/// A run that it takes part in.
struct Hired {
    run: String,
    silence: Duration,
    folder: Arc<Folder>,
    phase: Phase,
    prepared: Option<Box<Prepared>>,
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicU8>,
    heard: Instant,
    /// What takes the share in, or sends the run folder.
    transfer: Option<AbortHandle>,
}

/// In which run, and what.
type Ended = (String, Event);

/// What has come to an end.
enum Event {
    Prepared(Result<Box<Prepared>, String>),
    Ran(Result<Phase, String>),
    Sent(Result<(), String>),
}

impl Desk {
    pub(crate) fn new(bus: Bus, presence: Presence, spool: PathBuf, is_owned: bool) -> Self {
        let events = channel(EVENTS_WAITING_MAX);
        Self { bus, presence, spool, is_owned, hired: None, former: Weak::new(), events, runs: 0 }
    }

    /// Takes part in runs until the user stops it, or after one if no more is wanted; `ready` is called once it hears.
    ///
    /// # Errors
    /// The NATS server is gone for good.
    pub(crate) async fn serve(
        &mut self,
        runs_max: Option<u64>,
        stops: &dyn Fn() -> u8,
        ready: impl FnOnce(),
    ) -> Result<(), BusError> {
        let mut hails = self.bus.subscribe(subjects::HAIL.to_owned()).await?;
        let mut commands = self.bus.subscribe(subjects::commands(&self.presence.id)).await?;
        ready();
        let mut beat = tokio::time::interval(BEAT_INTERVAL);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stops() == 0 && runs_max.is_none_or(|most| self.runs < most) {
            tokio::select! {
                hail = next(&mut hails) => self.hailed(hail).await?,
                command = next(&mut commands) => self.commanded(command).await?,
                Some((run, event)) = self.events.1.recv() => self.ended(&run, event).await?,
                _ = beat.tick() => self.beat().await?,
            }
        }
        self.release("it was told to end");
        // What is broken off ends soon, and takes its folder with it.
        let asked = Instant::now();
        while self.former.strong_count() > 0 && asked.elapsed() < END_PATIENCE {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.hired.is_none() && self.former.strong_count() == 0
    }

    async fn hailed(&self, hail: Option<Message>) -> Result<(), BusError> {
        let hail = hail.ok_or_else(gone)?;
        if self.is_idle() { self.bus.answer(&hail, &self.presence).await } else { Ok(()) }
    }

    async fn commanded(&mut self, message: Option<Message>) -> Result<(), BusError> {
        let message = message.ok_or_else(gone)?;
        let reply = match serde_json::from_slice::<Envelope>(&message.payload) {
            _ if message.payload.len() > COMMAND_BYTES_MAX => Reply::Refused { reason: "too long".into() },
            Ok(envelope) => self.obey(envelope).unwrap_or_else(|reason| Reply::Refused { reason }),
            Err(error) => Reply::Refused { reason: format!("not understood: {error}") },
        };
        self.bus.answer(&message, &reply).await
    }

    fn obey(&mut self, Envelope { run, command }: Envelope) -> Result<Reply, String> {
        if let Command::Enlist(order) = command {
            return self.enlist(run, *order);
        }
        let hired = self.hired.as_mut().filter(|hired| hired.run == run).ok_or("it takes no part in this run")?;
        hired.heard = Instant::now();
        match command {
            Command::Clock => return Ok(Reply::Clock { now_ns: wall_ns() }),
            Command::Start { at_ns } => self.start(at_ns)?,
            Command::Stop => {
                hired.stop.fetch_max(hired.stop.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
            }
            Command::Collect => self.send()?,
            Command::Release => self.release("the controller has let go of it"),
            Command::Pulse | Command::Enlist(_) => {}
        }
        Ok(Reply::Accepted)
    }

    /// Takes part in a run: the share is fetched and read, and nothing is sent yet.
    fn enlist(&mut self, run: String, order: Order) -> Result<Reply, String> {
        if !is_run(&run) {
            return Err("that is no name of a run".into());
        }
        if !self.is_idle() {
            return Err("it takes part in another run".into());
        }
        controller::check(order.kind, &order.words)?;
        if order.count > AGENTS_MAX || order.index >= order.count {
            return Err(format!("it cannot be number {} of {}", order.index, order.count));
        }
        check_parcels(order.kind, &order.parcels, self.bus.is_private())?;
        let folder = Folder::make(&self.spool, &run, &self.presence.id);
        let folder = Arc::new(folder.map_err(|error| format!("{}: {error}", self.spool.display()))?);
        lab::print(format_args!("run {run}: {}\n", if order.kind == Kind::Load { "load" } else { "replay" }));
        self.hired = Some(Hired {
            run: run.clone(),
            silence: Duration::from_millis(order.silence_ms).clamp(SILENCE.0, SILENCE.1),
            folder: Arc::clone(&folder),
            phase: Phase::Spooling,
            prepared: None,
            sent: Arc::default(),
            stop: Arc::default(),
            heard: Instant::now(),
            transfer: None,
        });
        let (bus, id, is_owned, events) =
            (self.bus.clone(), self.presence.id.clone(), self.is_owned, self.events.0.clone());
        let transfer = tokio::spawn(async move {
            let prepared = prepare(&bus, &run, &id, order, &folder, is_owned).await;
            // The desk outlives its work.
            let _told = events.send((run, Event::Prepared(prepared))).await;
        });
        if let Some(hired) = &mut self.hired {
            hired.transfer = Some(transfer.abort_handle());
        }
        Ok(Reply::Accepted)
    }

    fn start(&mut self, at_ns: u64) -> Result<(), String> {
        let events = self.events.0.clone();
        let hired = self.hired.as_mut().ok_or("it takes no part in a run")?;
        if at_ns.saturating_sub(wall_ns()) > START_AHEAD_MAX.as_nanos() as u64 {
            return Err("the start is too far ahead".into());
        }
        let prepared = hired.prepared.take().ok_or("it is not ready")?;
        hired.phase = Phase::Running;
        let (run, folder) = (hired.run.clone(), Arc::clone(&hired.folder));
        let (sent, stop) = (Arc::clone(&hired.sent), Arc::clone(&hired.stop));
        let work = move || {
            let ran = prepared.run(at_ns, &folder, &sent, &stop);
            drop(folder);
            // The desk outlives its work.
            let _told = events.blocking_send((run, Event::Ran(ran)));
        };
        let spawned = std::thread::Builder::new().name("run".into()).spawn(work);
        spawned.map(|_| ()).map_err(|error| format!("no thread: {error}"))
    }

    fn send(&mut self) -> Result<(), String> {
        let hired = self.hired.as_mut().filter(|hired| matches!(hired.phase, Phase::Finished { .. }));
        let hired = hired.ok_or("it has not ended")?;
        let (run, folder, bus) = (hired.run.clone(), Arc::clone(&hired.folder), self.bus.clone());
        let (subject, events) = (subjects::up(&run, &self.presence.id), self.events.0.clone());
        let transfer = tokio::spawn(async move {
            let sent = bus.send_file(&subject, &folder.bundle()).await.map_err(|error| error.to_string());
            drop(folder);
            let _told = events.send((run, Event::Sent(sent))).await;
        });
        hired.transfer = Some(transfer.abort_handle());
        Ok(())
    }

    /// Something has come to an end.
    async fn ended(&mut self, run: &str, event: Event) -> Result<(), BusError> {
        let Some(hired) = self.hired.as_mut().filter(|hired| hired.run == run) else { return Ok(()) };
        let failed = |reason: String| Phase::Failed { reason };
        match event {
            Event::Prepared(Ok(prepared)) => {
                hired.phase = Phase::Ready { queries: prepared.queries() };
                hired.prepared = Some(prepared);
            }
            Event::Ran(Ok(phase)) => hired.phase = phase,
            Event::Sent(Ok(())) => {}
            Event::Prepared(Err(reason)) | Event::Ran(Err(reason)) | Event::Sent(Err(reason)) => {
                eprintln!("run {run}: {reason}");
                hired.phase = failed(reason);
            }
        }
        self.beat().await
    }

    /// Gives a sign of life, or lets go of a run whose controller gives none.
    async fn beat(&mut self) -> Result<(), BusError> {
        let Some(hired) = &self.hired else { return Ok(()) };
        if hired.heard.elapsed() > hired.silence {
            self.release("its controller gives no sign of life");
            return Ok(());
        }
        let beat =
            Beat { id: self.presence.id.clone(), phase: hired.phase.clone(), sent: hired.sent.load(Ordering::Relaxed) };
        self.bus.say(subjects::beats(&hired.run), &beat).await
    }

    /// Lets go of the run; what is being sent is broken off.
    fn release(&mut self, why: &str) {
        let Some(hired) = self.hired.take() else { return };
        hired.stop.store(u8::MAX, Ordering::Relaxed);
        if let Some(transfer) = &hired.transfer {
            transfer.abort();
        }
        self.former = Arc::downgrade(&hired.folder);
        self.runs += 1;
        lab::print(format_args!("run {} ended: {why}\n", hired.run));
    }
}

fn gone() -> BusError {
    BusError::Lost("to listen", "the connection has been closed".into())
}

/// Whether files are such as an agent takes for a plan, whoever sends them.
fn check_parcels(kind: Kind, parcels: &[Parcel], is_private: bool) -> Result<(), String> {
    let is_plain = |text: &str| text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    for (number, parcel) in parcels.iter().enumerate() {
        if parcel.bytes > SPOOL_BYTES_MAX || !is_plain(&parcel.extension) {
            return Err(format!("it takes no share of {} bytes", parcel.bytes));
        }
        let is_second = parcels[..number].iter().any(|other| other.content == parcel.content);
        if number >= PARCELS_MAX || is_second || !parcel.content.is_of(kind) {
            return Err(format!("it takes no {:?} here", parcel.content));
        }
        if parcel.content == Content::Key && !is_private {
            return Err("it takes no key: its connection to the NATS server is not encrypted (tls://)".into());
        }
    }
    let has_trace = parcels.iter().any(|parcel| parcel.content == Content::Trace);
    if kind == Kind::Replay && !has_trace { Err("a replay without a trace".into()) } else { Ok(()) }
}

/// Takes the share in and reads it.
async fn prepare(
    bus: &Bus,
    run: &str,
    id: &str,
    order: Order,
    folder: &Arc<Folder>,
    is_owned: bool,
) -> Result<Box<Prepared>, String> {
    let mut files = Vec::new();
    for (number, parcel) in order.parcels.iter().enumerate() {
        let into = folder.file(parcel);
        let taken = bus.take_file(run, &subjects::down(run, id, number), parcel.bytes, &into, SHARE_WAIT_MAX).await;
        taken.map_err(|error| format!("its share did not come: {error}"))?;
        files.push((parcel.content, into));
    }
    let reading = tokio::task::spawn_blocking(move || Prepared::new(&order, &files, is_owned));
    reading.await.map_err(|_| "the first reading panicked".to_owned())?.map(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_takes_the_files_of_its_plan_and_a_key_only_where_nobody_hears() {
        let parcel = |content| Parcel { content, bytes: 7, extension: "x".into() };
        let check = |kind, contents: &[Content], is_private| {
            check_parcels(kind, &contents.iter().copied().map(parcel).collect::<Vec<_>>(), is_private)
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
            let parcel = Parcel { extension: wrong.into(), ..parcel(Content::Queries) };
            assert_eq!(check_parcels(load, &[parcel], true).is_err(), !wrong.is_empty(), "{wrong}");
        }
    }
}
