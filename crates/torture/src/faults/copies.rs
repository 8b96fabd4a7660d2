//! Missing data, copied data and old data.

use super::Fault;
use super::damage::start_after;
use crate::disk::run;
use crate::expectations::Damage;
use crate::limits::SLOTS;
use crate::net::address;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A slot without a node. Copies go to its disk: two sets of data may be too large for one disk.
fn free_slot(fault: &Fault<'_, '_>) -> Result<usize, String> {
    let used = fault.cluster.slots();
    (1..=SLOTS).rev().find(|slot| !used.contains(slot)).ok_or_else(|| "there is no free slot".into())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    run("cp", &["-a", &from.to_string_lossy(), &to.to_string_lossy()]).map(drop)
}

/// A node loses its data. It must not start, and a new node replaces it.
pub(crate) fn wiped(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.pick()?;
    fault.note(format!("slot {slot} loses its data"));
    fault.cluster.node(slot)?.kill()?;
    let data = fault.cluster.node(slot)?.data();
    fs::remove_dir_all(&data).and_then(|()| fs::create_dir(&data)).map_err(|error| error.to_string())?;
    fault.hold()?;
    match start_after(fault, slot, Damage::Wiped)? {
        true => Ok("the node without data did not start".into()),
        false => Err("the node without data serves".into()),
    }
}

/// A node gets an older copy of its data.
pub(crate) fn rolled_back(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let (slot, free) = (fault.pick()?, free_slot(fault)?);
    let older = fault.cluster.directory(free)?;
    fault.cluster.node(slot)?.kill()?;
    let data = fault.cluster.node(slot)?.data();
    copy(&data, &older)?;
    fault.cluster.node(slot)?.start()?;
    fault.wait_for_node(slot)?;
    fault.wait_for_updates(100)?;
    fault.note(format!("slot {slot} is rolled back"));
    fault.cluster.node(slot)?.kill()?;
    let newest = |dir: &Path| fs::read_dir(dir).map(|files| files.flatten().count()).map_err(|error| error.to_string());
    fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
    copy(&older, &data)?;
    fs::remove_dir_all(&older).map_err(|error| error.to_string())?;
    let files = newest(&data)?;
    let ended = start_after(fault, slot, Damage::RolledBack)?;
    let what = if ended { "the node exited and was replaced" } else { "the node served" };
    Ok(format!("{files} files from before 100 updates; {what}"))
}

/// A copy of a node runs at the same time, at another address.
pub(crate) fn cloned(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let (slot, free) = (fault.pick()?, free_slot(fault)?);
    let dir = fault.cluster.directory(free)?;
    fault.cluster.node(slot)?.kill()?;
    let node = fault.cluster.node(slot)?;
    let id = node.id;
    copy(&node.dir, &dir)?;
    node.start()?;
    let config = dir.join(format!("node-{id}/catamaran.toml"));
    let text = fs::read_to_string(&config).map_err(|error| error.to_string())?;
    let text = text.replace(&format!("\"{}:", address(slot)), &format!("\"{}:", address(free)));
    fs::write(&config, text).map_err(|error| error.to_string())?;
    fault.note(format!("a clone of slot {slot} starts in slot {free}"));
    let log = fault.cluster.plan.work.join("clone.log");
    let namespace = fault.cluster.net.node(free).name().to_owned();
    let program = fault.cluster.plan.program.clone();
    let mut clone = crate::node::Node::new(free, id, dir.clone(), program, log, &namespace);
    clone.start()?;
    let ended_early = clone.wait_end(Duration::from_millis(400));
    fault.hold()?;
    fault.hold()?;
    let what = match ended_early.or_else(|| clone.has_ended()) {
        Some(status) => format!("the clone exited with {status}"),
        None => "the clone ran until it was killed".into(),
    };
    clone.ensure_dead();
    fault.note(what.clone());
    fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    let ended = start_after(fault, slot, Damage::Cloned)?;
    Ok(format!("{what}; the original {}", if ended { "exited and was replaced" } else { "served" }))
}
