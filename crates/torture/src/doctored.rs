//! Doctored histories, each with one planted error. The checks must reject each of them, and accept the correct history
//! that they were made from.

use crate::checker::Checker;
use crate::history::{Action, Event, History, Listing, Operation, Outcome};
use crate::verdict::check;
use std::collections::BTreeMap;
use std::path::Path;

/// The error, and the function that adds it to a history.
type Doctoring = (&'static str, fn(&mut History));

const DOCTORED: &[Doctoring] = &[
    ("a linearizable read shows values from before", stale_read),
    ("an acknowledged record is on no node", |history| remove_last(history, &[1, 2, 3])),
    ("an acknowledged record is missing on one node", |history| remove_last(history, &[2])),
    ("a record that no client sent", ghost),
    ("a refused update took effect", refused_took_effect),
    ("a duplicate was applied again later", applied_twice),
    ("a linearizable read has an older serial than the one before", read_goes_back),
    ("the serial moved twice for one update", |history| shift_serials(history, 1)),
    ("the serial did not move for an update", |history| shift_serials(history, u32::MAX)),
    ("the serial of a node went back", serial_goes_back),
    ("state hashes differ", hashes_differ),
    ("two swaps of the same value were acknowledged", swapped_twice),
    ("a swap failed although its value was there", swap_failed),
    ("a delete of nothing was acknowledged", deleted_nothing),
    ("an insert over a value was acknowledged", inserted_over),
    ("an update whose prerequisite never holds was acknowledged", refused_was_acknowledged),
    ("a read shows a value before it was written", read_of_the_future),
    ("an acknowledged record is missing in a linearizable read", missing_in_read),
    ("a node answers without an update that waited for all nodes", not_fresh),
];

/// Checks all doctored histories, and prints which errors were found.
pub(crate) fn all_found(checker: &Checker, folder: &Path) -> Result<bool, String> {
    let path = folder.join(format!("doctored-{}.jsonl", std::process::id()));
    let mut missed = Vec::new();
    if is_found(&clean(), checker, &path)? {
        missed.push("the correct history is rejected");
    }
    for (what, doctor) in DOCTORED {
        let mut history = clean();
        doctor(&mut history);
        if !is_found(&history, checker, &path)? {
            missed.push(what);
        }
    }
    let _ = std::fs::remove_file(&path);
    for what in &missed {
        println!("NOT FOUND: {what}");
    }
    println!("doctored histories: {} of {} found", DOCTORED.len().saturating_sub(missed.len()), DOCTORED.len());
    Ok(missed.is_empty())
}

fn is_found(history: &History, checker: &Checker, path: &Path) -> Result<bool, String> {
    history.write(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let is_clean = check(history).is_clean();
    Ok(checker.check(path, None)?.violations > 0 || !is_clean)
}

const SHARED: &str = "r1.torture.test";
const ONCE: &str = "a1.torture.test";
const NODES: [u64; 3] = [1, 2, 3];

/// A cluster without faults, and its clients.
#[derive(Default)]
struct Model {
    events: Vec<Event>,
    values: BTreeMap<String, u32>,
    serials: BTreeMap<&'static str, u32>,
    now: u64,
    last: u32,
}

impl Model {
    fn tick(&mut self) -> u64 {
        self.now += 1_000_000;
        self.now
    }

    fn apply(&mut self, action: Action, register: &str, expected: u32, outcome: Outcome) {
        self.last += 1;
        let value = if action == Action::Delete { 0 } else { self.last };
        let (call_ns, return_ns) = (self.tick(), Some(self.tick()).filter(|_| outcome != Outcome::Unknown));
        let (client, nodes, register) = (self.last % 8, vec![1], register.to_owned());
        let now = self.values.get(&register).copied().unwrap_or(0);
        let holds = match action {
            Action::Write => true,
            Action::Delete => now != 0,
            Action::Insert => now == 0,
            Action::Swap => now == expected,
            Action::Refuse | Action::Read => false,
        };
        let outcome = if holds || outcome != Outcome::Ok { outcome } else { Outcome::Failed };
        if holds && outcome == Outcome::Ok {
            let zone = if register.contains(SHARED) { SHARED } else { ONCE };
            *self.serials.entry(zone).or_insert(1) += 1;
            self.values.insert(register.clone(), value);
            self.values.retain(|_, value| *value != 0);
        }
        let operation = Operation { register, client, nodes, action, call_ns, return_ns, outcome, expected, value };
        self.events.push(Event::Operation(operation));
    }

    fn listing(&mut self, zone: &'static str, node: u64) -> Listing {
        let (call_ns, return_ns) = (self.tick(), self.tick());
        let records = self.values.iter().filter(|(register, _)| register.contains(zone));
        let records = records.map(|(register, value)| (register.clone(), *value)).collect();
        let serial = self.serials.get(zone).copied().unwrap_or(1);
        Listing { zone: zone.into(), node, call_ns, return_ns, serial, records }
    }

    fn serials(&mut self) {
        for node in NODES {
            let (sent_ns, at_ns) = (self.tick(), self.tick());
            let serial = self.serials.get(SHARED).copied().unwrap_or(1);
            self.events.push(Event::Serial { zone: SHARED.into(), node, sent_ns, at_ns, serial });
        }
    }
}

/// A correct history: all actions, all outcomes, and reads between them.
fn clean() -> History {
    let mut model = Model::default();
    for round in 0..30u32 {
        let register = format!("c{}.{SHARED}/A", round % 3);
        let now = model.values.get(&register).copied().unwrap_or(0);
        model.apply(Action::Insert, &register, 0, Outcome::Ok);
        model.apply(Action::Swap, &register, now, Outcome::Ok);
        model.apply(Action::Write, &register, 0, Outcome::Ok);
        if round % 4 == 3 {
            model.apply(Action::Delete, &register, 0, Outcome::Ok);
        }
        model.apply(Action::Refuse, &register, 0, Outcome::Failed);
        model.apply(Action::Refuse, &format!("u2-{round}.{ONCE}/A"), 0, Outcome::Refused);
        model.apply(Action::Write, &format!("u1-{round}.{ONCE}/A"), 0, Outcome::Ok);
        model.apply(Action::Write, &format!("u3-{round}.{ONCE}/A"), 0, Outcome::Unknown);
        model.serials();
        for zone in [SHARED, ONCE] {
            let listing = model.listing(zone, NODES[round as usize % 3]);
            model.events.push(Event::Listing(listing));
        }
    }
    let zone = "l1.torture.test".to_owned();
    let last = operation_at(&format!("u9-1.{zone}/A"), model.tick(), model.tick());
    model.events.push(Event::Operation(last));
    let (sent_ns, at_ns) = (model.tick(), model.tick());
    model.events.push(Event::Serial { zone, node: 3, sent_ns, at_ns, serial: 2 });
    for node in NODES {
        for zone in [SHARED, ONCE] {
            let listing = model.listing(zone, node);
            model.events.push(Event::Final(listing));
        }
        model.events.push(Event::State { node, applied: 900, hash: "aa".into() });
    }
    History(model.events)
}

/// An acknowledged write.
fn operation_at(register: &str, call_ns: u64, return_ns: u64) -> Operation {
    Operation {
        register: register.to_owned(),
        client: 1,
        nodes: vec![1],
        action: Action::Write,
        call_ns,
        return_ns: Some(return_ns),
        outcome: Outcome::Ok,
        expected: 0,
        value: 55_555,
    }
}

fn listings_of<'h>(history: &'h mut History, zone: &str) -> Vec<&'h mut Listing> {
    let listings = history.0.iter_mut().filter_map(|event| match event {
        Event::Listing(listing) if listing.zone == zone => Some(listing),
        _ => None,
    });
    listings.collect()
}

