//! The load of one run: clients that write, clients that read, and watchers, until it is stopped.

use crate::api;
use crate::client;
use crate::cluster::Cluster;
use crate::history::{Event, Listing, Recorder};
use crate::limits::REGISTERS;
use crate::net::address;
use crate::shared::{Shared, Target, targets_of};
use crate::watch;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;

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
