//! Clock steps, made with libfaketime.

use super::Fault;
use crate::limits::SETTLE;
use crate::node::FakeClock;
use rand::seq::IndexedRandom;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The library's path on Debian.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
/// The steps, in seconds.
const STEPS: &[i64] = &[-3600, -200, -30, -2, 2, 30, 200, 3600];

/// Returns the library, if it is installed.
pub(crate) fn library() -> Option<PathBuf> {
    Some(PathBuf::from(LIBRARY)).filter(|path| path.exists())
}

/// Steps the clock of one node several times, and then corrects it.
pub(crate) fn step(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.pick()?;
    let library = library().ok_or("libfaketime is not installed; apt-get install faketime")?;
    let node = fault.cluster.node(slot)?;
    let offset = node.data().with_file_name("clock-offset");
    set(&offset, 0)?;
    node.clock = Some(FakeClock { library, offset: offset.clone() });
    restart(fault, slot)?;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let step = STEPS.choose(&mut fault.random).copied().unwrap_or(30);
        fault.note(format!("the clock in slot {slot} steps to {step} s"));
        set(&offset, step)?;
        let node = fault.cluster.node(slot)?.id;
        let ahead =
            |cluster: &mut crate::cluster::Cluster<'_>| shown(cluster, slot, node).filter(|ms| is_about(*ms, step));
        seen.push(fault.cluster.wait(&format!("a clock that is {step} s ahead to be noticed"), SETTLE, ahead)? / 1000);
        fault.hold()?;
    }
    fault.note(format!("the clock in slot {slot} is correct again"));
    set(&offset, 0)?;
    fault.hold()?;
    fault.cluster.node(slot)?.clock = None;
    restart(fault, slot)?;
    Ok(format!("other nodes saw the clock ahead by {seen:?} s"))
}

fn restart(fault: &mut Fault<'_, '_>, slot: usize) -> Result<(), String> {
    let node = fault.cluster.node(slot)?;
    node.stop(Duration::from_secs(30))?;
    node.start()?;
    fault.wait_for_node(slot)
}

/// Replaces the file atomically, so that libfaketime never reads half of it.
fn set(file: &std::path::Path, seconds: i64) -> Result<(), String> {
    let next = file.with_extension("next");
    let done = fs::write(&next, format!("{seconds:+}\n")).and_then(|()| fs::rename(&next, file));
    done.map_err(|error| format!("cannot set the clock: {error}"))
}

fn is_about(ahead_ms: i64, step_s: i64) -> bool {
    (ahead_ms - step_s * 1000).abs() < 1500
}

/// Returns how far the node's clock is ahead, as another node reports it.
fn shown(cluster: &crate::cluster::Cluster<'_>, slot: usize, node: u64) -> Option<i64> {
    let others = cluster.slots().into_iter().filter(|other| *other != slot);
    let ahead = |other| {
        let status = cluster.status(other)?;
        let member = status["members"].as_array()?.iter().find(|member| member["node"] == node)?.clone();
        member["clock_ahead_ms"].as_i64()
    };
    others.filter_map(ahead).max_by_key(|ms| ms.abs())
}
