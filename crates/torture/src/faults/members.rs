//! Members that join and leave.

use super::Fault;
use crate::limits::SLOTS;
use rand::Rng;

/// Twice, a node joins, another one leaves, and the leadership moves.
pub(crate) fn churn(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let mut changes = 0;
    for _ in 0..2 {
        let used = fault.cluster.slots();
        let free = (1..=SLOTS).find(|slot| !used.contains(slot)).ok_or("there is no free slot")?;
        fault.note(format!("a node joins in slot {free}"));
        fault.cluster.join(free)?;
        fault.shared.set_targets(fault.cluster);
        fault.wait_for_updates(20)?;
        if fault.random.random_ratio(1, 2) {
            let id = fault.cluster.node(free)?.id;
            fault.note(format!("the leadership goes to node {id}"));
            fault.cluster.command(&["cluster", "transfer-leader", &id.to_string()])?;
            changes += 1;
        }
        let slot = loop {
            let slot = fault.pick()?;
            if slot != free {
                break slot;
            }
        };
        let is_killed = fault.random.random_ratio(1, 2);
        fault.note(format!("the node in slot {slot} leaves; killed before: {is_killed}"));
        if is_killed {
            fault.cluster.node(slot)?.kill()?;
        }
        leave(fault, slot)?;
        fault.shared.set_targets(fault.cluster);
        fault.wait_for_updates(20)?;
        changes += 2;
    }
    Ok(format!("{changes} changes of members and leaders"))
}

/// Removes a node that may still be running. It must then exit by itself, with the exit code of a removed node.
fn leave(fault: &mut Fault<'_, '_>, slot: usize) -> Result<(), String> {
    let Some(mut node) = fault.cluster.nodes.remove(&slot) else { return Err("no such node".into()) };
    fault.cluster.command(&["cluster", "remove", &node.id.to_string()])?;
    if node.pid().is_some() {
        match node.wait_end(std::time::Duration::from_secs(20)).map(|status| status.code()) {
            Some(Some(7)) => {}
            other => return Err(format!("the removed node {} exited with {other:?}, expected exit code 7", node.id)),
        }
    }
    std::fs::remove_dir_all(&node.dir).map_err(|error| error.to_string())
}
