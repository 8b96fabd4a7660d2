//! Checks of a history in addition to porcupine's.

use crate::history::{Action, Event, History, Listing, Operation, Outcome, belongs, is_all_live};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The problems of a history, and the counts of what was checked. `findings` describes the problems.
#[derive(Default, Clone, Debug)]
pub(crate) struct Verdict {
    /// Acknowledged updates.
    pub(crate) acknowledged: usize,
    /// Operations with an unknown outcome.
    pub(crate) unknown: usize,
    /// Acknowledged records that are missing on a node.
    pub(crate) lost: usize,
    /// Records that were never sent, or that a node refused.
    pub(crate) ghosts: usize,
    /// All other violations.
    pub(crate) violations: usize,
    /// A description of each problem.
    pub(crate) findings: Vec<String>,
}

/// Maximum number of findings to keep.
const FINDINGS_MAX: usize = 200;

impl Verdict {
    /// Whether the history has no problem.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost + self.ghosts + self.violations == 0
    }

    fn find(&mut self, what: String) {
        self.violations += 1;
        self.note(what);
    }

    fn note(&mut self, what: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(what);
        }
    }
}

/// Checks a history.
pub(crate) fn check(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    for operation in history.operations() {
        verdict.acknowledged += usize::from(operation.outcome == Outcome::Ok);
        verdict.unknown += usize::from(operation.outcome == Outcome::Unknown);
    }
    outcomes(history, &mut verdict);
    ghosts(history, &mut verdict);
    lost(history, &mut verdict);
    finals_agree(history, &mut verdict);
    serial_steps(history, &mut verdict);
    serials_go_forward(history, &mut verdict);
    reads_go_forward(history, &mut verdict);
    answers_are_fresh(history, &mut verdict);
    verdict
}

/// Finds outcomes that are impossible in any state.
fn outcomes(history: &History, verdict: &mut Verdict) {
    for event in &history.0 {
        match event {
            Event::Operation(Operation { action: Action::Refuse, outcome: Outcome::Ok, register, value, .. }) => {
                verdict
                    .find(format!("{register}: the update with value {value} was acknowledged, but had to be refused"));
            }
            Event::Contradiction { register, what } => verdict.find(format!("{register}: {what}")),
            _ => {}
        }
    }
}

/// Checks that each value on a node was sent to this register, by an update that was not refused.
fn ghosts(history: &History, verdict: &mut Verdict) {
    let mut writers: HashMap<(&str, u32), &Operation> = HashMap::new();
    for operation in history.operations().filter(|operation| operation.action != Action::Delete) {
        writers.insert((&operation.register, operation.value), operation);
    }
    let mut known = BTreeSet::new();
    for listing in history.listings().chain(history.finals()) {
        for (register, value) in &listing.records {
            let why = match writers.get(&(register.as_str(), *value)) {
                None => "that no client sent",
                Some(Operation { outcome: Outcome::Failed, .. }) => "whose update failed by its prerequisite",
                Some(Operation { outcome: Outcome::Refused, .. }) => "whose update was refused",
                Some(Operation { action: Action::Refuse, .. }) => "whose update had to be refused",
                Some(operation) if operation.call_ns > listing.return_ns => "before its update was sent",
                Some(_) => continue,
            };
            if known.insert((register, *value)) {
                verdict.ghosts += 1;
                verdict.note(format!("ghost: node {} shows {register} = {value} {why}", listing.node));
            }
        }
    }
}

/// Returns the registers with only one operation. Its record must stay, because the register is never written again.
fn written_once(history: &History) -> HashMap<&str, Option<&Operation>> {
    let mut once: HashMap<&str, Option<&Operation>> = HashMap::new();
    for operation in history.operations() {
        once.entry(&operation.register).and_modify(|other| *other = None).or_insert(Some(operation));
    }
    once
}

