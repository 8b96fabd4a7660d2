//! Checks that acknowledged updates are in the zone on every node.

use super::zone::APEX;
use report::Run;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a node may lag behind the node that acknowledged.
const BEHIND_MAX: Duration = Duration::from_secs(20);

/// The number of acknowledged updates, and of unanswered updates.
pub(crate) fn counts(run: &Run) -> (u64, u64) {
    let figures = run.figures();
    let acknowledged = figures.rcodes.get("NOERROR").copied().unwrap_or(0);
    (acknowledged, figures.sent - figures.rcodes.values().sum::<u64>().min(figures.sent))
}

/// Returns how many acknowledged updates are missing. Each update adds a new name, so the names on all nodes count the
/// applied updates. Unanswered updates may or may not be applied.
pub(crate) fn count_lost(
    nodes: &[SocketAddr],
    key: &Path,
    prefix: &str,
    acknowledged: u64,
    unanswered: u64,
) -> Result<u64, String> {
    let until = Instant::now() + BEHIND_MAX;
    loop {
        let mut on_all: Option<BTreeSet<String>> = None;
        for &node in nodes {
            let names = names(node, key, APEX, prefix)?;
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
        // A node that lags briefly has lost nothing.
        if lost == 0 || Instant::now() > until {
            return Ok(lost);
        }
    }
}

/// A zone as stored on one node.
#[derive(PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) serial: u32,
    records: BTreeSet<String>,
}

/// The same for updates that change existing names. Each update changes a value, so each applied update increments the
/// serial. All nodes must have the same zone. Memory use does not depend on the number of updates.
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
        // A node that lags briefly has lost nothing.
        match Instant::now() > until {
            _ if lost == 0 && are_equal => return Ok(0),
            true if are_equal || lost > 0 => return Ok(lost),
            true => return Err("the nodes do not have the same records".to_owned()),
            false => {}
        }
    }
}

/// The zone of a node.
pub(crate) fn contents(node: SocketAddr, key: &Path, apex: &str) -> Result<Contents, String> {
    let text = transfer(node, key, apex)?;
    let serial = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>()).find_map(|words| {
        // Owner, TTL, class and type, then two names in the rdata and the serial.
        (words.get(3) == Some(&"SOA")).then(|| words.get(6)?.parse().ok())?
    });
    let serial = serial.ok_or_else(|| format!("no serial from {node}"))?;
    Ok(Contents { serial, records: text.lines().map(str::to_owned).collect() })
}

/// The names of a zone with this prefix.
pub(crate) fn names(node: SocketAddr, key: &Path, apex: &str, prefix: &str) -> Result<BTreeSet<String>, String> {
    let text = transfer(node, key, apex)?;
    let owners = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
    Ok(owners.filter(|owner| owner.starts_with(prefix)).map(str::to_owned).collect())
}

/// Transfers a zone, with one record per line.
fn transfer(node: SocketAddr, key: &Path, apex: &str) -> Result<String, String> {
    let mut dig = Command::new("dig");
    dig.arg(format!("@{}", node.ip())).args(["-p", &node.port().to_string(), "-k"]).arg(key);
    dig.args([apex, "AXFR", "+noall", "+answer", "+time=60", "+onesoa"]).stdin(Stdio::null());
    let output = dig.output().map_err(|error| format!("dig: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains("SOA") { Ok(text) } else { Err(format!("no transfer from {node}: {text}")) }
}
