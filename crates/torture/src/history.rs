//! The timed events that clients and watchers record in one run.

use crate::limits::EVENTS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The effect of an operation on a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// Replaces the value.
    Write,
    /// Removes the value. The prerequisite is that there is one.
    Delete,
    /// Writes if there is no value.
    Insert,
    /// Writes if the register has the expected value.
    Swap,
    /// Would write, but its prerequisite never holds.
    Refuse,
    /// A linearizable read.
    Read,
}

/// The outcome of an operation, as far as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// The operation was acknowledged.
    Ok,
    /// The prerequisite did not hold.
    Failed,
    /// The node refused the operation, which must have no effect.
    Refused,
    /// The operation may have taken effect, or may take effect at any later time.
    Unknown,
}

/// An operation on a register: the records of one type at one name. The value 0 means no record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) register: String,
    pub(crate) client: u32,
    /// Nodes that the message was sent to, in order.
    pub(crate) nodes: Vec<u64>,
    pub(crate) action: Action,
    pub(crate) call_ns: u64,
    pub(crate) return_ns: Option<u64>,
    pub(crate) outcome: Outcome,
    pub(crate) expected: u32,
    pub(crate) value: u32,
}

/// The records of one zone on one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) zone: String,
    pub(crate) node: u64,
    pub(crate) call_ns: u64,
    pub(crate) return_ns: u64,
    pub(crate) serial: u32,
    /// Values by register.
    pub(crate) records: BTreeMap<String, u32>,
}

/// One line of a history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Event {
    /// An operation on a register.
    Operation(Operation),
    /// A linearizable read of a zone.
    Listing(Listing),
    /// The contents of a node at the end, when all nodes agree.
    Final(Listing),
    /// The serial of a SOA in a node's response.
    Serial { zone: String, node: u64, sent_ns: u64, at_ns: u64, serial: u32 },
    /// The state of a node at the end.
    State { node: u64, applied: u64, hash: String },
    /// Two nodes gave different final responses to the same signed message.
    Contradiction { register: String, what: String },
    /// A fault, or its end.
    Fault { at_ns: u64, what: String },
}

/// The whole history of a run.
#[derive(Default, Clone, Debug)]
pub(crate) struct History(pub(crate) Vec<Event>);

impl History {
    pub(crate) fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.0.iter().filter_map(|event| if let Event::Operation(operation) = event { Some(operation) } else { None })
    }

    pub(crate) fn listings(&self) -> impl Iterator<Item = &Listing> {
        self.0.iter().filter_map(|event| if let Event::Listing(listing) = event { Some(listing) } else { None })
    }

    pub(crate) fn finals(&self) -> impl Iterator<Item = &Listing> {
        self.0.iter().filter_map(|event| if let Event::Final(listing) = event { Some(listing) } else { None })
    }

    /// Writes the history for porcupine and for people. A listing of shared registers becomes one read per register.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for event in self.0.iter().chain(self.reads().iter()) {
            serde_json::to_writer(&mut file, event)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }

    /// Reads a history from [`History::write`].
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let lines = BufReader::new(File::open(path)?).lines();
        let event = |line: io::Result<String>| Ok(serde_json::from_str::<Event>(&line?)?);
        let is_derived = |event: &Event| matches!(event, Event::Operation(Operation { action: Action::Read, .. }));
        let events: io::Result<Vec<Event>> = lines.take(EVENTS_MAX).map(event).collect();
        Ok(Self(events?.into_iter().filter(|event| !is_derived(event)).collect()))
    }

    /// Returns a read of each shared register for each listing. The listings at the end give reads of all registers.
    fn reads(&self) -> Vec<Event> {
        let registers: BTreeSet<&str> = self.operations().map(|operation| operation.register.as_str()).collect();
        let mut reads = Vec::new();
        for (listing, is_final) in self.listings().map(|it| (it, false)).chain(self.finals().map(|it| (it, true))) {
            for register in registers.iter().filter(|register| belongs(register, &listing.zone)) {
                if is_final || is_shared(&listing.zone) {
                    reads.push(Event::Operation(read_of(listing, register)));
                }
            }
        }
        reads
    }
}

fn read_of(listing: &Listing, register: &str) -> Operation {
    Operation {
        register: register.to_owned(),
        client: 1000 + listing.node as u32,
        nodes: vec![listing.node],
        action: Action::Read,
        call_ns: listing.call_ns,
        return_ns: Some(listing.return_ns),
        outcome: Outcome::Ok,
        expected: 0,
        value: listing.records.get(register).copied().unwrap_or(0),
    }
}

/// Whether a register is in a zone.
pub(crate) fn belongs(register: &str, zone: &str) -> bool {
    register.split_once('/').is_some_and(|(owner, _)| owner.split_once('.').is_some_and(|(_, apex)| apex == zone))
}

/// Whether all clients write the registers of this zone.
pub(crate) fn is_shared(zone: &str) -> bool {
    zone.starts_with('r')
}

/// Whether updates of the zone are acknowledged once every node that answers queries shows them.
pub(crate) fn is_all_live(zone: &str) -> bool {
    zone.starts_with('l')
}

/// Collects the events of all threads.
#[derive(Debug)]
pub(crate) struct Recorder {
    start: Instant,
    events: Mutex<Vec<Event>>,
    acknowledged: AtomicUsize,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), events: Mutex::default(), acknowledged: AtomicUsize::new(0) }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    pub(crate) fn push(&self, event: Event) {
        if is_acknowledged(&event) {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        let mut events = self.lock();
        if events.len() < EVENTS_MAX {
            events.push(event);
        }
    }

    pub(crate) fn fault(&self, what: impl Into<String>) {
        self.push(Event::Fault { at_ns: self.now_ns(), what: what.into() });
    }

    /// Number of acknowledged updates so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> History {
        History(std::mem::take(&mut *self.lock()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn is_acknowledged(event: &Event) -> bool {
    matches!(event, Event::Operation(operation) if operation.outcome == Outcome::Ok)
}
