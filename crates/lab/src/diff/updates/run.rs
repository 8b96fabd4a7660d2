//! A whole comparison: each step to every server at once, judged by itself.

use super::client::{self, ClientError};
use super::contents::Contents;
use super::history::History;
use super::message::Update;
use super::predicates::{self, Case, Outcome};
use super::{generate, reference, repair};
use crate::peers::Kind;
use domain::tsig::Key;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use wire::name::Name;
use wire::number::{Rcode, Serial};

/// Unexplained differences that are kept in full; beyond it only their number grows.
const UNEXPLAINED_KEPT: usize = 50;

/// Starts a server again: it gets the zones with what they shall hold, and gives its address.
pub type Restart<'a> = dyn FnMut(&[(Name, Contents)]) -> Result<SocketAddr, Box<dyn Error>> + Send + 'a;

/// A running server.
pub struct Server<'a> {
    /// Which.
    pub kind: Kind,
    /// Where it answers.
    pub address: SocketAddr,
    /// Ends it, if it still runs, and starts it again.
    pub restart: Box<Restart<'a>>,
}

/// What is compared.
pub struct Plan {
    /// The key that may update and transfer all zones.
    pub key: Arc<Key>,
    /// The zones; each server serves them with what [`generate::zone`] says.
    pub apexes: Vec<Name>,
    /// How many UPDATEs.
    pub count: usize,
    /// From which they are drawn.
    pub seed: u64,
}

/// What a run has seen.
#[derive(Default)]
pub struct Tally {
    /// Updates that were sent, each to every server.
    pub judged: usize,
    /// Steps that changed the zone.
    pub changing: usize,
    /// RCODEs that should have come.
    pub rcodes: BTreeMap<String, usize>,
    /// By server, updates whose outcome was compared, whatever came of it.
    pub compared: BTreeMap<&'static str, usize>,
    /// By server, how often it did what it should.
    pub equal: BTreeMap<&'static str, usize>,
    /// By server and predicate.
    pub explained: BTreeMap<(&'static str, &'static str), usize>,
    /// By server, how often it was brought back after a difference.
    pub repaired: BTreeMap<&'static str, usize>,
    /// By server, how often it was started again.
    pub restarted: BTreeMap<&'static str, usize>,
    /// Differences that nothing explains, by server; those of ours come first where it matters.
    pub unexplained: Vec<(Kind, String)>,
    /// How many of those there were.
    pub unexplained_count: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} updates, {} of them change the zone; RCODEs {:?}", self.judged, self.changing, self.rcodes)?;
        for (server, compared) in &self.compared {
            let of = |counts: &BTreeMap<&'static str, usize>| counts.get(server).copied().unwrap_or_default();
            let (equal, back, restarted) = (of(&self.equal), of(&self.repaired), of(&self.restarted));
            write!(f, "{server:>10}: {compared} compared, {equal} equal, repaired {back} times, ")?;
            writeln!(f, "restarted {restarted} times")?;
        }
        for ((server, name), count) in &self.explained {
            writeln!(f, "{count:>8} {server}: {name}")?;
        }
        writeln!(f, "unexplained = {}", self.unexplained_count)
    }
}

/// Draws and sends `plan.count` UPDATEs, one zone after the other in turns.
///
/// # Errors
/// When a server cannot be brought back after a difference, or not be started.
pub fn run(plan: &Plan, servers: &mut [Server<'_>], tally: &mut Tally) -> Result<(), Box<dyn Error>> {
    let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
    let initial = |(index, apex): (usize, &Name)| (apex.clone(), generate::zone(apex, index));
    let mut zones: Vec<(Name, Contents)> = plan.apexes.iter().enumerate().map(initial).collect();
    for number in 0..plan.count {
        let at = number % zones.len();
        let (apex, before) = zones[at].clone();
        let update = generate::update(&apex, &before, &mut rng);
        let (rcode, after) = reference::update(&before, &update);
        let expected = Outcome { rcode: Some(rcode), zone: after };
        tally.judged += 1;
        tally.changing += usize::from(expected.zone != before);
        *tally.rcodes.entry(format!("{rcode:?}")).or_default() += 1;
        zones[at].1 = expected.zone.clone();
        let found = ask_all(plan, servers, &update, number as u16);
        let mut differing = Vec::new();
        for (index, (server, found)) in servers.iter().zip(found).enumerate() {
            let case = Case { kind: server.kind, update: &update, before: &before, expected: &expected, found: &found };
            judge(&case, tally);
            if found.zone != expected.zone {
                differing.push((index, found.zone));
            }
        }
        if !differing.is_empty() {
            let mut back = Repair { plan, servers, differing, zones: &mut zones, at, tally };
            back.run(&before)?;
        }
    }
    Ok(())
}

/// What one server was taken through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryCounts {
    /// Steps whose RCODE and serial were compared.
    pub steps: usize,
    /// Steps after which the whole zone was compared.
    pub zones: usize,
}

