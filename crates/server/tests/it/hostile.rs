//! Invalid and hostile messages: each gets at most one response, is counted, and changes nothing.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::message::{name, now_s};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Datagrams in one run. Each TCP connection carries some more.
const DATAGRAMS: usize = 6_000;
const CONNECTIONS: usize = 150;

#[test]
fn api_connections_are_limited_and_dns_is_not_affected() {
    let cluster = Cluster::start("api-many", 1, &[]);
    let query = MessageBuilder::query(7, name("www.example.test.").as_ref(), Rtype::A).build();
    let ask = |wait_ms| {
        let mut stream = TcpStream::connect(cluster.api(1)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(wait_ms))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = Vec::new();
        // Bytes that arrived before the timeout count.
        let _ = stream.read_to_end(&mut response);
        response.starts_with(b"HTTP/1.1 200")
    };
    assert!(ask(5_000));
    // Half of the connections send nothing, and half begin a request and never finish it.
    let begin = Instant::now();
    let mut connections: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(cluster.api(1)).unwrap()).collect();
    for stream in connections.iter_mut().step_by(2) {
        // The node may have closed the connection already.
        let _ = stream.write_all(b"GET /v1/sta");
    }
    // An idle connection is closed after 5 s.
    assert!(ask(4_000), "idle clients keep others out");
    // This machine allows 64 connections. A connection above the limit waits for a slot for 2 s.
    let is_open = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    wait_for("the end of the connections above the limit", || {
        let open = connections.iter_mut().map(is_open).filter(|is_open| *is_open).count();
        assert!(open <= 64 || begin.elapsed() < Duration::from_millis(4_500), "{open} are open");
        (open <= 64).then_some(())
    });
    for transport in [Transport::Udp, Transport::Tcp] {
        assert!(exchange(transport, cluster.dns(1), &query, Duration::from_secs(5)).is_some());
    }
    drop(connections);
    assert!(ask(10_000), "slots are not released");
}

/// A xorshift generator: the messages are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Well-formed messages of all kinds. None has a signature that is valid now.
fn seeds(cluster: &Cluster) -> Vec<Vec<u8>> {
    let key = cluster.client_key();
    let mut seeds = Vec::new();
    for qname in ["www.example.test.", "example.test.", "x.wild.example.test.", "nope.example.test.", "."] {
        for qtype in [Rtype::A, Rtype::SOA, Rtype::ANY, Rtype::AXFR, Rtype::IXFR, Rtype::DS, Rtype::OPT, Rtype(65_000)]
        {
            let query = MessageBuilder::query(7, name(qname).as_ref(), qtype);
            seeds.push(query.option(3, &[]).option(19, &[]).option(10, &[7; 8]).build());
        }
    }
    let update = || {
        let owner = name("hostile.example.test.");
        MessageBuilder::update(8, name("example.test.").as_ref())
            .name_not_in_use(owner.as_ref())
            .add(owner.as_ref(), Rtype::A, 60, &[192, 0, 2, 66])
            .delete_rrset(owner.as_ref(), Rtype::TXT)
    };
    for _ in 0..10 {
        seeds.push(update().build());
        // A valid signature from an hour ago. No change to the message may make it valid.
        seeds.push(key.sign(update().edns(1232, false).build(), now_s() - 3_600).unwrap());
    }
    seeds
}

fn mutate(random: &mut Random, seed: &[u8]) -> Vec<u8> {
    let mut message = seed.to_vec();
    for _ in 0..random.below(5) {
        let at = random.below(message.len());
        match random.below(8) {
            _ if message.is_empty() => break,
            0..=2 => message[at] = random.next() as u8,
            3 => message[at] = [0, 0xFF, 0xC0, 63, 64, 12][random.below(6)],
            4 => drop(message.drain(at..(at + 1 + random.below(9)).min(message.len()))),
            5 => message.truncate(at),
            6 => message.extend_from_within(at..),
            _ => {
                // Changes one of the counts.
                let at = 4 + random.below(8);
                if at < message.len() {
                    message[at] = random.next() as u8;
                }
            }
        }
    }
    message.truncate(60_000);
    message
}

#[test]
fn mutated_messages_are_answered_or_dropped_counted_and_change_nothing() {
    let cluster = Cluster::start("hostile", 3, &[]);
    let before = cluster.settle();
    let seeds = seeds(&cluster);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut buffer = vec![0; 65_535];
    for n in 0..DATAGRAMS {
        let message = mutate(&mut random, &seeds[n % seeds.len()]);
        socket.send_to(&message, cluster.dns(1 + n as u64 % 3)).unwrap();
        if n % 50 == 49 {
            while socket.recv(&mut buffer).is_ok() {}
        }
    }
    for n in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(cluster.dns(1 + n as u64 % 3)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        for _ in 0..1 + random.below(8) {
            let seed = &seeds[random.below(seeds.len())];
            let message = mutate(&mut random, seed);
            let len = if random.below(4) == 0 { random.next() as u16 } else { message.len() as u16 };
            if stream.write_all(&[&len.to_be_bytes()[..], &message].concat()).is_err() {
                break;
            }
        }
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    }
    assert_eq!(cluster.settle(), before, "a message changed the state");
    for id in cluster.ids() {
        let page = http::get(cluster.api(id), "/metrics").unwrap().text();
        let sum = |family: &str| -> u64 {
            let series = page.lines().filter(|line| line.starts_with(family));
            series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        assert_eq!(sum("catamaran_panics_total"), 0);
        assert_eq!(sum("catamaran_invariant_violations_total"), 0);
        assert!(sum("catamaran_requests_total") >= (DATAGRAMS / 3) as u64);
        assert_eq!(
            sum("catamaran_requests_total"),
            sum("catamaran_responses_total") + sum("catamaran_drops_total"),
            "node {id}: each message is answered or dropped, and counted once"
        );
        assert!(sum("catamaran_rejects_total") > 100, "too few messages were rejected");
    }
}
