//! Whether what was acknowledged is there: the whole zone, from every node.

use super::sides::{APEX, Running};
use lab::report::Run;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a node may be behind the one that acknowledged.
const BEHIND_MAX: Duration = Duration::from_secs(20);

/// How many updates were acknowledged, and how many got no answer at all.
pub(crate) fn counts(run: &Run) -> (u64, u64) {
    let figures = run.figures();
    let acknowledged = figures.rcodes.get("NOERROR").copied().unwrap_or(0);
    (acknowledged, figures.sent - figures.rcodes.values().sum::<u64>().min(figures.sent))
}

/// Every update had a name of its own, so the names that are on all nodes count the updates that were done. As many as
/// were acknowledged must be among them; any more were done without their client hearing of it, and there can be no
/// more of those than there were without an answer. Gives how many that were acknowledged cannot be there.
pub(crate) fn count_lost(running: &Running, prefix: &str, acknowledged: u64, unanswered: u64) -> Result<u64, String> {
    let until = Instant::now() + BEHIND_MAX;
    loop {
        let mut on_all: Option<BTreeSet<String>> = None;
        for &node in &running.nodes {
            let names = names(node, &running.key, APEX, prefix)?;
            on_all = Some(match on_all {
                Some(on_all) => on_all.intersection(&names).cloned().collect(),
                None => names,
            });
        }
        let present = on_all.map_or(0, |names| names.len() as u64);
        let lost = acknowledged.saturating_sub(present);
        if present > acknowledged + unanswered {
            return Err(format!(
                "{present} names, {acknowledged} acknowledged, {unanswered} unanswered: a wrong count"
            ));
        }
        // A node that is a moment behind has lost nothing.
        if lost == 0 || Instant::now() > until {
            return Ok(lost);
        }
    }
}

/// A zone as one node has it.
#[derive(PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) serial: u32,
    records: BTreeSet<String>,
}

/// The same where names are written again and again, each time with another value, so that every update that was done
/// is one step of the serial from the first version on: on every node there must be as many as were acknowledged, and
/// all nodes must have the same. It takes no more memory than the zone, however many updates there were.
pub(crate) fn count_lost_steps(
    nodes: &[SocketAddr],
    key: &Path,
    first: u32,
    acknowledged: u64,
    unanswered: u64,
) -> Result<u64, String> {
    let until = Instant::now() + BEHIND_MAX;
    loop {
        let all = nodes.iter().map(|&node| contents(node, key, APEX)).collect::<Result<Vec<_>, _>>()?;
        let steps = all.iter().map(|contents| u64::from(contents.serial.wrapping_sub(first)));
        let (least, most) = (steps.clone().min().unwrap_or(0), steps.max().unwrap_or(0));
        if most > acknowledged + unanswered {
            return Err(format!("{most} steps, {acknowledged} acknowledged, {unanswered} unanswered: a wrong count"));
        }
        let lost = acknowledged.saturating_sub(least);
        let are_equal = all.windows(2).all(|pair| pair[0] == pair[1]);
        // A node that is a moment behind has lost nothing.
        match Instant::now() > until {
            _ if lost == 0 && are_equal => return Ok(0),
            true if are_equal || lost > 0 => return Ok(lost),
            true => return Err("the nodes do not have the same records".to_owned()),
            false => {}
        }
    }
}

/// What a node has of a zone.
pub(crate) fn contents(node: SocketAddr, key: &Path, apex: &str) -> Result<Contents, String> {
    let text = transfer(node, key, apex)?;
    let serial = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>()).find_map(|words| {
        // Owner, TTL, class, type; the two names of the rdata, and then the serial.
        (words.get(3) == Some(&"SOA")).then(|| words.get(6)?.parse().ok())?
    });
    let serial = serial.ok_or_else(|| format!("no serial from {node}"))?;
    Ok(Contents { serial, records: text.lines().map(str::to_owned).collect() })
}

/// The names of a zone that begin so.
pub(crate) fn names(node: SocketAddr, key: &Path, apex: &str, prefix: &str) -> Result<BTreeSet<String>, String> {
    let text = transfer(node, key, apex)?;
    let owners = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
    Ok(owners.filter(|owner| owner.starts_with(prefix)).map(str::to_owned).collect())
}

/// All records of a zone, one a line.
fn transfer(node: SocketAddr, key: &Path, apex: &str) -> Result<String, String> {
    let mut dig = Command::new("dig");
    dig.arg(format!("@{}", node.ip())).args(["-p", &node.port().to_string(), "-k"]).arg(key);
    dig.args([apex, "AXFR", "+noall", "+answer", "+time=60", "+onesoa"]).stdin(Stdio::null());
    let output = dig.output().map_err(|error| format!("dig: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains("SOA") { Ok(text) } else { Err(format!("no transfer from {node}: {text}")) }
}