fn finals_of<'h>(history: &'h mut History, zone: &str) -> Vec<&'h mut Listing> {
    let listings = history.0.iter_mut().filter_map(|event| match event {
        Event::Final(listing) if listing.zone == zone => Some(listing),
        _ => None,
    });
    listings.collect()
}

/// Returns the last operation for which `is_it` is true.
fn operation(history: &mut History, is_it: impl Fn(&Operation) -> bool) -> &mut Operation {
    let mut operations = history.0.iter_mut().rev().filter_map(|event| match event {
        Event::Operation(operation) if is_it(operation) => Some(operation),
        _ => None,
    });
    operations.next().expect("the history has all kinds of operations")
}

fn stale_read(history: &mut History) {
    let mut listings = listings_of(history, SHARED);
    let older = listings[10].records.clone();
    listings[20].records = older;
}

fn remove_last(history: &mut History, nodes: &[u64]) {
    let register = operation(history, |it| it.register.starts_with("u1-")).register.clone();
    for listing in finals_of(history, ONCE).into_iter().filter(|listing| nodes.contains(&listing.node)) {
        listing.records.remove(&register);
        listing.serial -= u32::from(nodes.len() == 3);
    }
}

fn ghost(history: &mut History) {
    for listing in finals_of(history, ONCE) {
        listing.records.insert(format!("u9-1.{ONCE}/A"), 77_777);
    }
}