/// Takes every server through the first `steps` steps of a history; RCODE and serial are compared after each of them,
/// the whole zone after each `round` of them and at the end. Gives what was compared, by server.
///
/// # Errors
/// The first difference: nothing in a history is of a kind in which servers may differ.
pub fn run_history(
    history: &History,
    key: &Arc<Key>,
    steps: usize,
    round: usize,
    servers: &mut [Server<'_>],
) -> Result<BTreeMap<&'static str, HistoryCounts>, Box<dyn Error>> {
    let apex = Name::root();
    let mut zone = history.base.clone();
    let mut counts: BTreeMap<_, HistoryCounts> = BTreeMap::new();
    let steps = steps.min(history.steps.len());
    for (index, step) in history.steps.iter().take(steps).enumerate() {
        step.apply(&mut zone)?;
        let update = step.update(&apex);
        let is_compared = (index + 1).is_multiple_of(round.max(1)) || index + 1 == steps;
        let go = &HistoryStep { key, update: &update, id: index as u16, zone: &zone, is_compared };
        let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let addresses = servers.iter().map(|server| server.address);
            let sent: Vec<_> = addresses.map(|address| scope.spawn(move || go.send(address))).collect();
            sent.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("panic".into()))).collect()
        });
        for (server, outcome) in servers.iter().zip(outcomes) {
            outcome.map_err(|what| format!("{} at step {index}: {what}", server.kind.label()))?;
            let counts = counts.entry(server.kind.label()).or_default();
            counts.steps += 1;
            counts.zones += usize::from(is_compared);
        }
    }
    Ok(counts)
}

/// One step of a history, as it goes to each server.
struct HistoryStep<'a> {
    key: &'a Arc<Key>,
    update: &'a Update,
    id: u16,
    /// What the zone holds after it.
    zone: &'a Contents,
    /// Whether the whole zone is compared.
    is_compared: bool,
}

