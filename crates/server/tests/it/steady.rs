//! System calls of packet workers that only answer queries.

use crate::support::cluster::Cluster;
use crate::support::dns::{Transport, exchange};
use crate::support::message::name;
use crate::support::tools::{Watched, has, may_watch, nsupdate};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{Message, Section};

const COOKIE: u16 = 10;
const WAIT: Duration = Duration::from_secs(10);
/// How long the workers are watched.
const WATCHED: Duration = Duration::from_secs(2);

/// Queries with DO for a signed zone, and types that the answer and authority sections must contain.
const OF_SIGNED: [(&str, Rtype, &[Rtype]); 12] = [
    ("www.signed.test.", Rtype::A, &[Rtype::A, Rtype::RRSIG]),
    ("signed.test.", Rtype::DNSKEY, &[Rtype::DNSKEY, Rtype::RRSIG]),
    ("signed.test.", Rtype::NSEC, &[Rtype::NSEC, Rtype::RRSIG]),
    ("alias.signed.test.", Rtype::A, &[Rtype::CNAME, Rtype::A, Rtype::RRSIG]),
    // NODATA, NXDOMAIN, and an empty non-terminal.
    ("www.signed.test.", Rtype::MX, &[Rtype::SOA, Rtype::NSEC, Rtype::RRSIG]),
    ("nothing.signed.test.", Rtype::A, &[Rtype::SOA, Rtype::NSEC, Rtype::RRSIG]),
    ("wild.signed.test.", Rtype::A, &[Rtype::SOA, Rtype::NSEC, Rtype::RRSIG]),
    // A wildcard, and a type that it does not have.
    ("any.wild.signed.test.", Rtype::TXT, &[Rtype::TXT, Rtype::NSEC, Rtype::RRSIG]),
    ("any.wild.signed.test.", Rtype::A, &[Rtype::SOA, Rtype::NSEC, Rtype::RRSIG]),
    // Delegations to an unsigned zone and to a signed one.
    ("www.below.signed.test.", Rtype::A, &[Rtype::NS, Rtype::NSEC, Rtype::RRSIG]),
    ("www.safe.signed.test.", Rtype::A, &[Rtype::NS, Rtype::DS, Rtype::RRSIG]),
    ("www.short.signed.test.", Rtype::A, &[Rtype::DNAME, Rtype::CNAME, Rtype::A, Rtype::RRSIG]),
];

/// The queries, after a check of their answers.
fn messages_of_signed(server: SocketAddr) -> Vec<Vec<u8>> {
    let ask = |(owner, rtype, wanted): (&str, Rtype, &[Rtype])| {
        let query = MessageBuilder::query(7, name(owner).as_ref(), rtype).edns(1232, true).build();
        let response = exchange(Transport::Udp, server, &query, WAIT).unwrap();
        let message = Message::parse(&response).unwrap();
        let sections = [Section::Answer, Section::Authority].into_iter();
        let types: BTreeSet<Rtype> =
            sections.flat_map(|section| message.records(section)).map(|record| record.unwrap().rtype).collect();
        assert!(wanted.iter().all(|rtype| types.contains(rtype)), "{owner} {rtype:?}: {types:?}");
        query
    };
    OF_SIGNED.map(ask).into()
}

/// A query with a valid server cookie, and one with an invalid one (RFC 7873 5.2).
fn messages_with_cookies(server: SocketAddr) -> Vec<Vec<u8>> {
    let with = |owner: &str, cookie: &[u8]| {
        MessageBuilder::query(8, name(owner).as_ref(), Rtype::A).edns(1232, false).option(COOKIE, cookie).build()
    };
    let given = |cookie: &[u8]| {
        let response = exchange(Transport::Udp, server, &with("www.example.test.", cookie), WAIT).unwrap();
        Message::parse(&response).unwrap().edns().unwrap().option(COOKIE).unwrap().to_vec()
    };
    let good = given(&[1; 8]);
    assert_eq!((good.len(), given(&good)), (24, good.clone()), "a valid cookie comes back unchanged");
    vec![
        with("www.example.test.", &good),
        with("nothing.example.test.", &good),
        with("www.example.test.", &[&good[..23], &[!good[23]]].concat()),
    ]
}

/// One of each kind of message that a worker answers itself: the kinds for which it allocates nothing
/// (`src/listen/udp/steady.rs`).
fn messages(server: SocketAddr) -> Vec<Vec<u8>> {
    let ask = |text: &str, rtype| MessageBuilder::query(7, name(text).as_ref(), rtype).edns(1232, false).build();
    let www = || MessageBuilder::query(8, name("www.example.test.").as_ref(), Rtype::A);
    let mut messages = vec![
        ask("www.example.test.", Rtype::A),
        www().build(),
        ask("www.example.test.", Rtype::MX),
        ask("nothing.example.test.", Rtype::A),
        ask("alias.example.test.", Rtype::A),
        ask("any.wild.example.test.", Rtype::TXT),
        ask("www.below.example.test.", Rtype::A),
        ask("many.example.test.", Rtype::A),
        ask("example.test.", Rtype::ANY),
        ask("elsewhere.test.", Rtype::A),
        www().edns(1232, false).option(10, &[1; 8]).build(),
        b"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\xFF".to_vec(),
        b"short".to_vec(),
        ask("www.short.example.test.", Rtype::A),
        ask("nothing.short.example.test.", Rtype::A),
        ask("wild.example.test.", Rtype::TXT),
        ask("below.example.test.", Rtype::DS),
    ];
    messages.extend(messages_of_signed(server));
    messages.extend(messages_with_cookies(server));
    messages
}

