//! Runs a comparison: sends each step to all servers at once and judges it independently.

use super::client::{self, ClientError};
use super::contents::Contents;
use super::history::History;
use super::message::Update;
use super::predicates::{self, Case, Outcome};
use super::{generate, reference, repair};
use domain::tsig::Key;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use testbed::Kind;
use wire::name::Name;
use wire::number::{Rcode, Serial};

/// Number of unexplained differences kept in full. Others are only counted.
const UNEXPLAINED_KEPT: usize = 50;

/// Restarts a server with these zones. Returns its address.
pub type Restart<'a> = dyn FnMut(&[(Name, Contents)]) -> Result<SocketAddr, Box<dyn Error>> + Send + 'a;

/// A running server.
pub struct Server<'a> {
    /// The kind of server.
    pub kind: Kind,
    /// Its address.
    pub address: SocketAddr,
    /// Stops it if it runs, and starts it again.
    pub restart: Box<Restart<'a>>,
}

/// The plan of a comparison.
pub struct Plan {
    /// A key with permission to update and transfer all zones.
    pub key: Arc<Key>,
    /// The zones. Each server starts with the contents of [`generate::zone`].
    pub apexes: Vec<Name>,
    /// Number of UPDATEs.
    pub count: usize,
    /// Their seed.
    pub seed: u64,
}

/// Totals of a run.
#[derive(Default)]
pub struct Tally {
    /// Number of updates. Each was sent to every server.
    pub judged: usize,
    /// Updates that changed the zone.
    pub changing: usize,
    /// Expected RCODEs.
    pub rcodes: BTreeMap<String, usize>,
    /// By server, the number of compared updates.
    pub compared: BTreeMap<&'static str, usize>,
    /// By server, the number of expected outcomes.
    pub equal: BTreeMap<&'static str, usize>,
    /// The number of deviations by server and predicate.
    pub explained: BTreeMap<(&'static str, &'static str), usize>,
    /// By server, the number of resets after a deviation.
    pub repaired: BTreeMap<&'static str, usize>,
    /// By server, the number of restarts.
    pub restarted: BTreeMap<&'static str, usize>,
    /// Unexplained differences by server.
    pub unexplained: Vec<(Kind, String)>,
    /// The number of all unexplained differences.
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

/// Draws and sends `plan.count` UPDATEs, rotating through the zones.
///
/// # Errors
/// If a server cannot be reset after a deviation, or cannot be started.
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

/// The compared steps of one server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryCounts {
    /// Steps whose RCODE and serial were compared.
    pub steps: usize,
    /// Steps after which the whole zone was compared.
    pub zones: usize,
}

/// Applies the first `steps` steps of a history to every server. Compares RCODE and serial after each step, and the
/// whole zone after every `round`th step and at the end. Returns the number of comparisons by server.
///
/// # Errors
/// At the first difference: a history has nothing on which servers may differ.
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

/// One step of a history for all servers.
struct HistoryStep<'a> {
    key: &'a Arc<Key>,
    update: &'a Update,
    id: u16,
    /// The zone after it.
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

/// Queries all servers in parallel. A stopped server has an empty zone.
fn ask_all(plan: &Plan, servers: &[Server<'_>], update: &Update, id: u16) -> Vec<Outcome> {
    let ask = |address: SocketAddr| {
        let rcode = client::send(address, &plan.key, update, id, now_s());
        let transferred = client::transfer(address, &plan.key, &update.apex, now_s());
        let zone = transferred.unwrap_or_else(|error| {
            eprintln!("cannot transfer {} from {address}: {error}", update.apex);
            Contents::default()
        });
        Outcome { rcode: rcode.ok(), zone }
    };
    let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = addresses.into_iter().map(|address| scope.spawn(move || ask(address))).collect();
        let gone = || Outcome { rcode: None, zone: Contents::default() };
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| gone())).collect()
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

/// Resets all servers to the same zone, with a newer serial for each of them.
struct Repair<'r, 's> {
    plan: &'r Plan,
    servers: &'r mut [Server<'s>],
    /// The deviating servers and their contents.
    differing: Vec<(usize, Contents)>,
    /// The zones of the reference.
    zones: &'r mut [(Name, Contents)],
    /// The index of the zone.
    at: usize,
    tally: &'r mut Tally,
}

impl Repair<'_, '_> {
    /// First tries the current zone of the reference. If a server cannot hold it, all servers go back to `before`. If
    /// that fails too, or a server has exited, all servers are restarted.
    fn run(&mut self, before: &Contents) -> Result<(), Box<dyn Error>> {
        let mut contents: Vec<Contents> = self.servers.iter().map(|_| self.zones[self.at].1.clone()).collect();
        for (index, found) in &self.differing {
            contents[*index] = found.clone();
        }
        for (index, _) in &self.differing {
            *self.tally.repaired.entry(self.servers[*index].kind.label()).or_default() += 1;
        }
        let mut failed = self.try_all(&self.zones[self.at].1.clone(), &mut contents);
        if !failed.is_empty() {
            failed = self.try_all(before, &mut contents);
        }
        if failed.is_empty() {
            return Ok(());
        }
        for index in failed {
            *self.tally.restarted.entry(self.servers[index].kind.label()).or_default() += 1;
        }
        // All servers start with the original contents, because a server may refuse to load contents that it accepted
        // as updates.
        for (index, (apex, zone)) in self.zones.iter_mut().enumerate() {
            *zone = generate::zone(apex, index);
        }
        for server in self.servers.iter_mut() {
            server.address = (server.restart)(self.zones)?;
        }
        Ok(())
    }

    /// Sends each server the updates to `target` with a new serial. Returns the servers that do not hold it afterwards.
    /// `contents` keeps the known contents of each server.
    fn try_all(&mut self, target: &Contents, contents: &mut [Contents]) -> Vec<usize> {
        let apex = self.zones[self.at].0.clone();
        let mut target = target.clone();
        // No serial is newer than serials half the number space apart. A restart is needed then.
        let serials: Vec<Serial> =
            contents.iter().filter(|zone| zone.soa().is_some()).map(|zone| Serial(zone.serial())).collect();
        let own = Serial(target.serial());
        let is_newest = |candidate: &Serial| serials.iter().all(|serial| candidate.is_newer_than(*serial));
        let newest = serials.iter().chain([&own]).map(|serial| serial.next()).find(is_newest);
        target.set_serial(newest.unwrap_or(own.next()).0);
        let mut failed = Vec::new();
        for (index, (server, current)) in self.servers.iter().zip(contents).enumerate() {
            let key = &self.plan.key;
            let restore = |from: &Contents| -> Result<Contents, ClientError> {
                for update in repair::updates(&apex, from, &target) {
                    client::send(server.address, key, &update, 0, now_s())?;
                }
                client::transfer(server.address, key, &apex, now_s())
            };
            *current = if current.soa().is_some() { restore(current).unwrap_or_default() } else { Contents::default() };
            if *current != target {
                failed.push(index);
            }
        }
        self.zones[self.at].1 = target;
        failed
    }
}
