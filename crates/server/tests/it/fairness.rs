//! One key sends as many updates as it can, another ten a second. No update of the second key is refused, or waits for
//! all updates of the first. The same holds for two zones of one key, and beside a zone of many records that is being
//! added.
//!
//! A leader has thousands of updates in flight before updates wait in its queue. That is more than the clients of this
//! test have in flight. The test shows that no stage delays an update much during a flood. The queue's fairness,
//! independent of the order of arrival, is tested where the queue can be made long: `propose::queue` and
//! `scenarios::overload` of the replica.

use crate::support::cluster::{self, Cluster, Scratch, wait_for};
use crate::support::dns::{framed, is_timeout, read_message};
use crate::support::http;
use crate::support::message::{name, now_s};
use skip::stalls::StallWatch;
use std::fmt::Write as _;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tsig::KeyAlgorithm;
use tsig::client::{ClientKey, UpdateBuilder};
use wire::Rtype;
use wire::number::Rcode;

/// Connections of the key that floods.
const FLOODS: usize = 6;
/// Updates in flight on each of them. More than a node accepts of one connection would only wait in the socket.
const IN_FLIGHT: usize = 120;
/// Updates of the other key, and the pause between two.
const UPDATES: usize = 40;
const PAUSE: Duration = Duration::from_millis(100);
/// The zone that is flooded, and another zone.
const FLOODED: &str = "example.test.";
const CALM: &str = "calm.test.";
/// Pause after SERVFAIL.
const RESEND_PAUSE: Duration = Duration::from_millis(20);
/// Maximum median latency of an update of another key during the flood: this, or ten times the median before it.
const LATENCY_MAX: Duration = Duration::from_millis(500);
const SLOWER_MAX: u32 = 10;
/// Time limit for one response. The test looks for a node that delays a response forever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Adds a key with this name to the cluster.
pub(crate) fn key(cluster: &Cluster, key: &str) -> ClientKey {
    let secret = data_encoding::BASE64.encode(key.repeat(32).as_bytes());
    let body = format!("{{\"name\": \"{key}\", \"algorithm\": \"hmac-sha256\", \"secret\": \"{secret}\"}}");
    let made = http::request(cluster.api(1), "POST", "/v1/keys", Some(&cluster.token()), body.as_bytes()).unwrap();
    assert!([200, 201].contains(&made.status), "{}", made.text());
    ClientKey::new(name(key).as_ref(), KeyAlgorithm::HmacSha256, key.repeat(32).as_bytes()).unwrap()
}

fn update(key: &ClientKey, zone: &str, owner: &str, number: u64) -> Vec<u8> {
    let builder = UpdateBuilder::new(number as u16, name(zone).as_ref());
    let rdata = [10, (number >> 16) as u8, (number >> 8) as u8, number as u8];
    let owner = name(&format!("{owner}.{zone}"));
    let builder = builder.delete_rrset(owner.as_ref(), Rtype::A).add(owner.as_ref(), 60, Rtype::A, &rdata);
    key.sign(builder.finish(), now_s()).unwrap()
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// If the connection is closed, the next read fails.
fn send(stream: &mut TcpStream, message: &[u8]) {
    let _ = stream.write_all(&framed(message));
}

/// The next response. `None` if the node has closed the connection, because the outcome of an update is unknown.
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let response = read_message(stream);
    assert!(!response.as_ref().is_err_and(is_timeout), "starved: no response within {PATIENCE:?}");
    response.ok()
}

fn rcode(response: &[u8]) -> Rcode {
    Rcode(u16::from(response[3] & 15))
}

/// Keeps `IN_FLIGHT` updates in flight until it is told to stop, and counts those that were done. A node may refuse
/// updates that it has no room for.
fn flood(to: SocketAddr, key: &ClientKey, which: usize, done: &AtomicU64, stop: &AtomicBool) {
    let mut stream = connect(to);
    let (mut sent, mut heard) = (0, 0);
    while !stop.load(SeqCst) || heard < sent {
        while sent - heard < IN_FLIGHT as u64 && !stop.load(SeqCst) {
            send(&mut stream, &update(key, FLOODED, &format!("f{which}-{}", sent % 500), sent));
            sent += 1;
        }
        let Some(response) = receive(&mut stream) else {
            (stream, heard) = (connect(to), sent);
            continue;
        };
        heard += 1;
        match rcode(&response) {
            Rcode::NOERROR => _ = done.fetch_add(1, SeqCst),
            Rcode::SERVFAIL => {}
            other => panic!("flood {which} hears {other:?}"),
        }
    }
}

