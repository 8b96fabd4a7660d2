//! Whether what was acknowledged is there: the whole zone, from every node.

use super::sides::{APEX, Running};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a node may be behind the one that acknowledged.
const BEHIND_MAX: Duration = Duration::from_secs(20);

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

/// The names of a zone that begin so.
pub(crate) fn names(node: SocketAddr, key: &Path, apex: &str, prefix: &str) -> Result<BTreeSet<String>, String> {
    let mut dig = Command::new("dig");
    dig.arg(format!("@{}", node.ip())).args(["-p", &node.port().to_string(), "-k"]).arg(key);
    dig.args([apex, "AXFR", "+noall", "+answer", "+time=60", "+onesoa"]).stdin(Stdio::null());
    let output = dig.output().map_err(|error| format!("dig: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("SOA") {
        return Err(format!("no transfer from {node}: {text}"));
    }
    let owners = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
    Ok(owners.filter(|owner| owner.starts_with(prefix)).map(str::to_owned).collect())
}
