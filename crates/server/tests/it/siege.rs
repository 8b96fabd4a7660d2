//! Every attack of a stranger and of a weak key at once, and what the cluster's own clients see meanwhile.

use crate::support::cluster::{Cluster, key_of, wait_for};
use crate::support::message::{name, sign};
use crate::support::nodes::cluster_of_nodes;
use crate::support::open_files::may_open;
use crate::support::strangers::Strangers;
use crate::support::tools::is_full_run;
use crate::updates::{add, rcode};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tsig::client::ClientKey;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// Queries a second of the cluster's own client, and how long it waits for an answer.
const QUERIES_PER_SECOND: u32 = 2_000;
const QUERY_WAIT: Duration = Duration::from_secs(1);
/// Time between its updates, and what 99 of 100 may take.
const UPDATE_PAUSE: Duration = Duration::from_millis(50);
const UPDATE_P99_MAX: Duration = Duration::from_millis(250);
/// How long a node that was killed may take to be back.
const BACK_MAX: Duration = Duration::from_secs(10);
/// What a node may grow by.
const GROWTH_BYTES_MAX: u64 = 256 << 20;

/// File limit for the connections of all attackers, and other open files.
const OPEN_FILES: u64 = 10_000;

/// Attackers that go on until it is dropped.
struct Siege {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    _strangers: Strangers,
}

impl Siege {
    fn lay(cluster: &Cluster, weak: &ClientKey, transfer: &ClientKey) -> Self {
        let mut siege = Self { stop: Arc::default(), threads: Vec::new(), _strangers: Strangers::start(cluster) };
        for id in cluster.ids() {
            let (dns, api) = (cluster.dns(id), cluster.api(id));
            siege.datagrams(dns, Duration::from_millis(1), forged);
            siege.datagrams(dns, Duration::from_millis(1), malformed);
            siege.idle_connections(dns, 16, 60, b"");
            siege.idle_connections(api, 1, 200, b"GET /healthz HTTP/1.1\r\nHost: ");
            let request = axfr(transfer);
            siege.idle_connections(dns, 1, 40, &request);
        }
        let (weak, dns) = (weak.clone(), cluster.dns(1));
        siege.datagrams(dns, Duration::from_millis(5), move |number| fill(&weak, number));
        siege
    }

    /// Sends a datagram at each pause, and takes no notice of what comes back.
    fn datagrams(&mut self, to: SocketAddr, pause: Duration, make: impl Fn(u32) -> Vec<u8> + Send + 'static) {
        let stop = self.stop.clone();
        self.threads.push(std::thread::spawn(move || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // A full buffer of the kernel is as good as a lost datagram.
                let _ = socket.send_to(&make(number), to);
                std::thread::sleep(pause);
            }
        }));
    }

    /// Holds so many connections from each of so many addresses, on each of which this was said; opens them again when
    /// they are closed.
    fn idle_connections(&mut self, to: SocketAddr, addresses: u8, each: usize, said: &[u8]) {
        let (stop, said) = (self.stop.clone(), said.to_vec());
        self.threads.push(std::thread::spawn(move || {
            let mut held: VecDeque<TcpStream> = VecDeque::new();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let source = Ipv4Addr::new(127, 0, 9, 1 + (number % u32::from(addresses)) as u8);
                if held.len() >= each * usize::from(addresses) {
                    held.pop_front();
                }
                if let Ok(mut stream) = crate::support::hostile_peer::connect_from(source, to) {
                    let _ = stream.write_all(&said);
                    held.push_back(stream);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }));
    }
}

impl Drop for Siege {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// An update with a MAC that is none, under a key that exists.
fn forged(number: u32) -> Vec<u8> {
    let key = ClientKey::new(name("own.").as_ref(), tsig::KeyAlgorithm::HmacSha256, &[7; 32]).unwrap();
    add(&key, &format!("forged-{number}.example.test."))
}

/// A query that ends too early, or says more than it has.
fn malformed(number: u32) -> Vec<u8> {
    let mut message = MessageBuilder::query(number as u16, name("www.example.test.").as_ref(), Rtype::A).build();
    let at = number as usize % message.len();
    message[at] ^= (number >> 3) as u8 | 1;
    message.truncate(12 + number as usize % 40);
    message
}

/// A request for a transfer, whose answer nobody reads.
fn axfr(key: &ClientKey) -> Vec<u8> {
    let message = MessageBuilder::query(1, name("example.test.").as_ref(), Rtype::AXFR).build();
    let signed = sign(key, message, 0);
    [&(signed.len() as u16).to_be_bytes()[..], &signed].concat()
}

/// One more record of one and the same owner, the only one that the weak key may change.
fn fill(key: &ClientKey, number: u32) -> Vec<u8> {
    let text = format!("{number:0>120}");
    let rdata = [&[text.len() as u8][..], text.as_bytes()].concat();
    let message = MessageBuilder::update(number as u16, name("example.test.").as_ref())
        .add(name("weak.example.test.").as_ref(), Rtype::TXT, 60, &rdata)
        .build();
    sign(key, message, 0)
}

/// Asks nodes in turn, at an even rate; gives how many were asked and how many answered.
fn ask(nodes: &[SocketAddr], stop: &AtomicBool) -> (usize, usize) {
    let sockets: Vec<UdpSocket> = nodes
        .iter()
        .map(|node| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.connect(node).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        })
        .collect();
    let (mut asked, mut answered, begin) = (0usize, 0usize, Instant::now());
    let mut waiting = vec![vec![None::<Instant>; 1 << 16]; sockets.len()];
    let mut ended = None::<Instant>;
    while ended.is_none_or(|ended| ended.elapsed() < QUERY_WAIT) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(QUERIES_PER_SECOND)) as usize;
        while ended.is_none() && asked < due {
            let (socket, id) = (asked % sockets.len(), (asked / sockets.len()) as u16);
            let query = MessageBuilder::query(id, name("www.example.test.").as_ref(), Rtype::A).build();
            let _ = sockets[socket].send(&query);
            waiting[socket][usize::from(id)] = Some(Instant::now());
            asked += 1;
        }
        let mut response = [0; 1_024];
        for (socket, waiting) in sockets.iter().zip(&mut waiting) {
            while let Ok(length) = socket.recv(&mut response) {
                let id = usize::from(u16::from_be_bytes([response[0], response[1]]));
                let is_right = length >= 12 && response[3] & 0x0F == 0;
                answered += usize::from(is_right && waiting[id].take().is_some_and(|at| at.elapsed() <= QUERY_WAIT));
            }
        }
        if ended.is_none() && stop.load(Ordering::Relaxed) {
            ended = Some(Instant::now());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (asked, answered)
}