/// Checks that every acknowledged record is on every node at the end, and in each linearizable read that began later.
fn lost(history: &History, verdict: &mut Verdict) {
    let once = written_once(history);
    let mut known = BTreeSet::new();
    for (register, operation) in once {
        let Some(operation) = operation.filter(|operation| operation.outcome == Outcome::Ok) else { continue };
        for listing in history.finals().filter(|listing| belongs(register, &listing.zone)) {
            if listing.records.get(register) != Some(&operation.value) && known.insert(register) {
                verdict.lost += 1;
                verdict.note(format!("lost: node {} has no {register} = {}", listing.node, operation.value));
            }
        }
        let acknowledged_ns = operation.return_ns.unwrap_or(u64::MAX);
        let later = history.listings().filter(|listing| listing.call_ns > acknowledged_ns);
        for listing in later.filter(|listing| belongs(register, &listing.zone)) {
            if !listing.records.contains_key(register) {
                verdict.find(format!("stale read: node {} does not show {register}", listing.node));
            }
        }
    }
}

/// Checks that all nodes have the same zones and the same state hash at the end.
fn finals_agree(history: &History, verdict: &mut Verdict) {
    let mut first: HashMap<&str, &Listing> = HashMap::new();
    for listing in history.finals() {
        let one = *first.entry(&listing.zone).or_insert(listing);
        if one.records != listing.records || one.serial != listing.serial {
            verdict.find(format!("nodes {} and {} show different {}", one.node, listing.node, listing.zone));
        }
    }
    let mut states: BTreeMap<u64, (u64, &str)> = BTreeMap::new();
    for event in &history.0 {
        let Event::State { node, applied, hash } = event else { continue };
        let (other, one) = *states.entry(*applied).or_insert((*node, hash));
        if one != hash {
            verdict.find(format!("nodes {other} and {node} have different state hashes at {applied}"));
        }
    }
    // Without any states, the nodes did not agree in time. Then the run has already failed.
    if states.len() > 1 {
        verdict.find(format!("{} applied indexes at the end, expected one", states.len()));
    }
}

/// Checks that the serial moved once for each effective update. An unknown update of a record that is written once
/// counts if the record exists. Other unknown updates may or may not count.
fn serial_steps(history: &History, verdict: &mut Verdict) {
    let once = written_once(history);
    for listing in history.finals() {
        let (mut least, mut most) = (0, 0);
        for operation in history.operations().filter(|operation| belongs(&operation.register, &listing.zone)) {
            let is_single = once.get(operation.register.as_str()).is_some_and(Option::is_some);
            match operation.outcome {
                Outcome::Ok => (least, most) = (least + 1, most + 1),
                Outcome::Unknown if is_single => {
                    let is_there = u32::from(listing.records.get(&operation.register) == Some(&operation.value));
                    (least, most) = (least + is_there, most + is_there);
                }
                Outcome::Unknown if operation.action != Action::Refuse => most += 1,
                _ => {}
            }
        }
        let steps = listing.serial.wrapping_sub(1);
        if steps < least || steps > most {
            let zone = &listing.zone;
            verdict.find(format!("serial steps: {zone} moved by {steps}, effective updates {least} to {most}"));
        }
    }
}

/// Checks that no node answers with an older serial than before, also after a restart. Responses with overlapping times
/// have no order.
fn serials_go_forward(history: &History, verdict: &mut Verdict) {
    let mut by_node: BTreeMap<(&str, u64), Vec<Shown>> = BTreeMap::new();
    for event in &history.0 {
        match event {
            Event::Serial { zone, node, sent_ns, at_ns, serial } => {
                by_node.entry((zone, *node)).or_default().push(Shown { from: *sent_ns, to: *at_ns, serial: *serial });
            }
            Event::Final(it) => {
                let shown = Shown { from: it.call_ns, to: it.return_ns, serial: it.serial };
                by_node.entry((&it.zone, it.node)).or_default().push(shown);
            }
            _ => {}
        }
    }
    for ((zone, node), shown) in by_node {
        for (before, after) in steps_back(shown) {
            let later_ms = (after.from - before.to) / 1_000_000;
            let (old, new) = (before.serial, after.serial);
            verdict.find(format!("serial back: node {node}, {zone}: {old}, and {later_ms} ms later {new}"));
        }
    }
}