/// The names of the packet workers' threads, by thread ID.
fn workers(pid: u32) -> BTreeMap<String, String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks
        .filter_map(|task| {
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
            name.starts_with("udp-").then(|| (task.file_name().to_string_lossy().into_owned(), name))
        })
        .collect()
}

/// Thread and call in a line of strace's output: `12 poll([{fd=3`. `None` for a signal.
fn call(line: &str) -> Option<(&str, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let (call, _) = rest.split_once('(')?;
    (!call.starts_with(['-', '+'])).then_some((thread, call))
}

/// The file descriptor of a call.
fn descriptor(line: &str) -> Option<u32> {
    line.split_once('(')?.1.split_once(',')?.0.parse().ok()
}

#[test]
fn packet_workers_only_receive_send_and_poll() {
    if !has("nsupdate") || !may_watch() {
        return;
    }
    let cluster = Cluster::start("steady", 1, &[]);
    // A delegation, a name with more records than fit a datagram, names below another, and a signed zone.
    let many: String = (0..80).map(|last| format!("update add many.example.test. 60 A 10.0.0.{last}\n")).collect();
    let below = "update add below.example.test. 60 NS ns.below.example.test.\n\
                 update add ns.below.example.test. 60 A 192.0.2.3\n\
                 update add short.example.test. 60 DNAME example.test.\n";
    nsupdate(cluster.dns(1), &cluster.update_key(), &format!("zone example.test.\n{many}{below}")).unwrap();
    let signed = concat!("signed.test=", env!("CARGO_MANIFEST_DIR"), "/tests/it/signed.zone");
    let added = cluster.run(&["zone", "add", signed]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let pid = cluster.pid(1).unwrap();
    let workers = workers(pid);
    assert!(!workers.is_empty());
    // Several sockets, so that each worker receives some.
    let clients: Vec<UdpSocket> = (0..16).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    clients.iter().for_each(|client| client.set_nonblocking(true).unwrap());
    let messages = messages(cluster.dns(1));
    let ask = |lasting: Duration| {
        let until = Instant::now() + lasting;
        // RCODE and TC of the responses.
        let mut answers: BTreeMap<(u8, bool), u64> = BTreeMap::new();
        while Instant::now() < until {
            for client in &clients {
                messages.iter().for_each(|message| _ = client.send_to(message, cluster.dns(1)).unwrap());
            }
            std::thread::sleep(Duration::from_millis(1));
            let mut bytes = [0; 2_048];
            for client in &clients {
                while client.recv(&mut bytes).is_ok() {
                    *answers.entry((bytes[3] & 0x0F, bytes[2] & 2 != 0)).or_default() += 1;
                }
            }
        }
        answers
    };
    ask(Duration::from_millis(300));
    let watched = Watched::start(&cluster.dir, pid, &[]);
    let answers = ask(WATCHED);
    let text = watched.stop();
    // NOERROR complete and truncated, FORMERR, NXDOMAIN, REFUSED: the node sent each kind of response.
    let kinds: BTreeSet<(u8, bool)> = answers.keys().copied().collect();
    assert_eq!(kinds, BTreeSet::from([(0, false), (0, true), (1, false), (3, false), (5, false)]), "{answers:?}");
    assert!(answers.values().sum::<u64>() > 1_000, "{answers:?}");
    let mut calls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (thread, call) in text.lines().filter_map(call).filter(|(thread, _)| workers.contains_key(*thread)) {
        calls.entry(thread).or_default().insert(call);
    }
    assert_eq!(calls.len(), workers.len(), "each worker was watched");
    // `poll` shows as `restart_syscall` when a signal of the watcher interrupts it.
    let expected = ["poll", "recvmmsg", "sendmmsg", "restart_syscall"];
    for (thread, calls) in &calls {
        let others: Vec<_> = calls.iter().filter(|call| !expected.contains(call)).collect();
        assert!(others.is_empty(), "{}: {others:?} among {} calls", workers[*thread], text.lines().count());
    }
    // No two workers read from one socket. Otherwise one could wait for another, or read the datagram that woke
    // another.
    let mut readers: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains(" recvmmsg(")) {
        readers.entry(descriptor(line).unwrap()).or_default().insert(line.split_once(' ').unwrap().0);
    }
    assert!(readers.len() >= workers.len() && readers.values().all(|threads| threads.len() == 1), "{readers:?}");
    for call in ["recvmmsg", "sendmmsg"] {
        assert!(calls.values().any(|calls| calls.contains(call)), "{call}");
    }
}
