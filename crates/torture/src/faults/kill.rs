//! Killed and stopped processes.

use super::Fault;
use std::time::Duration;

fn kill(fault: &mut Fault<'_, '_>, slots: &[usize]) -> Result<String, String> {
    fault.note(format!("kill -9 of the nodes in slots {slots:?}"));
    for slot in slots {
        fault.cluster.node(*slot)?.kill()?;
    }
    fault.hold()?;
    for slot in slots {
        fault.cluster.node(*slot)?.start()?;
    }
    fault.note("started again");
    Ok(format!("{} killed by SIGKILL", slots.len()))
}

/// Kills one node.
pub(crate) fn one(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.pick()?;
    kill(fault, &[slot])
}

/// Kills two nodes.
pub(crate) fn two(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slots = fault.some(2);
    kill(fault, &slots)
}

/// Kills all nodes.
pub(crate) fn all(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slots = fault.some(usize::MAX);
    kill(fault, &slots)
}

/// Stops the leader's process for a while.
pub(crate) fn pause(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slot = fault.leader()?;
    fault.note(format!("SIGSTOP of the leader in slot {slot}"));
    fault.cluster.node(slot)?.pause()?;
    let result = fault.hold();
    fault.cluster.node(slot)?.resume();
    fault.note("SIGCONT");
    result?;
    // The sleep is long enough to see the leader's first messages after SIGCONT.
    std::thread::sleep(Duration::from_millis(300));
    Ok("no thread ran".into())
}