/// Sends updates of a key of its own to a node, one after the other; gives how long each took.
fn update(key: &ClientKey, node: SocketAddr, stop: &AtomicBool) -> Vec<Duration> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(node).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let message = add(key, &format!("own-{}.example.test.", took.len()));
        let (sent, mut response) = (Instant::now(), [0; 1_024]);
        socket.send(&message).unwrap();
        let length = socket.recv(&mut response).expect("an answer to an update within five seconds");
        assert_eq!(rcode(&message, &response[..length]), 0);
        took.push(sent.elapsed());
        std::thread::sleep(UPDATE_PAUSE);
    }
    took
}

/// What a process holds in memory, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn key(cluster: &Cluster, words: &[&str]) -> ClientKey {
    let output = cluster.run(&[&["key", "add"], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    key_of(&String::from_utf8_lossy(&output.stdout))
}

#[test]
fn with_every_attack_at_once_clients_see_nothing_of_it() {
    if !may_open(OPEN_FILES) {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("siege");
    let leader = nodes.leader(&cluster);
    let (restarted, asked) = (leader % 3 + 1, 6 - leader - (leader % 3 + 1));
    let own = key(&cluster, &["own", "--update", "--zone", "example.test"]);
    let weak = key(&cluster, &["weak", "--update", "--zone", "example.test"]);
    let transfer = key(&cluster, &["secondary", "--transfer", "--zone", "example.test"]);
    cluster.settle();
    let term = cluster.status(leader).unwrap()["term"].clone();
    let pids = [leader, asked].map(|id| nodes.pid(id));
    let before = pids.map(resident);

    let stop = Arc::<AtomicBool>::default();
    let siege = Siege::lay(&cluster, &weak, &transfer);
    let addresses = [cluster.dns(leader), cluster.dns(asked)];
    let queries = std::thread::spawn({
        let stop = stop.clone();
        move || ask(&addresses, &stop)
    });
    let updates = std::thread::spawn({
        let (stop, node) = (stop.clone(), cluster.dns(asked));
        move || update(&own, node, &stop)
    });
    let length = Duration::from_secs(if is_full_run() { 60 } else { 12 });
    std::thread::sleep(length / 2);
    nodes.kill(restarted);
    let started = Instant::now();
    nodes.start(&cluster, restarted);
    wait_for("the node to be back", || {
        let (own, other) = (cluster.status(restarted)?, cluster.status(asked)?);
        let applied = |status: &serde_json::Value| status["applied_index"].as_u64();
        (own["serving"] == "yes" && applied(&own)? + 1_000 >= applied(&other)?).then_some(())
    });
    let back = started.elapsed();
    std::thread::sleep(length / 2);
    let grown: Vec<u64> = pids.iter().zip(before).map(|(&pid, before)| resident(pid).saturating_sub(before)).collect();
    stop.store(true, Ordering::Relaxed);
    let (asked_count, answered) = queries.join().unwrap();
    let mut took = updates.join().unwrap();
    drop(siege);
    took.sort();
    let p99 = took[took.len() * 99 / 100];
    println!(
        "{answered} of {asked_count} queries, {} updates, p99 {p99:?}, back after {back:?}, grown by {grown:?} bytes",
        took.len()
    );
    assert!(answered * 1_000 >= asked_count * 999, "{answered} of {asked_count} queries were answered");
    assert!(p99 <= UPDATE_P99_MAX, "the updates of another key took {p99:?}");
    assert!(back <= BACK_MAX, "{back:?}");
    assert!(grown.iter().all(|grown| *grown <= GROWTH_BYTES_MAX), "{grown:?}");
    assert_eq!(cluster.status(leader).unwrap()["term"], term, "an election");
    cluster.settle();
    cluster.ids().for_each(|id| nodes.stop(id));
}