impl HistoryStep<'_> {
    fn send(&self, server: SocketAddr) -> Result<(), String> {
        let Self { key, update, id, zone, is_compared } = *self;
        let rcode = client::send(server, key, update, id, now_s()).map_err(|error| error.to_string())?;
        if rcode != Rcode::NOERROR {
            return Err(format!("{rcode:?} to {update:?}"));
        }
        let serial = client::serial(server, key, &update.apex, now_s()).map_err(|error| error.to_string())?;
        if serial != zone.serial() {
            return Err(format!("serial {serial}, not {}", zone.serial()));
        }
        if is_compared {
            let found = client::transfer(server, key, &update.apex, now_s()).map_err(|error| error.to_string())?;
            if found != *zone {
                let missing: Vec<_> = zone.records.difference(&found.records).take(5).collect();
                let too_many: Vec<_> = found.records.difference(&zone.records).take(5).collect();
                return Err(format!("missing {missing:?}, too many {too_many:?}"));
            }
        }
        Ok(())
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Every server at once; a server that is gone has an empty zone.
fn ask_all(plan: &Plan, servers: &[Server<'_>], update: &Update, id: u16) -> Vec<Outcome> {
    let ask = |address: SocketAddr| {
        let rcode = client::send(address, &plan.key, update, id, now_s());
        let zone = client::transfer(address, &plan.key, &update.apex, now_s()).unwrap_or_default();
        Outcome { rcode: rcode.ok(), zone }
    };
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    std::thread::scope(|scope| {
        let asked: Vec<_> = addresses.into_iter().map(|address| scope.spawn(move || ask(address))).collect();
        let gone = || Outcome { rcode: None, zone: Contents::default() };
        asked.into_iter().map(|thread| thread.join().unwrap_or_else(|_| gone())).collect()
    })
}

fn judge(case: &Case<'_>, tally: &mut Tally) {
    let server = case.kind.label();
    *tally.compared.entry(server).or_default() += 1;
    if case.found == case.expected {
        *tally.equal.entry(server).or_default() += 1;
        return;
    }
    if let Some(names) = predicates::explain(case) {
        names.into_iter().for_each(|name| *tally.explained.entry((server, name)).or_default() += 1);
        return;
    }
    tally.unexplained_count += 1;
    if tally.unexplained.len() < UNEXPLAINED_KEPT {
        tally.unexplained.push((case.kind, describe(case)));
    }
}

fn describe(case: &Case<'_>) -> String {
    let Case { kind, update, before, expected, found } = case;
    let rcode = |outcome: &Outcome| outcome.rcode.map_or("silence".into(), |rcode| format!("{rcode:?}"));
    let mut text = format!("{}: {update:?}\n  expected {}, found {}", kind.label(), rcode(expected), rcode(found));
    let mut list = |what: &str, records: Vec<_>| records.iter().for_each(|rr| text += &format!("\n    {what} {rr:?}"));
    list("deleted ", before.records.difference(&expected.zone.records).cloned().collect());
    list("added   ", expected.zone.records.difference(&before.records).cloned().collect());
    list("missing ", expected.zone.records.difference(&found.zone.records).cloned().collect());
    list("too many", found.zone.records.difference(&expected.zone.records).cloned().collect());
    text
}

/// Makes all servers hold the same again, at a serial that is newer for each of them.
struct Repair<'r, 's> {
    plan: &'r Plan,
    servers: &'r mut [Server<'s>],
    /// Who went another way, and what they hold now.
    differing: Vec<(usize, Contents)>,
    /// What the reference says that each zone holds.
    zones: &'r mut [(Name, Contents)],
    /// Which zone.
    at: usize,
    tally: &'r mut Tally,
}

impl Repair<'_, '_> {
    /// First to what the reference has now. A server that cannot hold that can hold what all had `before`: then all go
    /// back to it. One that does not even do that, or that has ended, is started again, and with
    /// it everybody.
    fn run(&mut self, before: &Contents) -> Result<(), Box<dyn Error>> {
        let mut held: Vec<Contents> = self.servers.iter().map(|_| self.zones[self.at].1.clone()).collect();
        for (index, found) in &self.differing {
            held[*index] = found.clone();
        }
        for (index, _) in &self.differing {
            *self.tally.repaired.entry(self.servers[*index].kind.label()).or_default() += 1;
        }
        let mut failed = self.try_all(&self.zones[self.at].1.clone(), &mut held);
        if !failed.is_empty() {
            failed = self.try_all(before, &mut held);
        }
        if failed.is_empty() {
            return Ok(());
        }
        for index in failed {
            *self.tally.restarted.entry(self.servers[index].kind.label()).or_default() += 1;
        }
        // All of them with what they had at first: some server takes by updates what it does not load.
        for (index, (apex, zone)) in self.zones.iter_mut().enumerate() {
            *zone = generate::zone(apex, index);
        }
        for server in self.servers.iter_mut() {
            server.address = (server.restart)(self.zones)?;
        }
        Ok(())
    }

    /// Sends each server what it needs to hold `target` with a new serial; gives those that do not hold it then. What
    /// each server holds, as far as it can be seen, is kept in `held`.
    fn try_all(&mut self, target: &Contents, held: &mut [Contents]) -> Vec<usize> {
        let apex = self.zones[self.at].0.clone();
        let mut target = target.clone();
        // Half the circle away there is none that is newer than all; then somebody has to be started again.
        let serials: Vec<Serial> =
            held.iter().filter(|zone| zone.soa().is_some()).map(|zone| Serial(zone.serial())).collect();
        let own = Serial(target.serial());
        let is_newest = |candidate: &Serial| serials.iter().all(|serial| candidate.is_newer_than(*serial));
        let newest = serials.iter().chain([&own]).map(|serial| serial.next()).find(is_newest);
        target.set_serial(newest.unwrap_or(own.next()).0);
        let mut failed = Vec::new();
        for (index, (server, held)) in self.servers.iter().zip(held).enumerate() {
            let key = &self.plan.key;
            let mend = |from: &Contents| -> Result<Contents, ClientError> {
                for update in repair::updates(&apex, from, &target) {
                    client::send(server.address, key, &update, 0, now_s())?;
                }
                client::transfer(server.address, key, &apex, now_s())
            };
            *held = if held.soa().is_some() { mend(held).unwrap_or_default() } else { Contents::default() };
            if *held != target {
                failed.push(index);
            }
        }
        self.zones[self.at].1 = target;
        failed
    }
}
