//! The load of one run: clients that write, clients that read, and watchers, until it is stopped.

use crate::api;
use crate::client;
use crate::cluster::Cluster;
use crate::history::{Event, Listing, Recorder};
use crate::limits::REGISTERS;
use crate::net::address;
use crate::watch;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;

/// The state that all threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) recorder: Recorder,
    pub(crate) key: ClientKey,
    /// A key with the same name and another secret.
    pub(crate) wrong_key: ClientKey,
    pub(crate) token: String,
    /// The zone with the registers that all clients write.
    pub(crate) registers: String,
    /// The zone with records that are written once.
    pub(crate) records: String,
    /// The value that each register has, as far as clients know.
    pub(crate) guesses: Vec<AtomicU32>,
    /// The last value that a client sent.
    pub(crate) last_value: AtomicU32,
    /// The last message id that a client used.
    last_id: AtomicU16,
    /// Pause between two updates of one client.
    pub(crate) pause: Duration,
    targets: RwLock<Vec<Target>>,
    is_over: AtomicBool,
}

impl Shared {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns the id of the next message. Two messages in the same second never have the same id: otherwise two
    /// updates could be the same bytes, and nodes would take the second one for a repeat of the first one.
    pub(crate) fn next_id(&self) -> u16 {
        next_id(&self.last_id)
    }

    /// Returns the members that clients send to.
    pub(crate) fn targets(&self) -> Vec<Target> {
        self.targets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Updates the members after one joined or left.
    pub(crate) fn set_targets(&self, cluster: &Cluster<'_>) {
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets_of(cluster);
    }
}

fn next_id(last: &AtomicU16) -> u16 {
    last.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// A node as clients know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// Its number in the cluster, which no other node ever has.
    pub(crate) node: u64,
    /// Its network slot.
    pub(crate) slot: usize,
}

fn targets_of(cluster: &Cluster<'_>) -> Vec<Target> {
    cluster.nodes.values().map(|node| Target { node: node.id, slot: node.slot }).collect()
}

/// Number of clients that read.
const READERS: u64 = 3;

/// The number of clients, and their update rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) clients: u32,
    pub(crate) updates_per_second: u32,
}

/// Running clients.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(cluster: &Cluster<'_>, zones: &[String; 2], rate: Rate, seed: u64) -> Result<Self, String> {
        let owner = crate::cluster::name("torture.");
        let wrong_key = ClientKey::new(owner.as_ref(), KeyAlgorithm::HmacSha256, &[7; 32]);
        let [registers, records] = zones.clone();
        let shared = Arc::new(Shared {
            recorder: Recorder::new(),
            key: cluster.key.clone(),
            wrong_key: wrong_key.map_err(|error| format!("{error:?}"))?,
            token: cluster.token.clone(),
            registers,
            records,
            guesses: (0..REGISTERS).map(|_| AtomicU32::new(0)).collect(),
            last_value: AtomicU32::new(0),
            last_id: AtomicU16::new(0),
            pause: Duration::from_micros(u64::from(rate.clients) * 1_000_000 / u64::from(rate.updates_per_second)),
            targets: RwLock::new(targets_of(cluster)),
            is_over: AtomicBool::new(false),
        });
        let mut load = Self { shared, threads: Vec::new() };
        for number in 1..=rate.clients {
            let (shared, random) = (load.shared.clone(), ChaCha8Rng::seed_from_u64(seed ^ u64::from(number) << 32));
            load.threads.push(std::thread::spawn(move || client::run(&shared, number, random)));
        }
        for number in 0..READERS {
            let (shared, random) = (load.shared.clone(), ChaCha8Rng::seed_from_u64(seed ^ (100 + number) << 32));
            load.threads.push(std::thread::spawn(move || read(&shared, random)));
        }
        let shared = load.shared.clone();
        load.threads.push(std::thread::spawn(move || watch::run(&shared)));
        Ok(load)
    }

    /// Stops all threads.
    pub(crate) fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                let what = "a client panicked; see standard error".to_owned();
                self.shared.recorder.push(Event::Contradiction { register: "client".into(), what });
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Does linearizable reads of whole zones, in turn through each node.
fn read(shared: &Shared, mut random: ChaCha8Rng) {
    while !shared.is_over() {
        let targets = shared.targets();
        let Some(&Target { node, slot }) = targets.choose(&mut random) else { continue };
        let zone = if random.random_ratio(1, 5) { &shared.records } else { &shared.registers };
        // Short timeouts detect a stopped node that answers an old request when it resumes.
        let timeout = Duration::from_millis(if random.random_ratio(3, 4) { 400 } else { 8000 });
        let call_ns = shared.recorder.now_ns();
        if let Ok(read) = api::zone(address(slot), zone, &shared.token, api::Read::Linearizable(timeout)) {
            let (serial, records, return_ns) = (read.serial, read.records, shared.recorder.now_ns());
            let listing = Listing { zone: zone.clone(), node, call_ns, return_ns, serial, records };
            shared.recorder.push(Event::Listing(listing));
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn message_ids_repeat_only_after_all_were_used() {
        let last = AtomicU16::new(0);
        let half = || (0..1 << 15).map(|_| next_id(&last)).collect::<Vec<u16>>();
        let ids = std::thread::scope(|scope| {
            let other = scope.spawn(half);
            [half(), other.join().unwrap()].concat()
        });
        assert_eq!(BTreeSet::from_iter(&ids).len(), 1 << 16);
        assert_eq!(next_id(&last), 1);
    }
}