/// A client that sends updates one by one, each until it is done.
struct Client<'k> {
    to: SocketAddr,
    stream: TcpStream,
    key: &'k ClientKey,
    /// How many times an update was sent again. This happens when there is no leader for a while.
    resent: u64,
}

impl<'k> Client<'k> {
    fn new(to: SocketAddr, key: &'k ClientKey) -> Self {
        Self { to, stream: connect(to), key, resent: 0 }
    }

    /// Sends an update until it is done, and returns the time that it took. After SERVFAIL, or if the connection is
    /// closed, the same bytes are sent again. A node executes them once.
    fn timed(&mut self, zone: &str, owner: &str, number: u64) -> Duration {
        let (message, start) = (update(self.key, zone, owner, number), Instant::now());
        loop {
            send(&mut self.stream, &message);
            match receive(&mut self.stream).map(|response| rcode(&response)) {
                Some(Rcode::NOERROR) => return start.elapsed(),
                Some(Rcode::SERVFAIL) => std::thread::sleep(RESEND_PAUSE),
                Some(other) => panic!("update {number} of {zone} got {other:?}"),
                None => self.stream = connect(self.to),
            }
            assert!(start.elapsed() < cluster::PATIENCE, "update {number} is starved");
            self.resent += 1;
        }
    }

    /// Sends updates one by one. Returns the latency of each, and the increase of `count` meanwhile.
    fn updates(&mut self, zone: &str, label: &str, count: &AtomicU64) -> Vec<(Duration, u64)> {
        let one = |number| {
            let before = count.load(SeqCst);
            let time = self.timed(zone, &format!("{label}{number}"), number);
            let took = (time, count.load(SeqCst) - before);
            std::thread::sleep(PAUSE);
            took
        };
        (0..UPDATES as u64).map(one).collect()
    }
}

#[test]
fn a_quiet_key_is_served_beside_a_flooding_key() {
    others_are_answered_during_a_flood("fairness", "little", FLOODED);
}

#[test]
fn a_zone_keeps_its_latency_beside_a_flooded_zone_of_the_same_key() {
    others_are_answered_during_a_flood("fair-zones", "much", CALM);
}

/// Records of the zone that is added meanwhile: more than fifty chunks, each an entry of the log. With `--full`, a
/// million.
const IMPORTED: usize = 500_000;
const IMPORTED_FULL: usize = 1_000_000;
/// How many such zones are added at most.
const IMPORTS_MAX: usize = 10;

#[test]
fn small_updates_stay_fast_while_a_large_zone_is_added() {
    let scratch = Scratch::new("fair-import");
    let cluster = Cluster::start("fair-import", 3, &[]);
    let imported = if skip::is_full_run() { IMPORTED_FULL } else { IMPORTED };
    let mut large = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n".to_owned();
    for number in 0..imported {
        writeln!(large, "host-{number} A 192.0.{}.{}", number >> 8 & 255, number & 255).unwrap();
    }
    let large = scratch.file("large", &large);
    let little = key(&cluster, "little");
    let rules = scratch.file("rules", "grant little zonesub A;\n");
    assert!(cluster.run(&["policy", "set", FLOODED, &rules]).status.success());
    cluster.settle();
    let leader = cluster.leader();
    let node = cluster.ids().find(|&id| id != leader).unwrap();
    let applied = || cluster.status(leader).and_then(|status| status["applied_index"].as_u64()).unwrap();
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let mut client = Client::new(cluster.dns(node), &little);
    let mut one = |number| client.timed(FLOODED, &format!("i{number}"), number);
    let mut quiet: Vec<Duration> = (0..UPDATES as u64).map(&mut one).collect();
    let (mut beside, mut number) = (Vec::new(), UPDATES as u64);
    // On a slow disk there are few updates beside one import.
    for import in 0..IMPORTS_MAX {
        std::thread::scope(|scope| {
            let adding = scope.spawn(|| cluster.run(&["zone", "add", &format!("large{import}.test.={large}")]));
            let mut before = applied();
            while !adding.is_finished() {
                let took = one(number);
                let after = applied();
                // One entry is the update's own. Others appear only after the program has read and sent the file.
                if after > before + 1 {
                    beside.push(took);
                }
                (number, before) = (number + 1, after);
            }
            let added = adding.join().unwrap();
            assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        });
        if beside.len() >= UPDATES / 4 {
            break;
        }
    }
    [&mut quiet, &mut beside].into_iter().for_each(|times| times.sort_unstable());
    assert!(beside.len() >= UPDATES / 4, "only {} updates while records were taken", beside.len());
    let (quiet, delayed) = (quiet[quiet.len() / 2], beside[beside.len() / 2]);
    println!("{} beside the import: {delayed:?} in the median, {:?} at worst", beside.len(), beside[beside.len() - 1]);
    if watch.stall("the latency of updates beside an import").is_none() {
        assert_eq!(client.resent, 0, "updates were sent again");
        assert!(delayed <= latency_max(quiet), "{delayed:?} beside the import, {quiet:?} without");
    }
}

