//! One key, or one zone, gets as many updates as can be sent, another ten a second: nothing of the second is refused,
//! and it does not wait for all that the first has been sent.

use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::dns::read_tcp;
use crate::support::http;
use crate::support::message::{name, now_s};
use replica::io::KeyAlgorithm;
use replica::update::client::{ClientKey, UpdateBuilder};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use wire::Rtype;
use wire::number::Rcode;

/// Connections of the key that sends much.
const FLOODS: usize = 6;
/// What each of them has on its way; one more than a node takes of a connection would only wait in the socket.
const IN_FLIGHT: usize = 120;
/// Updates of the other key, and the pause between two.
const UPDATES: usize = 40;
const PAUSE: Duration = Duration::from_millis(100);
/// How long one response is waited for: a node that holds one up for ever is what is looked for.
const PATIENCE: Duration = Duration::from_secs(30);

fn key(cluster: &Cluster, key: &str) -> ClientKey {
    let secret = data_encoding::BASE64.encode(key.repeat(32).as_bytes());
    let body = format!("{{\"name\": \"{key}\", \"algorithm\": \"hmac-sha256\", \"secret\": \"{secret}\"}}");
    let made = http::request(cluster.api(1), "POST", "/v1/keys", Some(&cluster.token()), body.as_bytes()).unwrap();
    assert!([200, 201].contains(&made.status), "{}", made.text());
    ClientKey::new(name(key).as_ref(), KeyAlgorithm::HmacSha256, key.repeat(32).as_bytes()).unwrap()
}

/// Who writes what.
struct Writer {
    key: ClientKey,
    zone: &'static str,
}

impl Writer {
    fn update(&self, owner: &str, number: u64) -> Vec<u8> {
        let builder = UpdateBuilder::new(number as u16, name(self.zone).as_ref());
        let rdata = [10, (number >> 16) as u8, (number >> 8) as u8, number as u8];
        let owner = name(&format!("{owner}.{}", self.zone));
        let builder = builder.delete_rrset(owner.as_ref(), Rtype::A).add(owner.as_ref(), 60, Rtype::A, &rdata);
        self.key.sign(builder.finish(), now_s()).unwrap()
    }
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn send(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(&[&(message.len() as u16).to_be_bytes(), message].concat()).unwrap();
}

fn rcode(response: &[u8]) -> Rcode {
    Rcode(u16::from(response[3] & 15))
}

/// Keeps `IN_FLIGHT` updates on their way until it is told to stop; counts those that were done. What a node has no
/// room for it may refuse.
fn flood(stream: &mut TcpStream, much: &Writer, which: usize, done: &AtomicU64, stop: &AtomicBool) {
    let (mut sent, mut heard) = (0, 0);
    while !stop.load(SeqCst) || heard < sent {
        while sent - heard < IN_FLIGHT as u64 && !stop.load(SeqCst) {
            send(stream, &much.update(&format!("f{which}-{}", sent % 500), sent));
            sent += 1;
        }
        let Ok(response) = read_tcp(stream) else { panic!("flood {which} is not answered, {heard} of {sent} were") };
        heard += 1;
        match rcode(&response) {
            Rcode::NOERROR => _ = done.fetch_add(1, SeqCst),
            Rcode::SERVFAIL => {}
            other => panic!("flood {which} hears {other:?}"),
        }
    }
}

#[test]
fn a_key_that_sends_little_is_heard_beside_one_that_sends_all_it_can() {
    let cluster = Cluster::start("fairness-keys", 3, &[]);
    let writer = |name: &str| Writer { key: key(&cluster, name), zone: "example.test." };
    let (much, little) = (writer("much"), writer("little"));
    let scratch = Scratch::new("fairness-keys");
    let rules = scratch.file("rules", "grant much zonesub A;\ngrant little zonesub A;\n");
    assert!(cluster.run(&["policy", "set", "example.test", &rules]).status.success());
    assert_heard_beside(&cluster, &much, &little);
}

#[test]
fn a_zone_that_gets_little_is_heard_beside_one_that_gets_all_that_can_be_sent() {
    let cluster = Cluster::start("fairness-zones", 3, &[]);
    let scratch = Scratch::new("fairness-zones");
    let file = scratch.file(
        "much.test.zone",
        "$ORIGIN much.test.\n@ 60 SOA ns hm 1 3600 900 86400 60\n@ 60 NS ns\nns 60 A 192.0.2.1\n",
    );
    assert!(cluster.run(&["zone", "add", &format!("much.test={file}")]).status.success());
    // One key writes both.
    let key = key(&cluster, "one");
    let rules = scratch.file("rules", "grant one zonesub A;\n");
    for zone in ["example.test", "much.test"] {
        assert!(cluster.run(&["policy", "set", zone, &rules]).status.success());
    }
    let (much, little) = (Writer { key: key.clone(), zone: "much.test." }, Writer { key, zone: "example.test." });
    assert_heard_beside(&cluster, &much, &little);
}

/// Through a follower as through the leader: both queues are on the way then.
fn assert_heard_beside(cluster: &Cluster, much: &Writer, little: &Writer) {
    cluster.settle();
    let leader = cluster.leader();
    let node = cluster.ids().find(|&id| id != leader).unwrap();
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut waited = Vec::new();
    std::thread::scope(|scope| {
        // Half of it comes by way of this node, half to the leader itself.
        for which in 0..FLOODS {
            let to = cluster.dns(if which % 2 == 0 { node } else { leader });
            let (done, stop) = (&done, &stop);
            scope.spawn(move || flood(&mut connect(to), much, which, done, stop));
        }
        let finish = Stop(&stop);
        let in_flight = (FLOODS * IN_FLIGHT) as u64;
        wait_for("the flood to run", || (done.load(SeqCst) >= in_flight).then_some(()));
        let mut stream = connect(cluster.dns(node));
        for number in 0..UPDATES as u64 {
            let before = done.load(SeqCst);
            send(&mut stream, &little.update(&format!("l{number}"), number));
            let response = read_tcp(&mut stream).unwrap_or_else(|error| panic!("update {number} is starved: {error}"));
            assert_eq!(rcode(&response), Rcode::NOERROR, "update {number} of the one that gets little");
            waited.push(done.load(SeqCst) - before);
            std::thread::sleep(PAUSE);
        }
        drop(finish);
    });
    let total = done.load(SeqCst);
    waited.sort_unstable();
    let median = waited[UPDATES / 2];
    println!("{total} of the flood; while one of the others waited: median {median}, most {}", waited[UPDATES - 1]);
    // It was a flood; and its rate, not ours, is what others do not wait for.
    assert!(total >= 20 * UPDATES as u64, "{total}");
    let in_flight = (FLOODS * IN_FLIGHT) as u64;
    assert!(median <= 3 * in_flight, "in the median {median} of the flood went before one: {waited:?}");
}

/// Ends the flood, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