fn refused_took_effect(history: &mut History) {
    let refused = operation(history, |it| it.outcome == Outcome::Refused);
    let (register, value) = (refused.register.clone(), refused.value);
    for listing in finals_of(history, ONCE) {
        listing.records.insert(register.clone(), value);
        listing.serial += 1;
    }
}

fn applied_twice(history: &mut History) {
    let is_write = |it: &Operation| it.action == Action::Write && it.register.starts_with("c1.");
    let newest = operation(history, is_write).value;
    let older = operation(history, |it| is_write(it) && it.value < newest);
    let (register, value) = (older.register.clone(), older.value);
    for listing in finals_of(history, SHARED) {
        listing.records.insert(register.clone(), value);
    }
}

fn read_goes_back(history: &mut History) {
    listings_of(history, ONCE)[20].serial -= 5;
}

fn shift_serials(history: &mut History, by: u32) {
    for listing in finals_of(history, ONCE) {
        listing.serial = listing.serial.wrapping_add(by);
    }
}

fn serial_goes_back(history: &mut History) {
    let serials = history.0.iter_mut().filter_map(|event| match event {
        Event::Serial { node: 2, serial, .. } => Some(serial),
        _ => None,
    });
    if let Some(serial) = serials.last() {
        *serial -= 10;
    }
}

fn hashes_differ(history: &mut History) {
    if let Some(Event::State { hash, .. }) = history.0.last_mut() {
        *hash = "bb".into();
    }
}

fn swapped_twice(history: &mut History) {
    let first = operation(history, |it| it.action == Action::Swap && it.outcome == Outcome::Ok).clone();
    let second = operation(history, |it| it.register == first.register && it.call_ns > first.call_ns);
    (second.action, second.expected, second.outcome) = (Action::Swap, first.expected, Outcome::Ok);
}

fn swap_failed(history: &mut History) {
    operation(history, |it| it.action == Action::Swap && it.outcome == Outcome::Ok).outcome = Outcome::Failed;
}

fn deleted_nothing(history: &mut History) {
    let delete = operation(history, |it| it.action == Action::Delete && it.outcome == Outcome::Ok).clone();
    let again =
        Operation { call_ns: delete.call_ns + 1_100_000, return_ns: Some(delete.call_ns + 1_200_000), ..delete };
    history.0.push(Event::Operation(again));
}

fn inserted_over(history: &mut History) {
    operation(history, |it| it.action == Action::Insert && it.outcome == Outcome::Failed).outcome = Outcome::Ok;
}

fn refused_was_acknowledged(history: &mut History) {
    operation(history, |it| it.action == Action::Refuse && it.outcome == Outcome::Failed).outcome = Outcome::Ok;
}

fn read_of_the_future(history: &mut History) {
    let mut listings = listings_of(history, SHARED);
    let newer = listings[20].records.clone();
    listings[10].records = newer;
}

fn missing_in_read(history: &mut History) {
    let register = format!("u1-3.{ONCE}/A");
    listings_of(history, ONCE)[20].records.remove(&register);
}

fn not_fresh(history: &mut History) {
    for event in &mut history.0 {
        if let Event::Serial { zone, serial, .. } = event
            && zone.starts_with('l')
        {
            *serial = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_without_a_fault_is_clean() {
        let verdict = check(&clean());
        assert!(verdict.is_clean(), "{:?}", verdict.findings);
        assert!(verdict.acknowledged > 80 && verdict.unknown == 30, "{verdict:?}");
    }

    /// Porcupine finds the other errors; `cargo xtask torture --doctored` checks all.
    #[test]
    fn doctored_histories_are_found() {
        let porcupines = ["from before", "again later", "two swaps", "swap failed", "of nothing"];
        for (what, doctor) in DOCTORED.iter().filter(|(what, _)| !porcupines.iter().any(|its| what.contains(its))) {
            let mut history = clean();
            doctor(&mut history);
            assert!(!check(&history).is_clean(), "{what}");
        }
    }
}
