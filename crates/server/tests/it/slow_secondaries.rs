//! Secondaries that take a zone slowly, while it changes: what they keep in memory is bounded, and they leave room for
//! others.

use crate::support::cluster::{Cluster, Scratch, key_of, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::encrypted::framed;
use crate::support::http;
use crate::support::message::{name, sign};
use replica::update::client::ClientKey;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Names of the zone, each with a text of 200 bytes: far more than sockets and queues on the way hold.
const NAMES: usize = 100_000;
/// Records of one update.
const UPDATE_RECORDS: usize = 400;
const LIMBO: &str = "catamaran_zone_retired_bytes";

/// A node with a large zone, and limits of transfers.
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

/// Asks for the zone, with a socket that takes next to nothing by itself.
fn begin_slowly(cluster: &Cluster) -> TcpStream {
    begin(cluster, slow_socket(cluster, Ipv4Addr::LOCALHOST))
}

/// A connection from one of this machine's addresses that takes next to nothing by itself.
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

/// Asks for the zone.
fn begin(cluster: &Cluster, stream: TcpStream) -> TcpStream {
    begin_with(&cluster.client_key(), stream)
}

/// Asks for the zone with a key.
fn begin_with(key: &ClientKey, mut stream: TcpStream) -> TcpStream {
    stream.write_all(&request(key)).unwrap();
    // It has begun, and holds its version.
    stream.read_exact(&mut [0; 1_024]).unwrap();
    stream
}

/// Reads all of the zone.
fn take_whole(mut stream: TcpStream) {
    let query = MessageBuilder::query(2, name("large.test.").as_ref(), Rtype::SOA).build();
    stream.write_all(&framed(&query)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert!(bytes.len() > NAMES * 200, "{} bytes", bytes.len());
}

fn given_up(cluster: &Cluster, reason: &str) -> u64 {
    cluster.metric(1, &format!("catamaran_transfers_given_up_total{{reason=\"{reason}\"}}"))
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
fn a_slow_secondary_keeps_a_bounded_part_of_what_changes_meanwhile() {
    const HELD_BYTES_MAX: u64 = 1 << 20;
    const ROUNDS: usize = 60;
    let limit = format!("held_bytes_max = {HELD_BYTES_MAX}");
    let cluster = start("slow-memory", &[("held_bytes_max = 268435456", &limit)]);
    let _stream = begin_slowly(&cluster);
    assert_eq!(cluster.metric(1, "catamaran_transfers_running"), 1);
    let mut most = 0;
    for round in 0..ROUNDS {
        update(&cluster, round);
        // What an update let go may be a little more than what is left, until the transfer has looked again.
        wait_for("memory that is free again", || {
            let limbo = cluster.metric(1, LIMBO);
            most = most.max(limbo);
            (limbo <= HELD_BYTES_MAX).then_some(())
        });
    }
    println!("at most {most} bytes of former versions");
    assert_eq!((given_up(&cluster, "memory"), given_up(&cluster, "slow")), (1, 0), "all that was too much for one");
    assert_eq!(cluster.metric(1, "catamaran_transfers_running"), 0);
    // Nothing is kept when nobody reads, also while nothing changes.
    wait_for("memory that is free again", || (cluster.metric(1, LIMBO) == 0).then_some(()));
}

#[test]
fn a_zone_that_goes_counts_as_memory_that_a_slow_secondary_keeps() {
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
    wait_for("memory that is free", || (cluster.metric(1, LIMBO) == 0).then_some(()));
    let _stream = begin_slowly(&cluster);
    ask("DELETE", "");
    wait_for("the end", || (given_up(&cluster, "memory") == 1).then_some(()));
    assert_eq!(given_up(&cluster, "slow"), 0);
    wait_for("memory that is free again", || (cluster.metric(1, LIMBO) == 0).then_some(()));
}

#[test]
fn a_secondary_that_does_not_keep_its_rate_is_cut_off() {
    let limits = [("grace_ms = 60000", "grace_ms = 1000"), ("second_min = 65536", "second_min = 1000000")];
    let cluster = start("slow-rate", &limits);
    let mut stream = begin_slowly(&cluster);
    // It reads on and on, so that no single message waits for long.
    wait_for("the end", || {
        stream.read_exact(&mut [0; 4_096]).unwrap();
        (given_up(&cluster, "slow") == 1).then_some(())
    });
    assert_eq!(cluster.metric(1, "catamaran_transfers_running"), 0);
    // One that keeps it gets all.
    take_whole(begin(&cluster, TcpStream::connect(cluster.dns(1)).unwrap()));
    assert_eq!(given_up(&cluster, "slow"), 1);
}

/// Slow transfers of one key, far more than there are places.
const GREEDY: usize = 40;
/// Places of a node.
const PLACES: u64 = 16;
/// Time in which another gets the whole zone, though all places are taken.
const SOON: Duration = Duration::from_secs(20);

/// Has the key of `up` take all places, and hold them.
fn take_all_places(cluster: &Cluster) -> Vec<TcpStream> {
    let asked = |_| {
        let mut stream = slow_socket(cluster, Ipv4Addr::LOCALHOST);
        stream.write_all(&request(&cluster.client_key())).unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..GREEDY).map(asked).collect();
    let refused = "catamaran_rejects_total{transport=\"tcp\",reason=\"transfers_max\"}";
    wait_for("an answer to each", || (cluster.metric(1, refused) == GREEDY as u64 - PLACES).then_some(()));
    assert_eq!((cluster.metric(1, "catamaran_transfers_running"), given_up(cluster, "evicted")), (PLACES, 0));
    slow
}

#[test]
fn a_key_that_holds_all_transfers_gives_one_to_another_key() {
    let cluster = start("greedy-key", &[]);
    let made = cluster.run(&["key", "add", "other", "--transfer", "--zone", "large.test"]);
    assert!(made.status.success(), "{made:?}");
    let other = key_of(str::from_utf8(&made.stdout).unwrap());
    let _slow = take_all_places(&cluster);
    let begun = Instant::now();
    take_whole(begin_with(&other, TcpStream::connect(cluster.dns(1)).unwrap()));
    println!("the other key had its zone after {:?}", begun.elapsed());
    assert!(begun.elapsed() < SOON);
    assert_eq!(given_up(&cluster, "evicted"), 1, "one made room, and no more");
    wait_for("its end", || (cluster.metric(1, "catamaran_transfers_running") == PLACES - 1).then_some(()));
}

#[test]
fn a_client_that_holds_all_transfers_of_a_key_gives_one_to_another_client_of_it() {
    let cluster = start("greedy-client", &[]);
    let _slow = take_all_places(&cluster);
    // Another network of loopback.
    let _other = begin(&cluster, slow_socket(&cluster, Ipv4Addr::new(127, 0, 9, 1)));
    wait_for("the end of one", || (given_up(&cluster, "evicted") == 1).then_some(()));
    wait_for("its place", || (cluster.metric(1, "catamaran_transfers_running") == PLACES).then_some(()));
}
