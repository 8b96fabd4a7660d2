//! A node with a damaged log or checkpoint fetches the damaged parts from the other members before it starts. No leader
//! is needed. All nodes may be damaged, as long as they did not all lose the same part.
//!
//! ```text
//!   damage at the start --> examine --> ask all members repeatedly --> nothing is missing --> new log --> start
//!                                   \-> all members answer, and none can help --> exit code 9
//! ```
//!
//! Meanwhile the node answers no queries. It sends the intact parts of its own log to other members.

use super::sockets::Sockets;
use super::threads;
use crate::limits::REPAIR_ROUNDS_MAX;
use crate::metrics::DurationHistogram;
use crate::peer::admission::Admission;
use crate::peer::announce::hints_of;
use crate::peer::repair::{RepairHandler, Session, listen};
use crate::replica_host::disk::{StartReads, Writer};
use crate::replica_host::fatal::BEYOND_REPAIR;
use crate::replica_host::identity::Identity;
use crate::replica_host::members_file;
use crate::replica_host::suspected_loss;
use crate::threads::runtime_failed;
use crate::tls::names::node_number;
use config::Config;
use process::problem::{Exit, Problem};
use process::stop::Stop;
use replica::checkpoint::{REPAIR_FILE, checkpoint_file, verified};
use replica::disk::DiskRead;
use replica::io::{Member, Membership, NodeId, SuspectedLoss};
use replica::log::{CheckpointRef, EntriesRequest, OpenError, Salvage};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Pause between two rounds in which a node asks all members for parts of its log.
const REPAIR_ROUND_MS: u64 = 1_000;
/// Interval between log lines about the members that a repair waits for.
const REPAIR_LOG_MS: u64 = 30_000;

/// The outcome of a repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// The node can start.
    Repaired,
    /// The node was stopped.
    Stopped,
}

/// A repair in progress.
struct Repair<'c> {
    config: &'c Config,
    identity: &'c Identity,
    admission: Admission,
    disk: StartReads,
    salvage: Salvage,
    /// An intact checkpoint on the disk.
    checkpoint: Option<CheckpointRef>,
    others: Vec<Member>,
}

/// The results of one round.
#[derive(Default)]
struct Round {
    is_better: bool,
    /// Members that did not answer, and the reasons.
    silent: BTreeMap<NodeId, String>,
}

/// Repairs the data, or returns why that is impossible. `damaged` is the problem that stopped the start.
pub(super) fn run(
    config: &Config,
    identity: &Identity,
    sockets: &Sockets,
    stop: &Stop,
    damaged: Problem,
) -> Result<Ended, Problem> {
    let mut repair = match Repair::new(config, identity) {
        Ok(repair) => repair,
        // The intact part is not enough for a repair.
        Err(_) => return Err(damaged.hint(BEYOND_REPAIR)),
    };
    tracing::error!(why = damaged.why, "the node's data is damaged; it is being repaired");
    for damage in repair.salvage.findings() {
        tracing::error!(%damage, "damage in the log");
    }
    let runtime = repair.serve(sockets)?;
    let ended = repair.fetch_all(&runtime, stop, &damaged);
    runtime.shutdown_background();
    match ended? {
        Ended::Stopped => Ok(Ended::Stopped),
        Ended::Repaired => repair.write().map(|()| Ended::Repaired),
    }
}

impl<'c> Repair<'c> {
    fn new(config: &'c Config, identity: &'c Identity) -> Result<Self, OpenError> {
        let disk = StartReads::new(&config.dir);
        let salvage = Salvage::examine(&disk)?;
        let trust = members_file::read(&config.dir).unwrap_or_default();
        let known = if trust.members.is_empty() { threads::members(config) } else { trust.members.clone() };
        let others = known.iter().filter(|member| member.id != config.raft_id()).cloned().collect();
        let membership = watch::channel(Arc::new(Membership::default())).1;
        let hints = Arc::new(hints_of(config));
        let admission = Admission::new(membership, watch::channel(Arc::new(trust)).1, known, hints);
        let checkpoint = salvage.newest_checkpoint(&disk);
        Ok(Self { config, identity, admission, disk, salvage, checkpoint, others })
    }

