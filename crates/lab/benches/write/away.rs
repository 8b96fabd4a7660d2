//! One node is cut off and one is killed while the others take many updates. Measures how soon they catch up, and
//! whether their return causes an election.

use super::hosts::Hosts;
use super::load_run;
use super::lost::{counts, names};
use super::net::Cut;
use super::options::Options;
use super::table::{Row, Verdict, thousands};
use super::zone::{APEX, make_zone};
use report::Run;
use std::process::Command;
use std::time::Duration;

/// Two of five nodes may be missing.
const NODES: u64 = 5;
/// Log entries that they miss.
const ENTRIES: u64 = 100_000;
/// Minimum minutes without them (docs/history/budgets.md).
const MINUTES: u64 = 10;
/// Maximum time to catch up.
const BACK_MAX: Duration = Duration::from_secs(10);
/// Counts leadership transfers because of a hung disk. A term that begins while nodes are missing may have this reason,
/// which is the machine's fault.
const HANDED_OVER: &str = "catamaran_disk_hung_transfers_total";
/// A term that begins within this time after their return also counts.
const AFTER: Duration = Duration::from_secs(3);

/// Sends the updates that the missing nodes miss to the remaining nodes, spread over this time.
fn update_through(options: &Options, hosts: &Hosts, stay: &[u64], seconds: u64) -> Result<Run, String> {
    let servers: Vec<String> = stay.iter().map(|&id| hosts.dns(id).to_string()).collect();
    let mut command = Command::new(&options.catlab);
    command.args(["load", "--quiet", "--workers", "1", "--i-own-this-target", "--server", &servers.join(",")]);
    command.arg("--tsig").arg(&hosts.key).args(["--update-zone", APEX, "--name", &format!("u{{n}}.{APEX}")]);
    command.args(["--names", "1000000000", "--popularity", "sequential", "--types", "A", "--timeout", "5s"]);
    let rate = ENTRIES.div_ceil(seconds) + 1;
    command.args(["--rate", &rate.to_string(), "--duration", &format!("{seconds}s"), "--lag-limit", "10s"]);
    Ok(load_run::run(&mut command, &options.folder.join("run"), Vec::new())?.0)
}

pub(crate) fn away(options: &Options) -> Result<Vec<Row>, String> {
    let zone = make_zone(&options.folder, options.names)?;
    // A new cluster, independent of the one in the fault bench.
    let mut hosts = Hosts::start(&options.folder, "away", &zone, NODES)?;
    let before = hosts.settle()?;
    let mut others = hosts.ids().filter(|&id| id != before.node);
    let (cut, killed) = (others.next().ok_or("no node")?, others.next().ok_or("no node")?);
    let stay: Vec<u64> = hosts.ids().filter(|&id| id != cut && id != killed).collect();
    hosts.cut(cut, Cut::Both)?;
    hosts.kill(killed)?;
    let index = |id: u64| hosts.status(id).and_then(|status| status["applied_index"].as_u64());
    let from = index(before.node).ok_or("the leader does not answer")?;
    let minutes = options.minutes.unwrap_or(MINUTES);
    let run = update_through(options, &hosts, &stay, minutes * 60)?;
    let (acknowledged, unanswered) = counts(&run);
    let missed = index(before.node).ok_or("the leader does not answer")? - from;
    // The remaining nodes never restart, so their counters cover the whole test.
    let handed_over =
        stay.iter().map(|&id| hosts.counter(id, HANDED_OVER).ok_or(format!("node {id} has no {HANDED_OVER}")));
    let handed_over = handed_over.sum::<Result<u64, String>>()?;
    let term = |id: u64| hosts.status(id).and_then(|status| status["term"].as_u64());
    let term_at_return = term(before.node).ok_or("the leader does not answer")?;
    hosts.heal()?;
    let times = [(cut, "cut off"), (killed, "killed")].map(|(id, how)| {
        if id == killed {
            hosts.restart(id)?;
        }
        Ok::<_, String>((how, hosts.catch_up(id, before.node)?))
    });
    std::thread::sleep(AFTER);
    let after = hosts.settle()?;
    let mut lost = 0;
    for id in hosts.ids() {
        let there = names(hosts.dns(id), &hosts.key, APEX, "u")?.len() as u64;
        lost = lost.max(acknowledged.saturating_sub(there));
    }
    // Terms that began earlier are not caused by the return of the nodes.
    let (meanwhile, since) = (term_at_return - before.term, after.term - term_at_return);
    let mut rows = Vec::new();
    for time in times {
        let (how, time) = time?;
        rows.push(Row {
            what: format!("{how} for {minutes} min: time to catch up"),
            figure: format!("{:.2} s, {since} new terms, {meanwhile} before that", time.as_secs_f64()),
            budget: format!("<= {:.0} s, 0, after {MINUTES} min", BACK_MAX.as_secs_f64()),
            verdict: match lost {
                1.. => Verdict::Missed,
                // An unanswered update may be applied and hide a lost one.
                0 if missed < ENTRIES || unanswered > 0 => Verdict::Absent,
                0 if time > BACK_MAX || since + meanwhile > 0 => Verdict::Missed,
                0 if minutes < MINUTES => Verdict::Absent,
                0 => Verdict::Met,
            },
            note: format!(
                "{} entries missed, of {NODES} nodes; {} acknowledged, {lost} lost, {unanswered} \
                 unanswered; {handed_over} leaders gave way for their disk",
                thousands(missed as f64),
                thousands(acknowledged as f64)
            ),
        });
    }
    Ok(rows)
}
