//! Nodes that are killed or cut off, again and again, with clients at every node: how long nothing is acknowledged, how
//! long nothing is answered, and what is lost.

use super::Options;
use super::clients::{Client, Seen, Work};
use super::hosts::{Hosts, Leadership};
use super::lost::names;
use super::net::Cut;
use super::sides::make_zone;
use super::table::Row;
use super::tally::Tallies;
use lab::workload::TsigKey;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Nodes of the cluster.
const NODES: u64 = 3;
/// Before a fault, while it lasts, and after its end.
pub(crate) const BEFORE: Duration = Duration::from_secs(2);
pub(crate) const DURING: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(2);
/// What is counted together.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// Steps before a fault, and from it on.
pub(crate) const STEPS_BEFORE: usize = 20;
pub(crate) const STEPS: usize = 70;

/// What happens to a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    /// `kill -9`.
    Kill,
    /// It and the other nodes do not reach each other, or only in one direction.
    Cut(Cut),
}

impl Fault {
    /// Those of a part of the bench.
    fn of_part(part: &str) -> &'static [Self] {
        match part {
            "kills" => &[Self::Kill],
            "partitions" => &[Self::Cut(Cut::Both)],
            "one-way" => &[Self::Cut(Cut::Mute), Self::Cut(Cut::Deaf)],
            _ => &[],
        }
    }

    /// In words, of a node in a role.
    pub(crate) fn label(self, role: Role) -> String {
        let done = match self {
            Self::Kill => "killed",
            Self::Cut(Cut::Both) => "cut off",
            Self::Cut(Cut::Mute) => "not heard by the others",
            Self::Cut(Cut::Deaf) => "not hearing the others",
        };
        format!("{} {done}", role.word())
    }

    /// The same for the name of a file.
    pub(crate) fn file(self, role: Role) -> String {
        let done = match self {
            Self::Kill => "killed",
            Self::Cut(Cut::Both) => "cut",
            Self::Cut(Cut::Mute) => "mute",
            Self::Cut(Cut::Deaf) => "deaf",
        };
        format!("failover-{}-{done}", role.word())
    }
}

/// Of the node that it happens to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    Leader,
    Follower,
}

impl Role {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
        }
    }
}

/// One fault, and what came of it.
pub(crate) struct Outcome {
    /// From the fault until the first update was acknowledged that was sent after it, at a node that stays.
    pub(crate) resumed: Duration,
    /// The longest time without an acknowledgement, of the node that stays and had the longest, while the fault lasted.
    pub(crate) writes_gap: Duration,
    /// The same without an answer to a query.
    pub(crate) reads_gap: Duration,
    /// From the end of the fault until the node was like the others.
    pub(crate) back: Duration,
    /// Terms that began.
    pub(crate) terms: u64,
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
    /// Updates that were refused, and are there all the same.
    pub(crate) refused_and_done: u64,
    /// Updates that a node that stays answered with another RCODE than NOERROR.
    pub(crate) refused: u64,
    /// The same of the other one: without a majority it says so after a while.
    pub(crate) refused_there: u64,
    /// Answers by step, as shares of what was sent: queries of the node that does not stay, and of those that do;
    /// updates in the same order.
    pub(crate) shares: [Vec<f64>; 4],
}

