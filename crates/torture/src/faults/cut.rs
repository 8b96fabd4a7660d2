//! Dropped packets between nodes. Clients can reach all nodes all the time.

use super::Fault;
use std::time::{Duration, Instant};

/// Drops packets and verifies it: a connection fails during the cut, and works after it.
fn cut(fault: &mut Fault<'_, '_>, pairs: &[(usize, usize)]) -> Result<String, String> {
    fault.note(format!("cut {pairs:?}"));
    let net = fault.cluster.net;
    pairs.iter().try_for_each(|(from, to)| net.cut(*from, *to))?;
    let is_open = pairs.first().is_some_and(|(from, to)| net.connects(*from, *to));
    let result = fault.hold();
    net.heal()?;
    fault.note("healed");
    result?;
    if is_open {
        return Err("the fault did not happen: a connection opened during the cut".into());
    }
    if !pairs.iter().all(|(from, to)| net.connects(*from, *to)) {
        return Err("a connection does not open after the cut".into());
    }
    Ok(format!("{} directions cut, connections failed", pairs.len()))
}

/// The pairs of one node with the others: first from it, then to it.
pub(super) fn around(fault: &mut Fault<'_, '_>) -> Result<[Vec<(usize, usize)>; 2], String> {
    let slot = fault.pick()?;
    let others = fault.cluster.slots().into_iter().filter(|other| *other != slot);
    let from: Vec<(usize, usize)> = others.map(|other| (slot, other)).collect();
    let to = from.iter().map(|(from, to)| (*to, *from)).collect();
    Ok([from, to])
}

/// Cuts one node off.
pub(crate) fn full(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let pairs = around(fault)?.concat();
    cut(fault, &pairs)
}

/// Cuts one direction.
pub(crate) fn one_way(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let [from, _] = around(fault)?;
    cut(fault, &from)
}

/// Splits the nodes into two groups.
pub(crate) fn split(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let slots = fault.some(usize::MAX);
    let (few, many) = slots.split_at(slots.len() / 2);
    let across = |from: &[usize], to: &[usize]| -> Vec<(usize, usize)> {
        from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to))).collect()
    };
    let pairs = [across(few, many), across(many, few)].concat();
    cut(fault, &pairs)
}

/// A cut that starts and stops repeatedly.
pub(crate) fn flap(fault: &mut Fault<'_, '_>) -> Result<String, String> {
    let pairs = around(fault)?.concat();
    let net = fault.cluster.net;
    fault.note(format!("flapping cut {pairs:?}"));
    let (end, mut cuts, mut failed) = (Instant::now() + fault.hold * 2, 0, 0);
    while Instant::now() < end {
        pairs.iter().try_for_each(|(from, to)| net.cut(*from, *to))?;
        cuts += 1;
        failed += usize::from(!net.connects(pairs[0].0, pairs[0].1));
        net.heal()?;
        crate::interrupt::sleep(Duration::from_millis(250))?;
    }
    fault.note("healed");
    if failed < cuts || cuts < 2 {
        return Err(format!("the fault did not happen: {failed} of {cuts} cuts were seen"));
    }
    Ok(format!("{cuts} cuts, each seen"))
}
