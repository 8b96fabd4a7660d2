//! Restarts all nodes, one at a time, with the same build or another one.

use super::Fault;
use std::path::Path;
use std::time::Duration;

/// Time limit for a node to stop after SIGTERM.
const STOP: Duration = Duration::from_secs(30);

fn all(fault: &mut Fault<'_, '_>, program: &Path) -> Result<usize, String> {
    let slots = fault.cluster.slots();
    for slot in &slots {
        fault.note(format!("restart of slot {slot} with {}", program.display()));
        let node = fault.cluster.node(*slot)?;
        node.stop(STOP)?;
        node.program = program.to_owned();
        node.start()?;
        fault.wait_for_node(*slot)?;
        fault.wait_for_updates(20)?;
    }
    Ok(slots.len())
}

/// Restarts all nodes.
pub(crate) fn restart(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let program = fault.cluster.plan.program.clone();
    let count = all(fault, &program)?;
    Ok(format!("{count} nodes stopped with exit code 0 and served again"))
}

/// Changes from the previous build to the current one, back, and to the current one again.
pub(crate) fn two_builds(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let current = fault.current.clone();
    let previous = fault.previous.clone().ok_or("there is no build of the previous feature level")?;
    let mut count = all(fault, &current)?;
    // Two nodes go back and forth, so that each build leads and follows the other one.
    for slot in fault.some(2) {
        for program in [&previous, &current] {
            fault.note(format!("restart of slot {slot} with {}", program.display()));
            let node = fault.cluster.node(slot)?;
            node.stop(STOP)?;
            node.program.clone_from(program);
            node.start()?;
            fault.wait_for_node(slot)?;
            fault.wait_for_updates(20)?;
            count += 1;
        }
    }
    Ok(format!("{count} restarts with the other build"))
}
