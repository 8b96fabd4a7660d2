//! Power cuts of disks: unsynced data is lost.

use super::Fault;
use std::time::Duration;

fn cut(fault: &mut Fault<'_, '_>, slots: &[usize]) -> Result<String, String> {
    fault.note(format!("power cut of slots {slots:?}"));
    for slot in slots {
        fault.cluster.disk(*slot)?.cut_power()?;
    }
    // A machine without power runs nothing. A node may exit first, because its disk fails.
    for slot in slots {
        let node = fault.cluster.node(*slot)?;
        let _ = node.wait_end(Duration::from_millis(if slots.len() == 1 { 300 } else { 0 }));
        node.ensure_dead();
    }
    fault.hold()?;
    for slot in slots {
        let disk = fault.cluster.disk(*slot)?;
        disk.unmount()?;
        disk.mount()?;
        if !disk.has_lost_unsynced() {
            return Err("the fault did not happen: unsynced data is still there".into());
        }
        fault.cluster.node(*slot)?.start()?;
    }
    fault.note("power is back");
    Ok(format!("{} disks lost their unsynced data", slots.len()))
}

/// Cuts the power of one node.
pub(crate) fn one(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.pick()?;
    cut(fault, &[slot])
}

/// Cuts the power of all nodes.
pub(crate) fn all(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slots = fault.some(usize::MAX);
    cut(fault, &slots)
}

/// Cuts one node off, and then the power of all others. Only those others have the last updates.
pub(crate) fn behind_cut(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let pairs = super::cut::around(fault)?.concat();
    let alone = pairs.first().ok_or("there is only one node")?.0;
    fault.note(format!("slot {alone} is cut off"));
    let net = fault.cluster.net;
    pairs.iter().try_for_each(|(from, to)| net.cut(*from, *to))?;
    let is_open = pairs.iter().any(|(from, to)| net.connects(*from, *to));
    fault.wait_for_updates(40)?;
    let others: Vec<usize> = fault.cluster.slots().into_iter().filter(|slot| *slot != alone).collect();
    let done = cut(fault, &others);
    net.heal()?;
    fault.note("healed");
    if is_open {
        return Err("the fault did not happen: a connection opened during the cut".into());
    }
    done.map(|evidence| format!("one node cut off, 40 updates later {evidence}"))
}
