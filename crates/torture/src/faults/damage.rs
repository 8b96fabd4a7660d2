//! Files that a disk damaged while their node was not running.

use super::{Fault, serves};
use crate::expectations::{Damage, expected};
use crate::interrupt;
use crate::limits::SETTLE;
use rand::Rng;
use rand::seq::IndexedRandom;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Starts a node after damage to its files, unless it is still running. The node serves, or exits as expected and is
/// replaced. Returns whether it exited.
pub(crate) fn start_after(fault: &mut Fault<'_, '_>, slot: usize, kind: Damage) -> Result<bool, String> {
    let expected = expected(kind);
    if fault.cluster.node(slot)?.pid().is_none() {
        fault.cluster.node(slot)?.start()?;
    }
    let deadline = Instant::now() + SETTLE;
    while Instant::now() < deadline {
        interrupt::check()?;
        if let Some(status) = fault.cluster.node(slot)?.has_ended() {
            if !status.code().is_some_and(|code| expected.exit_codes.contains(&code)) {
                let tail = fault.cluster.node(slot)?.tail(6);
                return Err(format!("after {kind:?} the node in slot {slot} exited with {status}; its log:\n{tail}"));
            }
            fault.note(format!("the node in slot {slot} exited with {status}"));
            fault.cluster.replace(slot)?;
            fault.shared.set_targets(fault.cluster);
            return Ok(true);
        }
        if serves(fault.cluster, slot).is_some() && stays(fault, slot)? {
            if expected.may_serve {
                return Ok(false);
            }
            return Err(format!("after {kind:?} the node in slot {slot} serves, but must not"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(format!("after {kind:?} the node in slot {slot} neither serves nor exits"))
}

/// Whether a node still serves a moment later.
fn stays(fault: &mut Fault<'_, '_>, slot: usize) -> Result<bool, String> {
    interrupt::sleep(Duration::from_millis(1500))?;
    Ok(serves(fault.cluster, slot).is_some())
}

/// Flips a bit of a byte that is in use.
fn flip(fault: &mut Fault<'_, '_>, file: &Path) -> Result<usize, String> {
    let text = |error: std::io::Error| format!("cannot damage {}: {error}", file.display());
    let mut bytes = fs::read(file).map_err(text)?;
    let used: Vec<usize> = (0..bytes.len()).filter(|offset| bytes[*offset] != 0).collect();
    let used = if used.is_empty() { (0..bytes.len()).collect() } else { used };
    // Half of the flips are near the end, where the last records are.
    let skipped = if fault.random.random_ratio(1, 2) { used.len().saturating_sub(LAST_BYTES) } else { 0 };
    let used = &used[skipped..];
    let offset = *used.choose(&mut fault.random).ok_or_else(|| format!("{} is empty", file.display()))?;
    bytes[offset] ^= 1u8 << fault.random.random_range(0..8u32);
    fs::write(file, &bytes).map_err(text)?;
    let now = fs::read(file).map_err(text)?;
    if now == bytes { Ok(offset) } else { Err("the fault did not happen: the bit is unchanged".into()) }
}

/// About the size of the last records of a log.
const LAST_BYTES: usize = 4000;

/// Returns the newest data file whose name has this prefix.
fn newest(dir: &Path, prefix: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    files.filter(is_one).max().ok_or_else(|| format!("{} has no {prefix}", dir.display()))
}

fn damage(fault: &mut Fault<'_, '_>, prefix: &str, kind: Damage) -> Result<String, String> {
    let slot = fault.pick()?;
    fault.cluster.node(slot)?.kill()?;
    let data = fault.cluster.node(slot)?.data();
    let file = newest(&data, prefix)?;
    let offset = flip(fault, &file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fault.note(format!("slot {slot}: a bit of byte {offset} of {name} flipped"));
    fault.hold()?;
    let ended = start_after(fault, slot, kind)?;
    let what = if ended { "the node exited and was replaced" } else { "the node served" };
    Ok(format!("byte {offset} of {name}; {what}"))
}

/// Damages a log.
pub(crate) fn log(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    damage(fault, "log-", Damage::Log)
}

/// Damages a checkpoint.
pub(crate) fn checkpoint(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    damage(fault, "checkpoint-", Damage::Checkpoint)
}

/// Damages the file of votes.
pub(crate) fn vote(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    damage(fault, "vote", Damage::Vote)
}

/// Damages an unused segment.
pub(crate) fn spare(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    damage(fault, "spare-", Damage::Spare)
}

/// Damages the audit log.
pub(crate) fn audit(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.pick()?;
    fault.cluster.node(slot)?.kill()?;
    let file = newest(&fault.cluster.node(slot)?.data().with_file_name(""), "data.audit")?;
    let offset = flip(fault, &file)?;
    fault.note(format!("slot {slot}: a bit of byte {offset} of the audit log flipped"));
    fault.hold()?;
    start_after(fault, slot, Damage::Audit)?;
    Ok(format!("byte {offset} of {}", file.display()))
}

/// The configuration, keys and certificates of a node.
const SETTINGS: &[&str] =
    &["catamaran.toml", "node.key", "node.pem", "../ca.pem", "../data.key", "../wrapping.key", "../cluster.id"];

/// Damages each of these files in turn. The node serves, or refuses to start until the file is restored.
pub(crate) fn settings(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.pick()?;
    let (mut refused, mut served) = (Vec::new(), Vec::new());
    for name in SETTINGS {
        let node = fault.cluster.node(slot)?;
        node.ensure_dead();
        let file = node.data().with_file_name(name);
        let before = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        flip(fault, &file)?;
        fault.note(format!("slot {slot}: a bit of {name} flipped"));
        let node = fault.cluster.node(slot)?;
        node.start()?;
        match node.wait_end(Duration::from_millis(1500)) {
            Some(status) if status.code().is_some_and(|code| expected(Damage::Settings).exit_codes.contains(&code)) => {
                refused.push(*name);
            }
            Some(status) => {
                return Err(format!("with a damaged {name} the node exited with {status}: {}", node.tail(4)));
            }
            None => served.push(*name),
        }
        fault.cluster.node(slot)?.ensure_dead();
        fs::write(&file, before).map_err(|error| error.to_string())?;
    }
    start_after(fault, slot, Damage::Settings)?;
    Ok(format!("refused with damaged {}; started with damaged {}", refused.join(", "), served.join(", ")))
}