/// All faults of these parts, in turn: each kind once, then each again.
pub(crate) fn of_parts(options: &Options) -> Result<Vec<Row>, String> {
    let kinds: Vec<(Fault, Role)> = options
        .parts
        .iter()
        .flat_map(|part| Fault::of_part(part))
        .flat_map(|&fault| [(fault, Role::Leader), (fault, Role::Follower)])
        .collect();
    let zone = make_zone(&options.folder, options.names)?;
    let began = Instant::now();
    let mut hosts = Hosts::start(&options.folder, &zone, NODES)?;
    eprintln!("{NODES} nodes, {} names: ready after {:.1} s", options.names, began.elapsed().as_secs_f64());
    let key = TsigKey::read(&hosts.key).map_err(|error| error.to_string())?;
    let mut tallies = Tallies::default();
    for round in 1..=options.faults {
        for &(fault, role) in &kinds {
            let number = tallies.count() + 1;
            let outcome = one(options, &mut hosts, &key, (fault, role), number)?;
            eprintln!(
                "{} {round}: {:.0} ms until the first update; no answer for {:.0} ms; back after {:.0} ms; {} new \
                 terms; {} acknowledged, {} lost, {} refused and {} by that node, {} of these \
                 done",
                fault.label(role),
                millis(outcome.resumed),
                millis(outcome.reads_gap),
                millis(outcome.back),
                outcome.terms,
                outcome.acknowledged,
                outcome.lost,
                outcome.refused,
                outcome.refused_there,
                outcome.refused_and_done
            );
            tallies.add((fault, role), outcome);
        }
    }
    drop(hosts);
    if let Some(folder) = &options.pictures {
        tallies.draw(folder)?;
    }
    Ok(tallies.rows())
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// One fault, in a zone of its own: what is transferred afterwards is what was updated meanwhile.
fn one(
    options: &Options,
    hosts: &mut Hosts,
    key: &TsigKey,
    (fault, role): (Fault, Role),
    number: usize,
) -> Result<Outcome, String> {
    let apex = format!("fault{number}.test.");
    let file = options.folder.join("fault.zone");
    let text = format!("{apex} 60 IN SOA ns.{apex} host.{apex} 1 7200 900 99999 300\n{apex} 60 IN NS ns.example.\n");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    hosts.command(&["zone", "add", &format!("{apex}={}", file.display())])?;
    let before = hosts.settle()?;
    let target = match role {
        Role::Leader => before.node,
        Role::Follower => before.node % NODES + 1,
    };
    let clients = start_clients(options, hosts, key, &apex);
    std::thread::sleep(BEFORE);
    let began = Instant::now();
    match fault {
        Fault::Kill => hosts.kill(target)?,
        Fault::Cut(cut) => hosts.cut(target, cut)?,
    }
    // What was sent before may have been committed before.
    let struck = Instant::now();
    std::thread::sleep(DURING.saturating_sub(began.elapsed()));
    let ended = Instant::now();
    match fault {
        Fault::Kill => hosts.restart(target)?,
        Fault::Cut(_) => hosts.heal()?,
    }
    let stays = hosts.ids().find(|&id| id != target).unwrap_or(1);
    let _caught_up = hosts.catch_up(target, stays)?;
    let back = ended.elapsed();
    std::thread::sleep(AFTER.saturating_sub(back));
    let seen = clients.into_iter().map(Client::finish).collect::<Result<Vec<_>, _>>()?;
    let after = hosts.settle()?;
    let outcome = judge(options, hosts, &apex, seen, Times { target, began, struck, ended, back, before, after })?;
    hosts.command(&["zone", "remove", &apex, "--yes"])?;
    Ok(outcome)
}

fn start_clients(options: &Options, hosts: &Hosts, key: &TsigKey, apex: &str) -> Vec<Client> {
    let each = hosts.ids().flat_map(|node| {
        let updates = Work::Updates { apex: apex.to_owned(), prefix: format!("u{node}-"), key: Box::new(key.clone()) };
        let queries = Work::Queries { names: options.names };
        [(node, options.update_rate, updates), (node, options.query_rate_each, queries)]
    });
    each.map(|(node, rate, work)| Client::start(node, hosts.dns(node), rate, work)).collect()
}

/// When what happened to whom.
struct Times {
    target: u64,
    began: Instant,
    struck: Instant,
    ended: Instant,
    back: Duration,
    before: Leadership,
    after: Leadership,
}

fn judge(options: &Options, hosts: &Hosts, apex: &str, seen: Vec<Seen>, times: Times) -> Result<Outcome, String> {
    let Times { target, began, struck, ended, back, before, after } = times;
    let is_update = |one: &&Seen| one.is_of_updates();
    let stays = |one: &&Seen| one.node != target;
    let resumed = seen.iter().filter(is_update).filter(stays).filter_map(|one| one.first_done(struck)).min();
    let longest = |of_updates: bool| {
        let of = seen.iter().filter(stays).filter(|one| one.is_of_updates() == of_updates);
        of.map(|one| one.gap(began, ended)).max().unwrap_or_default()
    };
    let shares = [(false, false), (false, true), (true, false), (true, true)].map(|(of_updates, is_staying)| {
        let of = seen.iter().filter(|one| one.is_of_updates() == of_updates && (one.node != target) == is_staying);
        let of: Vec<&Seen> = of.collect();
        let rate = if of_updates { options.update_rate } else { options.query_rate_each };
        let sent = rate as f64 * STEP.as_secs_f64() * of.len() as f64;
        by_step(&of, began).into_iter().map(|count| count as f64 / sent).collect()
    });
    let acknowledged: BTreeSet<String> = seen.iter().filter(is_update).flat_map(Seen::acknowledged).collect();
    let refused = |is_staying: bool| {
        let of = seen.iter().filter(|one| one.is_of_updates() && (one.node != target) == is_staying);
        of.flat_map(|one| &one.messages).filter(|sent| sent.is_refused).count() as u64
    };
    let not_done: BTreeSet<String> = seen.iter().filter(is_update).flat_map(Seen::refused).collect();
    let (mut lost, mut refused_and_done) = (BTreeSet::<&String>::new(), BTreeSet::<&String>::new());
    for id in hosts.ids() {
        let there = names(hosts.dns(id), &hosts.key, apex, "u")?;
        let is_there = |label: &&String| there.contains(&format!("{label}.{apex}"));
        lost.extend(acknowledged.iter().filter(|label| !is_there(label)));
        refused_and_done.extend(not_done.iter().filter(is_there));
    }
    Ok(Outcome {
        // No update was acknowledged at all: the fault lasted for so long, at the least.
        resumed: resumed.map_or(ended - began, |at| at - began),
        writes_gap: longest(true),
        reads_gap: longest(false),
        back,
        terms: after.term - before.term,
        acknowledged: acknowledged.len() as u64,
        lost: lost.len() as u64,
        refused_and_done: refused_and_done.len() as u64,
        refused: refused(true),
        refused_there: refused(false),
        shares,
    })
}

/// Answers that came in each step.
fn by_step(seen: &[&Seen], began: Instant) -> Vec<u64> {
    let first = began - STEP * STEPS_BEFORE as u32;
    let mut counts = vec![0; STEPS];
    for at in seen.iter().flat_map(|one| &one.messages).filter_map(|sent| sent.done) {
        let Some(since) = at.checked_duration_since(first) else { continue };
        if let Some(count) = counts.get_mut((since.as_secs_f64() / STEP.as_secs_f64()) as usize) {
            *count += 1;
        }
    }
    counts
}