/// Maximum median latency during a flood, from the median before it.
fn latency_max(quiet: Duration) -> Duration {
    LATENCY_MAX.max(SLOWER_MAX * quiet)
}

/// The updates go through a follower, so they pass its queue and the leader's.
fn others_are_answered_during_a_flood(cluster: &str, own: &str, zone: &str) {
    let scratch = Scratch::new(cluster);
    let cluster = Cluster::start(cluster, 3, &[]);
    let calm = scratch.file("calm", "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n");
    assert!(cluster.run(&["zone", "add", &format!("{CALM}={calm}")]).status.success());
    let (much, little) = (key(&cluster, "much"), key(&cluster, "little"));
    let rules = scratch.file("rules", "grant much zonesub A;\ngrant little zonesub A;\n");
    for zone in [FLOODED, CALM] {
        let set = cluster.run(&["policy", "set", zone, &rules]);
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    }
    let own = if own == "much" { &much } else { &little };
    cluster.settle();
    let leader = cluster.leader();
    let node = cluster.ids().find(|&id| id != leader).unwrap();
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let mut client = Client::new(cluster.dns(node), own);
    let quiet = client.updates(zone, "q", &done);
    let mut beside = Vec::new();
    std::thread::scope(|scope| {
        // Half of the flood goes through this node, and half to the leader itself.
        for which in 0..FLOODS {
            let to = cluster.dns(if which % 2 == 0 { node } else { leader });
            let (much, done, stop) = (&much, &done, &stop);
            scope.spawn(move || flood(to, much, which, done, stop));
        }
        let finish = Stop(&stop);
        let in_flight = (FLOODS * IN_FLIGHT) as u64;
        wait_for("the flood to run", || (done.load(SeqCst) >= in_flight).then_some(()));
        beside = client.updates(zone, "l", &done);
        drop(finish);
    });
    let total = done.load(SeqCst);
    let median_of = |took: &[(Duration, u64)]| {
        let mut times: Vec<Duration> = took.iter().map(|(time, _)| *time).collect();
        times.sort_unstable();
        times[UPDATES / 2]
    };
    let (quiet, delayed) = (median_of(&quiet), median_of(&beside));
    let mut waited: Vec<u64> = beside.iter().map(|(_, count)| *count).collect();
    waited.sort_unstable();
    let median = waited[UPDATES / 2];
    println!("{total} of the flood; while one of the others waited: median {median}, most {}", waited[UPDATES - 1]);
    println!("in the median one took {quiet:?} before the flood, {delayed:?} beside it");
    if watch.stall("updates beside a flood").is_none() {
        // With a smaller flood, the checks below would prove nothing.
        assert!(total >= 20 * UPDATES as u64, "{total}");
        assert_eq!(client.resent, 0, "updates of the other were refused or lost");
        let in_flight = (FLOODS * IN_FLIGHT) as u64;
        assert!(median <= 3 * in_flight, "in the median {median} of the flood went before one: {waited:?}");
        assert!(delayed <= latency_max(quiet), "{delayed:?} beside the flood, {quiet:?} without");
    }
}

/// Ends the flood, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
