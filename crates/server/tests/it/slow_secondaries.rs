//! Secondaries that transfer a zone slowly while it changes. The memory that they use is bounded, and they leave room
//! for others.

use crate::packets::threads;
use crate::support::cluster::{Cluster, Scratch, key_of, wait_for};
use crate::support::dns::{Transport, exchange, framed};
use crate::support::http;
use crate::support::message::{name, sign};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tsig::client::ClientKey;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Names of the zone, each with a text of 200 bytes: far more than sockets and queues hold.
const NAMES: usize = 100_000;
/// Records of one update.
const UPDATE_RECORDS: usize = 400;
const RETIRED_BYTES: &str = "catamaran_zone_retired_bytes";

/// A node with a large zone, and limits for transfers.
fn start(test: &str, limits: &[(&str, &str)]) -> Cluster {
    let scratch = Scratch::new(test);
    let mut zone =
        "$ORIGIN large.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\nns A 192.0.2.1\n".to_owned();
    (0..NAMES).for_each(|number| writeln!(zone, "n{number} TXT {number:0200}").unwrap());
    let mut cluster = Cluster::start(test, 1, &["--zone", &format!("large.test={}", scratch.file("large", &zone))]);
    cluster.end("TERM");
    limits.iter().for_each(|(from, to)| cluster.configure(1, from, to));
    cluster.resume(&[]);
    cluster
}

/// Requests the zone over a socket with a small receive buffer.
fn begin_slowly(cluster: &Cluster) -> TcpStream {
    begin(cluster, slow_socket(cluster, Ipv4Addr::LOCALHOST))
}

/// A connection from one of this machine's addresses, with a small receive buffer.
fn slow_socket(cluster: &Cluster, from: Ipv4Addr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&cluster.dns(1).into()).unwrap();
    socket.into()
}

/// A request for the zone.
fn request(key: &ClientKey) -> Vec<u8> {
    let query = MessageBuilder::query(1, name("large.test.").as_ref(), Rtype::AXFR).build();
    framed(&sign(key, query, 0))
}

/// Requests the zone.
fn begin(cluster: &Cluster, stream: TcpStream) -> TcpStream {
    begin_with(&cluster.client_key(), stream)
}

/// Requests the zone with a key.
fn begin_with(key: &ClientKey, mut stream: TcpStream) -> TcpStream {
    stream.write_all(&request(key)).unwrap();
    // The transfer has begun, and holds its version.
    stream.read_exact(&mut [0; 1_024]).unwrap();
    stream
}