    /// Serves other members, and reports the repair over HTTP.
    fn serve(&self, sockets: &Sockets) -> Result<tokio::runtime::Runtime, Problem> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("repair").enable_all().build();
        let runtime = runtime.map_err(runtime_failed)?;
        let entered = runtime.enter();
        let listener = |socket: &std::net::TcpListener| {
            socket.try_clone().and_then(tokio::net::TcpListener::from_std).map_err(runtime_failed)
        };
        let (peer, api) = (listener(&sockets.peer)?, listener(&sockets.api)?);
        drop(entered);
        let (tls, handler) = (self.identity.tls.clone(), RepairHandler::new(&self.config.dir));
        runtime.spawn(listen(peer, tls, self.admission.clone(), handler));
        runtime.spawn(crate::api::serve_repairing(api));
        Ok(runtime)
    }

    /// Asks the members until nothing is missing.
    fn fetch_all(
        &mut self,
        runtime: &tokio::runtime::Runtime,
        stop: &Stop,
        damaged: &Problem,
    ) -> Result<Ended, Problem> {
        let (mut rounds, mut logged_at) = (0, None::<Instant>);
        // Members that answered since the last progress and could not help. They may have been stopped meanwhile.
        let mut helpless = BTreeSet::new();
        let mut all_queried_at = Instant::now();
        loop {
            let wants = self.wants().map_err(|error| failed(self.config, &error))?;
            if self.checkpoint.is_some() && wants.is_empty() {
                return Ok(Ended::Repaired);
            }
            // For each answer, a member reads its whole log. So members that could not help are rarely asked again,
            // unless there is no other member to wait for.
            let waits = self.others.iter().any(|member| !helpless.contains(&member.id));
            let is_due = !waits || all_queried_at.elapsed() >= Duration::from_millis(REPAIR_LOG_MS);
            if is_due {
                all_queried_at = Instant::now();
            }
            let to_ask =
                self.others.iter().filter(|member| is_due || !helpless.contains(&member.id)).cloned().collect();
            let mut round = runtime.block_on(self.ask_all(to_ask, &wants));
            if round.is_better {
                rounds = 0;
                helpless.clear();
                continue;
            }
            helpless.extend(self.others.iter().map(|member| member.id).filter(|id| !round.silent.contains_key(id)));
            round.silent.retain(|id, _| !helpless.contains(id));
            if round.silent.is_empty() {
                rounds += 1;
            }
            if rounds >= REPAIR_ROUNDS_MAX || self.others.is_empty() {
                self.give_up(&wants, damaged)?;
                continue;
            }
            if logged_at.is_none_or(|at| at.elapsed() >= Duration::from_millis(REPAIR_LOG_MS))
                && !round.silent.is_empty()
            {
                logged_at = Some(Instant::now());
                self.log_waiting(&wants, &round);
            }
            if stop.wait(Duration::from_millis(REPAIR_ROUND_MS)) {
                return Ok(Ended::Stopped);
            }
        }
    }

    fn wants(&self) -> Result<Vec<EntriesRequest>, OpenError> {
        match &self.checkpoint {
            Some(checkpoint) => self.salvage.missing_ranges(&self.disk, checkpoint),
            None => Ok(Vec::new()),
        }
    }

    async fn ask_all(&mut self, members: Vec<Member>, wants: &[EntriesRequest]) -> Round {
        let mut round = Round::default();
        for member in members {
            match self.ask(&member, wants).await {
                Ok(is_better) => round.is_better |= is_better,
                Err(error) => _ = round.silent.insert(member.id, error.to_string()),
            }
        }
        round
    }

    /// Asks one member. Returns whether it helped.
    async fn ask(&mut self, member: &Member, wants: &[EntriesRequest]) -> io::Result<bool> {
        let (own, tls) = (self.config.raft_id(), &self.identity.tls);
        let mut session = Session::open(tls, &self.admission, own, member).await?;
        let mut is_better = false;
        if self.checkpoint.is_none() {
            self.checkpoint = self.fetch_checkpoint(&mut session).await?;
            is_better = self.checkpoint.is_some();
        }
        for ask in wants {
            let mut ask = *ask;
            while ask.first <= ask.last {
                let answer = session.entries(&ask).await?;
                match self.salvage.take(&ask, answer) {
                    Ok(count) => {
                        is_better = true;
                        ask = EntriesRequest { first: ask.first + count as u64, before: None, ..ask };
                    }
                    Err(why) => {
                        let node = node_number(member.id);
                        tracing::debug!(node, first = ask.first, last = ask.last, %why, "entries not taken");
                        break;
                    }
                }
            }
        }
        Ok(is_better)
    }

    /// Fetches the checkpoint of a member and verifies all of it.
    async fn fetch_checkpoint(&self, session: &mut Session) -> io::Result<Option<CheckpointRef>> {
        let path = self.config.dir.join(REPAIR_FILE);
        if !session.checkpoint(&path).await? {
            return Ok(None);
        }
        let reference = tokio::task::block_in_place(|| verified(&self.disk, REPAIR_FILE));
        let Some(reference) = reference else { return Ok(None) };
        std::fs::rename(path, self.config.dir.join(checkpoint_file(&reference)))?;
        std::fs::File::open(&self.config.dir)?.sync_all()?;
        tracing::info!(index = reference.index, "took the checkpoint of another node");
        Ok(Some(reference))
    }

    fn log_waiting(&self, wants: &[EntriesRequest], round: &Round) {
        let waits: Vec<String> =
            round.silent.iter().map(|(id, why)| format!("node {}: {why}", node_number(*id))).collect();
        let missing = missing(self.checkpoint.is_some(), wants);
        tracing::warn!(
            missing,
            waits_for = waits.join("; "),
            "this node waits for other nodes to repair its data: start them. If they are permanently lost, stop this \
             node; then `catamaran cluster recover --accept-loss --accept-damage` makes a new cluster from the \
             readable data"
        );
    }

    /// Handles the case that all members answered and none can help. Uncommitted entries at the end of the log may be
    /// on no other member. Then the log ends before them.
    fn give_up(&mut self, wants: &[EntriesRequest], damaged: &Problem) -> Result<(), Problem> {
        // A node without other members would wait forever for a leader that has the entries.
        let can_go_on = self.checkpoint.is_some() && !self.others.is_empty();
        if can_go_on && wants.first().is_some_and(|ask| self.salvage.give_up(ask)) {
            return Ok(());
        }
        let missing = missing(self.checkpoint.is_some(), wants);
        let others = if self.others.is_empty() { "there is no other node" } else { "no other node has that part" };
        let why = format!("{}; {missing}, and {others}", damaged.why);
        let problem = Problem::new(Exit::Quarantined, &damaged.what, why).at(self.config.dir.display());
        Err(problem.hint(BEYOND_REPAIR))
    }

    /// Makes the repaired log the node's log.
    fn write(&self) -> Result<(), Problem> {
        let checkpoint = self.checkpoint.expect("a repair ends with a checkpoint");
        if let Some(found) = self.salvage.suspected_loss() {
            self.note(found).map_err(|error| failed(self.config, &error))?;
        }
        write(&self.config.dir, &self.disk, &self.salvage, checkpoint).map_err(|error| failed(self.config, &error))?;
        let (last, commit) = (self.salvage.last_index(), self.salvage.commit());
        tracing::info!(checkpoint = checkpoint.index, last, commit, "the node's data is repaired");
        Ok(())
    }

    /// Stores the suspected loss. It must be on disk before the record leaves the log.
    fn note(&self, found: SuspectedLoss) -> io::Result<()> {
        let known = suspected_loss::read(&self.config.dir)?.map(|written| written.loss);
        let found = known.map_or(found, |known| known.and(found));
        let why = "the end of the log was damaged, and no other node has it. It may have held acknowledged entries";
        suspected_loss::write(&self.config.dir, found, why)
    }
}

/// Writes a repaired log to the disk.
///
/// # Errors
/// [`io::Error`]: the disk now returns other bytes than before, or cannot be written.
fn write(dir: &Path, disk: &dyn DiskRead, salvage: &Salvage, checkpoint: CheckpointRef) -> io::Result<()> {
    let mut writer = Writer::new(dir, Arc::<DurationHistogram>::default());
    let mut rewrite = salvage.rewrite(disk, checkpoint).map_err(io::Error::other)?;
    while let Some(ops) = rewrite.next_ops().map_err(io::Error::other)? {
        writer.execute_all(&ops)?;
    }
    Ok(())
}

fn missing(has_checkpoint: bool, wants: &[EntriesRequest]) -> String {
    let ranges: Vec<String> = wants.iter().map(|ask| format!("entries {} to {}", ask.first, ask.last)).collect();
    match has_checkpoint {
        true => format!("missing: {}", ranges.join(", ")),
        false => "missing: a checkpoint".to_owned(),
    }
}

fn failed(config: &Config, why: &dyn std::fmt::Display) -> Problem {
    Problem::new(Exit::Failed, "cannot repair the node's data", why).at(config.dir.display())
}
