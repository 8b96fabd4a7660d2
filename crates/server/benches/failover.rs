//! Measures how long a cluster accepts no updates after `kill -9` of its leader (docs/history/failover.md):
//!
//! ```text
//! cargo bench --profile gate -p catamaran-server --bench failover -- --records 1000000 --kills 12
//! ```

#[expect(dead_code, reason = "it is shared with the tests, which use more of it")]
#[path = "../tests/it/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::cluster::{Cluster, Scratch, kill};
use support::message::{name, sign};
use tsig::client::ClientKey;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// Time between two updates of one stream.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a restarted node may take to catch up.
const BACK_MAX: Duration = Duration::from_secs(900);
/// How long updates may stay unacknowledged before the run is given up.
const RESUME_MAX: Duration = Duration::from_secs(60);
/// How long streams run before and after a kill.
const AROUND: Duration = Duration::from_secs(2);

fn main() {
    let records = argument("--records", 1_000_000);
    let kills = argument("--kills", 12);
    let scratch = Scratch::new("failover");
    let zone = zone_file(&scratch, records);
    let start = Instant::now();
    let cluster =
        Cluster::start_within(BACK_MAX, "failover", 3, &["--supervise", "--zone", &format!("example.test={zone}")]);
    settle(&cluster);
    println!("{records} records, 3 nodes: ready after {:.1} s", start.elapsed().as_secs_f64());
    let (mut pauses, mut backs) = (Vec::new(), Vec::new());
    for number in 1..=kills {
        let (pause, back) = one_kill(&cluster, number);
        pauses.push(pause);
        backs.push(back);
    }
    println!("first update acknowledged after the kill: {}", figures(&mut pauses));
    println!("the killed node has caught up: {}", figures(&mut backs));
}

fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} needs a number")))
}

fn zone_file(scratch: &Scratch, records: u64) -> String {
    let path = scratch.file("zone", "$TTL 60\n@ SOA ns h 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n");
    let mut file = std::io::BufWriter::new(std::fs::OpenOptions::new().append(true).open(&path).unwrap());
    for number in 0..records as u32 {
        let [_, b, c, d] = number.to_be_bytes();
        writeln!(file, "h{:08x} A 10.{b}.{c}.{d}", number.wrapping_mul(0x9E37_79B1)).unwrap();
    }
    file.into_inner().unwrap();
    path
}

/// Kills the leader during two streams of updates. Returns how long no update was acknowledged, and how long the node
/// took to catch up.
fn one_kill(cluster: &Cluster, number: u64) -> (Duration, Duration) {
    let leader = settle(cluster);
    let pid = cluster.pid(leader).unwrap();
    let memory: Vec<String> = cluster.ids().map(|id| rss_mib(cluster.pid(id).unwrap()).to_string()).collect();
    let survivors = cluster.ids().filter(|id| *id != leader);
    let streams: Vec<Stream> = survivors.map(|id| Stream::start(cluster, id, &format!("k{number}-{id}"))).collect();
    std::thread::sleep(AROUND);
    let killed = Instant::now();
    kill("KILL", pid);
    let is_dead = Instant::now();
    std::thread::sleep(AROUND);
    // Only updates sent after the signal count: an older one may have been committed before. The time counts from
    // before the signal.
    let acknowledged: Vec<Acknowledged> = streams.into_iter().flat_map(|stream| stream.finish(killed)).collect();
    let first = acknowledged.iter().filter(|it| it.sent >= is_dead).map(|it| it.at).min();
    let pause = first.expect("an update is acknowledged after the kill") - killed;
    while cluster.pid(leader).is_none_or(|now| now == pid) {
        assert!(killed.elapsed() < BACK_MAX, "node {leader} was not restarted");
        std::thread::sleep(Duration::from_millis(20));
    }
    settle(cluster);
    let back = killed.elapsed();
    let lost = lost(cluster, &acknowledged);
    println!(
        "kill {number:2} (node {leader}, RSS {} MiB): {:4} ms; back after {:.1} s; {} acknowledged, {lost} lost",
        memory.join(" "),
        pause.as_millis(),
        back.as_secs_f64(),
        acknowledged.len()
    );
    assert_eq!(lost, 0, "acknowledged updates are lost");
    (pause, back)
}

/// Waits until all nodes have the same state and the same leader; returns the leader.
fn settle(cluster: &Cluster) -> u64 {
    let start = Instant::now();
    loop {
        let all: Vec<_> = cluster.ids().filter_map(|id| cluster.status(id)).collect();
        let of = |key: &str| all.iter().all(|status| status[key] == all[0][key]);
        let serve = all.iter().all(|status| status["serving"] == "yes");
        if all.len() as u64 == cluster.nodes && of("applied_index") && of("state_hash") && of("leader") && serve {
            return all[0]["leader"].as_u64().unwrap();
        }
        assert!(start.elapsed() < BACK_MAX, "the nodes do not agree");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The number of acknowledged records that are missing on a node.
fn lost(cluster: &Cluster, acknowledged: &[Acknowledged]) -> usize {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let is_there = |node: u64, owner: &str| {
        let query = MessageBuilder::query(1, name(owner).as_ref(), Rtype::A).build();
        let mut response = [0; 512];
        (0..5).any(|_| {
            socket.send_to(&query, cluster.dns(node)).unwrap();
            socket.recv_from(&mut response).is_ok() && response[3] & 0x0F == 0 && response[7] == 1
        })
    };
    acknowledged.iter().filter(|it| !cluster.ids().all(|id| is_there(id, &it.owner))).count()
}

/// Resident memory of a process, in MiB.
fn rss_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn figures(times: &mut [Duration]) -> String {
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    format!("median {} ms, worst {} ms of {}", median.as_millis(), worst.as_millis(), times.len())
}

/// An update that was answered with NOERROR.
struct Acknowledged {
    owner: String,
    sent: Instant,
    at: Instant,
}

/// Sends updates to one node at a steady rate, without waiting for answers.
struct Stream {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Acknowledged>>,
}

impl Stream {
    fn start(cluster: &Cluster, node: u64, prefix: &str) -> Self {
        let (key, to, prefix) = (cluster.client_key(), cluster.dns(node), prefix.to_owned());
        let stop = Arc::<AtomicBool>::default();
        let its_stop = stop.clone();
        let thread = std::thread::spawn(move || stream(&key, to, &prefix, &its_stop));
        Self { stop, thread }
    }

    fn finish(self, killed: Instant) -> Vec<Acknowledged> {
        assert!(killed.elapsed() < RESUME_MAX);
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn stream(key: &ClientKey, to: SocketAddr, prefix: &str, stop: &AtomicBool) -> Vec<Acknowledged> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let (mut open, mut acknowledged) = (HashMap::new(), Vec::new());
    let (mut next, mut number) = (Instant::now(), 0u16);
    let mut response = [0; 65_535];
    while !stop.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += PAUSE;
            number += 1;
            let owner = format!("{prefix}-{number}.example.test.");
            let message = MessageBuilder::update(number, name("example.test.").as_ref())
                .add(name(&owner).as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
                .build();
            let message = sign(key, message, 0);
            open.insert(number, (owner, Instant::now()));
            let _ = socket.send_to(&message, to);
        }
        let Ok((len, from)) = socket.recv_from(&mut response) else { continue };
        let id = u16::from_be_bytes([response[0], response[1]]);
        if from == to
            && len >= 12
            && response[3] & 0x0F == 0
            && let Some((owner, sent)) = open.remove(&id)
        {
            acknowledged.push(Acknowledged { owner, sent, at: Instant::now() });
        }
    }
    acknowledged
}
