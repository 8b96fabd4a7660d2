//! Kills and cuts off nodes repeatedly, with clients at every node. Measures the gaps in acknowledgements and answers,
//! and lost updates.

use super::clients::{Client, ClientRecord, Work};
use super::fault::{BEFORE, DURING, Fault, Outcome, Role, STEP, STEPS, STEPS_BEFORE, millis};
use super::hosts::{Hosts, Leadership};
use super::lost::names;
use super::options::Options;
use super::table::Row;
use super::tally::Tallies;
use super::zone::make_zone;
use load::workload::TsigKey;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Nodes of the cluster.
const NODES: u64 = 3;
/// Duration after the end of a fault.
const AFTER: Duration = Duration::from_secs(2);
/// All faults of those parts of this group that were asked for: each kind once, then each again.
pub(crate) fn of_group(options: &Options, group: &[&str]) -> Result<Vec<Row>, String> {
    let kinds: Vec<(Fault, Role)> = group
        .iter()
        .filter(|part| options.has(part))
        .flat_map(|part| Fault::of_part(part))
        .flat_map(|&fault| [(fault, Role::Leader), (fault, Role::Follower)])
        .collect();
    let zone = make_zone(&options.folder, options.names)?;
    let began = Instant::now();
    let mut hosts = Hosts::start(&options.folder, group[0], &zone, NODES)?;
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

/// One fault in a zone of its own, so that the final transfer only contains updates of this fault.
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
    // Updates sent earlier may have been committed before the fault.
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
    let records = clients.into_iter().map(Client::finish).collect::<Result<Vec<_>, _>>()?;
    let after = hosts.settle()?;
    let outcome = judge(options, hosts, &apex, records, Times { target, began, struck, ended, back, before, after })?;
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

/// The times and the node of a fault.
struct Times {
    target: u64,
    began: Instant,
    struck: Instant,
    ended: Instant,
    back: Duration,
    before: Leadership,
    after: Leadership,
}

fn judge(
    options: &Options,
    hosts: &Hosts,
    apex: &str,
    records: Vec<ClientRecord>,
    times: Times,
) -> Result<Outcome, String> {
    let Times { target, began, struck, ended, back, before, after } = times;
    let is_update = |one: &&ClientRecord| one.is_of_updates();
    let stays = |one: &&ClientRecord| one.node != target;
    let resumed = records.iter().filter(is_update).filter(stays).filter_map(|one| one.first_done(struck)).min();
    let longest = |of_updates: bool| {
        let of = records.iter().filter(stays).filter(|one| one.is_of_updates() == of_updates);
        of.map(|one| one.gap(began, ended)).max().unwrap_or_default()
    };
    let shares = [(false, false), (false, true), (true, false), (true, true)].map(|(of_updates, is_staying)| {
        let of = records.iter().filter(|one| one.is_of_updates() == of_updates && (one.node != target) == is_staying);
        let of: Vec<&ClientRecord> = of.collect();
        let rate = if of_updates { options.update_rate } else { options.query_rate_each };
        let sent = rate as f64 * STEP.as_secs_f64() * of.len() as f64;
        by_step(&of, began).into_iter().map(|count| count as f64 / sent).collect()
    });
    let acknowledged: BTreeSet<String> =
        records.iter().filter(is_update).flat_map(ClientRecord::acknowledged).collect();
    let refused = |is_staying: bool| {
        let of = records.iter().filter(|one| one.is_of_updates() && (one.node != target) == is_staying);
        of.flat_map(|one| &one.messages).filter(|sent| sent.is_refused).count() as u64
    };
    let not_done: BTreeSet<String> = records.iter().filter(is_update).flat_map(ClientRecord::refused).collect();
    let (mut lost, mut refused_and_done) = (BTreeSet::<&String>::new(), BTreeSet::<&String>::new());
    for id in hosts.ids() {
        let there = names(hosts.dns(id), &hosts.key, apex, "u")?;
        let is_there = |label: &&String| there.contains(&format!("{label}.{apex}"));
        lost.extend(acknowledged.iter().filter(|label| !is_there(label)));
        refused_and_done.extend(not_done.iter().filter(is_there));
    }
    Ok(Outcome {
        // No update was acknowledged: the gap lasted at least as long as the fault.
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

/// Answers that arrived in each step.
fn by_step(records: &[&ClientRecord], began: Instant) -> Vec<u64> {
    let first = began - STEP * STEPS_BEFORE as u32;
    let mut counts = vec![0; STEPS];
    for at in records.iter().flat_map(|one| &one.messages).filter_map(|sent| sent.done) {
        let Some(since) = at.checked_duration_since(first) else { continue };
        if let Some(count) = counts.get_mut((since.as_secs_f64() / STEP.as_secs_f64()) as usize) {
            *count += 1;
        }
    }
    counts
}