/// Reads the whole zone.
fn take_whole(mut stream: TcpStream) {
    let query = MessageBuilder::query(2, name("large.test.").as_ref(), Rtype::SOA).build();
    stream.write_all(&framed(&query)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert!(bytes.len() > NAMES * 200, "{} bytes", bytes.len());
}

fn given_up(cluster: &Cluster, reason: &str) -> u64 {
    cluster.metric(1, &format!("catamaran_transfers_aborted_total{{reason=\"{reason}\"}}"))
}

/// Adds an address to many names.
fn update(cluster: &Cluster, round: usize) {
    let update = MessageBuilder::update(round as u16, name("large.test.").as_ref());
    let owner = |number: usize| name(&format!("n{number}.large.test."));
    let update = (0..UPDATE_RECORDS).fold(update, |update, number| {
        update.add(owner(number).as_ref(), Rtype::A, 60, &[10, 0, (round >> 8) as u8, round as u8])
    });
    let message = sign(&cluster.client_key(), update.build(), 0);
    let response = exchange(Transport::Tcp, cluster.dns(1), &message, Duration::from_secs(10)).unwrap();
    assert_eq!(response[3] & 0x0F, 0);
}

#[test]
fn a_slow_secondary_keeps_a_limited_amount_of_old_versions() {
    const HELD_BYTES_MAX: u64 = 1 << 20;
    const ROUNDS: usize = 60;
    let limit = format!("held_bytes_max = {HELD_BYTES_MAX}");
    let cluster = start("slow-memory", &[("held_bytes_max = 268435456", &limit)]);
    let _stream = begin_slowly(&cluster);
    assert_eq!(cluster.metric(1, "catamaran_transfers_running"), 1);
    let mut most = 0;
    for round in 0..ROUNDS {
        update(&cluster, round);
        // The memory that an update released may exceed the limit slightly, until the transfer checks it again.
        wait_for("memory that is free again", || {
            let retired = cluster.metric(1, RETIRED_BYTES);
            most = most.max(retired);
            (retired <= HELD_BYTES_MAX).then_some(())
        });
    }
    println!("at most {most} bytes of former versions");
    assert_eq!((given_up(&cluster, "memory"), given_up(&cluster, "slow")), (1, 0), "all that was too much for one");
    assert_eq!(cluster.metric(1, "catamaran_transfers_running"), 0);
    // Without readers no version is kept, also while nothing changes.
    wait_for("memory that is free again", || (cluster.metric(1, RETIRED_BYTES) == 0).then_some(()));
}

#[test]
fn a_removed_zone_counts_as_memory_of_a_slow_secondary() {
    const HELD_BYTES_MAX: u64 = 1 << 20;
    let limit = format!("held_bytes_max = {HELD_BYTES_MAX}");
    let cluster = start("slow-removal", &[("held_bytes_max = 268435456", &limit)]);
    let mut other = "$ORIGIN other.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\n".to_owned();
    (0..20_000).for_each(|number| writeln!(other, "n{number} TXT {number:0200}").unwrap());
    let token = cluster.token();
    let ask = |method: &str, body: &str| {
        let answer = http::request(cluster.api(1), method, "/v1/zone?zone=other.test.", Some(&token), body.as_bytes());
        let answer = answer.unwrap();
        assert!(matches!(answer.status, 200 | 201), "{} {}", answer.status, answer.text());
    };
    ask("POST", &other);
    wait_for("memory that is free", || (cluster.metric(1, RETIRED_BYTES) == 0).then_some(()));
    let _stream = begin_slowly(&cluster);
    ask("DELETE", "");
    wait_for("the end", || (given_up(&cluster, "memory") == 1).then_some(()));
    assert_eq!(given_up(&cluster, "slow"), 0);
    wait_for("memory that is free again", || (cluster.metric(1, RETIRED_BYTES) == 0).then_some(()));
}

#[test]
fn a_secondary_below_the_minimum_rate_is_aborted() {
    let limits = [("grace_ms = 60000", "grace_ms = 5000"), ("second_min = 65536", "second_min = 1000000")];
    let cluster = start("slow-rate", &limits);
    let mut stream = begin_slowly(&cluster);
    // The client reads without a pause, so no single message waits long.
    wait_for("the end", || {
        stream.read_exact(&mut [0; 4_096]).unwrap();
        (given_up(&cluster, "slow") == 1).then_some(())
    });
    assert_eq!(cluster.metric(1, "catamaran_transfers_running"), 0);
    // A client that keeps the rate gets the whole zone.
    take_whole(begin(&cluster, TcpStream::connect(cluster.dns(1)).unwrap()));
    assert_eq!(given_up(&cluster, "slow"), 1);
}

/// Slow transfers of one key, far more than there are slots.
const GREEDY: usize = 40;
/// Transfers that a node runs at the same time.
const SLOTS: u64 = 16;
/// Time in which another client gets the whole zone, although all slots are taken.
const SOON: Duration = Duration::from_secs(20);

/// Takes all slots with the key of `up`, and holds them.
fn take_all_slots(cluster: &Cluster) -> Vec<TcpStream> {
    let start_transfer = |_| {
        let mut stream = slow_socket(cluster, Ipv4Addr::LOCALHOST);
        stream.write_all(&request(&cluster.client_key())).unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..GREEDY).map(start_transfer).collect();
    let refused = "catamaran_rejects_total{transport=\"tcp\",reason=\"transfers_max\"}";
    wait_for("an answer to each", || (cluster.metric(1, refused) == GREEDY as u64 - SLOTS).then_some(()));
    assert_eq!((cluster.metric(1, "catamaran_transfers_running"), given_up(cluster, "evicted")), (SLOTS, 0));
    slow
}

#[test]
fn a_key_with_all_transfers_loses_one_to_another_key() {
    let cluster = start("greedy-key", &[]);
    let made = cluster.run(&["key", "add", "other", "--transfer", "--zone", "large.test"]);
    assert!(made.status.success(), "{made:?}");
    let other = key_of(str::from_utf8(&made.stdout).unwrap());
    let _slow = take_all_slots(&cluster);
    let begun = Instant::now();
    take_whole(begin_with(&other, TcpStream::connect(cluster.dns(1)).unwrap()));
    println!("the other key had its zone after {:?}", begun.elapsed());
    assert!(begun.elapsed() < SOON);
    assert_eq!(given_up(&cluster, "evicted"), 1, "one made room, and no more");
    wait_for("its end", || (cluster.metric(1, "catamaran_transfers_running") == SLOTS - 1).then_some(()));
}

#[test]
fn a_client_with_all_transfers_of_a_key_loses_one_to_another_client() {
    let cluster = start("greedy-client", &[]);
    let _slow = take_all_slots(&cluster);
    // Another network of loopback.
    let _other = begin(&cluster, slow_socket(&cluster, Ipv4Addr::new(127, 0, 9, 1)));
    wait_for("the end of one", || (given_up(&cluster, "evicted") == 1).then_some(()));
    wait_for("a slot", || (cluster.metric(1, "catamaran_transfers_running") == SLOTS).then_some(()));
}

#[test]
fn a_thread_serves_one_transfer_after_the_other() {
    let cluster = start("transfer-threads", &[]);
    for _ in 0..4 {
        take_whole(begin(&cluster, TcpStream::connect(cluster.dns(1)).unwrap()));
        wait_for("its end", || (cluster.metric(1, "catamaran_transfers_running") == 0).then_some(()));
    }
    let threads = threads(cluster.pid(1).unwrap());
    let count = threads.iter().filter(|(name, ..)| name == "transfer").count();
    // The last one may not be idle yet when the next transfer begins.
    assert!((1..=2).contains(&count), "{threads:?}");
}