/// A serial that a node showed between two times.
#[derive(Clone, Copy, Debug)]
struct Shown {
    from: u64,
    to: u64,
    serial: u32,
}

/// Returns pairs in which the second one began after the first ended, but has an older serial.
fn steps_back(shown: Vec<Shown>) -> Vec<(Shown, Shown)> {
    let (mut by_start, mut by_end) = (shown.clone(), shown);
    by_start.sort_by_key(|it| it.from);
    by_end.sort_by_key(|it| it.to);
    let (mut ended, mut newest, mut back) = (by_end.into_iter().peekable(), None::<Shown>, Vec::new());
    for after in by_start {
        while let Some(before) = ended.next_if(|before| before.to < after.from) {
            newest = newest.filter(|newest| newest.serial >= before.serial).or(Some(before));
        }
        back.extend(newest.filter(|newest| newest.serial > after.serial).map(|newest| (newest, after)));
    }
    back
}

/// Checks that no linearizable read has an older serial than a read that ended before it began.
fn reads_go_forward(history: &History, verdict: &mut Verdict) {
    let mut by_zone: BTreeMap<&str, Vec<Shown>> = BTreeMap::new();
    for it in history.listings() {
        let shown = Shown { from: it.call_ns, to: it.return_ns, serial: it.serial };
        by_zone.entry(&it.zone).or_default().push(shown);
    }
    for (zone, shown) in by_zone {
        for (before, after) in steps_back(shown) {
            verdict.find(format!("read back: {zone}: {}, then {}", before.serial, after.serial));
        }
    }
}

/// Checks that linearizable reads, and answers in a zone with `ack = all-live`, contain each update that was
/// acknowledged before the request. The serial counts the updates.
fn answers_are_fresh(history: &History, verdict: &mut Verdict) {
    let mut acknowledged: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for operation in history.operations().filter(|operation| operation.outcome == Outcome::Ok) {
        let zone = operation.register.split('/').next().and_then(|owner| owner.split_once('.'));
        acknowledged.entry(zone.map_or("", |(_, zone)| zone)).or_default().extend(operation.return_ns);
    }
    acknowledged.values_mut().for_each(|times| times.sort_unstable());
    let shown = history.0.iter().filter_map(|event| match event {
        Event::Serial { zone, node, sent_ns, serial, .. } if is_all_live(zone) => {
            Some((zone, *node, *sent_ns, *serial))
        }
        Event::Listing(it) => Some((&it.zone, it.node, it.call_ns, it.serial)),
        _ => None,
    });
    for (zone, node, asked_ns, serial) in shown {
        let times = acknowledged.get(zone.as_str()).map_or(&[][..], Vec::as_slice);
        let before = times.partition_point(|acknowledged_ns| *acknowledged_ns < asked_ns);
        if (serial.wrapping_sub(1) as usize) < before {
            let what = format!("not fresh: node {node} shows {zone} with {serial} after {before} acknowledged updates");
            verdict.find(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_were_on_their_way_together_have_no_order() {
        let shown = |from, to, serial| Shown { from, to, serial };
        assert!(steps_back(vec![shown(1, 5, 9), shown(4, 6, 8)]).is_empty());
        assert_eq!(steps_back(vec![shown(1, 3, 9), shown(4, 6, 8), shown(7, 8, 9)]).len(), 1);
        // The newest earlier serial counts, not the last one.
        assert_eq!(steps_back(vec![shown(1, 2, 9), shown(3, 4, 7), shown(5, 6, 8)]).len(), 2);
    }
}
