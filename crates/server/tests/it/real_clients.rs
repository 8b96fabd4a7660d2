//! The usual clients `nsupdate`, `knsupdate` and `dig`, through each of three nodes.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{SILENCE, Transport, exchange};
use crate::support::message::{describe, name, sign};
use crate::support::pipeline::outcome_of;
use crate::support::relay::Relay;
use crate::support::tools::{dig, has, transfer, update, update_again};
use std::time::Duration;
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype};
use wire::parse::Section;

const TOOLS: [&str; 2] = ["nsupdate", "knsupdate"];

/// The five prerequisites, true and false, and the four forms of an update (RFC 2136 2.4, 2.5), in this order. `P` is a
/// name for each case. The second element is the RCODE that the client prints if the case fails.
const CASES: &[(&str, Option<&str>)] = &[
    // 2.5.1: add to an RRset.
    ("update add P 60 A 192.0.2.1\nupdate add P 60 A 192.0.2.2\nupdate add P 60 TXT \"x\"", None),
    // 2.4.1: RRset exists (value independent).
    ("prereq yxrrset P A\nupdate add 1.P 60 A 192.0.2.1", None),
    ("prereq yxrrset P MX\nupdate add bad.P 60 A 192.0.2.1", Some("NXRRSET")),
    // 2.4.2: RRset exists (value dependent): the whole of it.
    ("prereq yxrrset P A 192.0.2.2\nprereq yxrrset P A 192.0.2.1\nupdate add 2.P 60 A 192.0.2.1", None),
    ("prereq yxrrset P A 192.0.2.1\nupdate add bad.P 60 A 192.0.2.1", Some("NXRRSET")),
    ("prereq yxrrset P TXT \"X\"\nupdate add bad.P 60 A 192.0.2.1", Some("NXRRSET")),
    // 2.4.3: RRset does not exist.
    ("prereq nxrrset P MX\nupdate add 3.P 60 A 192.0.2.1", None),
    ("prereq nxrrset P A\nupdate add bad.P 60 A 192.0.2.1", Some("YXRRSET")),
    // 2.4.4: name is in use; an empty non-terminal is not.
    ("prereq yxdomain P\nupdate add x.4.P 60 A 192.0.2.1", None),
    ("prereq yxdomain 4.P\nupdate add bad.P 60 A 192.0.2.1", Some("NXDOMAIN")),
    // 2.4.5: name is not in use.
    ("prereq nxdomain 4.P\nupdate add 5.P 60 MX 10 P", None),
    ("prereq nxdomain P\nupdate add bad.P 60 A 192.0.2.1", Some("YXDOMAIN")),
    // 2.5.4: delete an RR from an RRset; a missing RR is not an error.
    ("update delete P A 192.0.2.1\nupdate delete P A 192.0.2.77", None),
    // 2.5.2: delete an RRset.
    ("update delete P TXT", None),
    // 2.5.3: delete all RRsets from a name.
    ("update delete 1.P", None),
    // All of these in one message, executed in order.
    ("prereq yxdomain P\nprereq nxdomain 1.P\nupdate delete 2.P A\nupdate add 2.P 60 A 192.0.2.9", None),
    // Outside the zone. The client sends it anyway.
    ("update add elsewhere.test. 60 A 192.0.2.1", Some("NOTZONE")),
];

/// The records that remain under a case's name, without the zone.
const LEFT: &[&str] =
    &["P 60 A 192.0.2.2", "2.P 60 A 192.0.2.9", "3.P 60 A 192.0.2.1", "x.4.P 60 A 192.0.2.1", "5.P 60 MX 10 P"];

/// The number of cases that change the zone.
fn effective() -> u64 {
    CASES.iter().filter(|(_, fails)| fails.is_none()).count() as u64
}

#[test]
fn every_prerequisite_and_every_step_works_with_both_clients_through_each_node() {
    if !has("dig") || !TOOLS.into_iter().all(has) {
        return;
    }
    let cluster = Cluster::start("forms", 3, &[]);
    let serial = cluster.status(1).unwrap()["zones"][0]["serial"].as_u64().unwrap();
    let mut left = Vec::new();
    let mut wrong = Vec::new();
    for tool in TOOLS {
        for id in cluster.ids() {
            let own = format!("{tool}-{id}.example.test.");
            // One of the nodes is used over TCP.
            let tool = if id == 2 { format!("{tool} -v") } else { tool.to_owned() };
            for (lines, fails) in CASES {
                let script = format!("zone example.test.\n{}", lines.replace('P', &own));
                let outcome = update_again(&tool, cluster.dns(id), &cluster.update_key(), &script);
                let is_right = match (&outcome, fails) {
                    (Ok(_), None) => true,
                    (Err(outcome), Some(rcode)) => outcome.contains(rcode),
                    _ => false,
                };
                if !is_right {
                    wrong.push(format!("{tool} through node {id}: {lines}\n  wanted {fails:?}, got {outcome:?}"));
                }
            }
            left.extend(LEFT.iter().map(|record| record.replace('P', &own)));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    left.sort();
    cluster.settle();
    for id in cluster.ids() {
        let status = cluster.status(id).unwrap();
        assert_eq!(status["zones"][0]["serial"], serial + 6 * effective(), "one step for each that changes something");
        let found = transfer(cluster.dns(id), Some(&cluster.update_key()), "example.test");
        let found: Vec<String> = found.into_iter().filter(|line| line.contains("nsupdate-")).collect();
        assert_eq!(found, left, "node {id}");
    }
    let count = |end: &str| -> u64 {
        cluster.ids().map(|id| cluster.metric(id, &format!("catamaran_updates_total{{end=\"{end}\"}}"))).sum()
    };
    // A client may send its message again, and each copy counts. The serial above shows that each was executed once.
    assert!(count("done") >= 6 * effective(), "{}", count("done"));
    // NOTZONE is returned at once, because the message has no prerequisite.
    assert!(count("failed") >= 6 * (CASES.len() as u64 - effective() - 1), "{}", count("failed"));
}

#[test]
fn an_update_repeated_to_other_nodes_is_executed_once() {
    if !TOOLS.into_iter().all(has) {
        return;
    }
    let cluster = Cluster::start("repeats", 3, &[]);
    let serial = |id| cluster.status(id).unwrap()["zones"][0]["serial"].as_u64().unwrap();
    for tool in TOOLS {
        let mut attempt = 0;
        let (before, sent) = wait_for("an outcome other than SERVFAIL", || {
            attempt += 1;
            cluster.settle();
            let before = serial(1);
            // The response of node 1 is lost. The repeat goes to node 2.
            let relay = Relay::start(cluster.ids().map(|id| cluster.dns(id)).collect(), 1);
            // A second execution would fail, because the name is in use then.
            let owner = format!("{tool}{attempt}.example.test.");
            let script = format!("zone example.test.\nprereq nxdomain {owner}\nupdate add {owner} 60 A 192.0.2.1");
            let outcome = update(tool, relay.address, &cluster.update_key(), &script);
            let sent = relay.finish();
            // During an election a copy is not executed. The test then starts with another name.
            if outcome.as_ref().is_err_and(|printed| printed.contains("SERVFAIL")) {
                return None;
            }
            assert!(outcome.is_ok(), "{tool}: {outcome:?}");
            Some((before, sent))
        });
        assert!(sent.len() >= 2, "{tool}");
        assert!(sent.iter().all(|(bytes, _)| *bytes == sent[0].0), "{tool} sends the same bytes");
        assert_eq!(sent[0].1 == sent[1].1, tool == "nsupdate", "{tool}: ports {} and {}", sent[0].1, sent[1].1);
        cluster.settle();
        cluster.ids().for_each(|id| assert_eq!(serial(id), before + 1, "{tool}, node {id}"));
    }
}

#[test]
fn a_repeat_from_another_address_is_badtime_and_changes_nothing() {
    let cluster = Cluster::start("replay", 3, &[]);
    let message = MessageBuilder::update(77, name("example.test.").as_ref())
        .add(name("replay.example.test.").as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
        .build();
    let message = sign(&cluster.client_key(), message, 0);
    let first = outcome_of(Transport::Udp, cluster.dns(1), &message);
    assert_eq!(describe(&message, &first), "NOERROR, question, tsig noerror, mac");
    let hash = cluster.settle();
    for id in cluster.ids() {
        let socket = std::net::UdpSocket::bind(("127.0.0.2", 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let described = wait_for("a response other than SERVFAIL", || {
            socket.send_to(&message, cluster.dns(id)).unwrap();
            let mut response = vec![0; 512];
            let len = socket.recv(&mut response).ok()?;
            Some(describe(&message, &response[..len])).filter(|described| !described.starts_with("SERVFAIL"))
        });
        assert_eq!(described, "NOTAUTH, question, tsig badtime, mac, server time", "node {id}");
        assert!(cluster.metric(id, "catamaran_updates_total{end=\"bad_time\"}") >= 1, "node {id}");
    }
    assert_eq!(cluster.settle(), hash);
}

#[test]
fn every_algorithm_signs_updates_transfers_and_their_responses() {
    if !has("dig") || !TOOLS.into_iter().all(has) {
        return;
    }
    let cluster = Cluster::start("algorithms", 3, &[]);
    let scratch = crate::support::cluster::Scratch::new("algorithms");
    for algorithm in ["hmac-sha256", "hmac-sha384", "hmac-sha512"] {
        let made = cluster.run(&["key", "add", algorithm, "--algorithm", algorithm, "--update", "--transfer"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        cluster.settle();
        let file = scratch.file(algorithm, &String::from_utf8_lossy(&made.stdout));
        for (tool, id) in TOOLS.into_iter().zip(cluster.ids()) {
            let owner = format!("{tool}.{algorithm}.example.test.");
            let script = format!("zone example.test.\nupdate add {owner} 60 A 192.0.2.1");
            // Both clients check the MAC of the response, and fail if it is wrong.
            let outcome = update_again(tool, cluster.dns(id), file.as_ref(), &script);
            assert!(outcome.is_ok(), "{tool} {algorithm}: {outcome:?}");
            let printed = dig(cluster.dns(id), &["-k", &file, "example.test", "AXFR"]);
            assert!(printed.contains(&owner) && printed.contains(";; XFR size:"), "{algorithm}: {printed}");
            assert!(!printed.contains("Couldn't verify"), "{algorithm}: {printed}");
        }
    }
}

/// An IXFR query with the SOA that the client has (RFC 1995 3).
fn ixfr(serial: u32) -> MessageBuilder {
    let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
    MessageBuilder::query(0x1995, name("example.test.").as_ref(), Rtype::IXFR)
        .record(Section::Authority, name("example.test.").as_ref(), Rtype::SOA, Class::IN, 0, &soa)
        .edns(1232, false)
}

#[test]
fn transfers_over_udp_and_without_right_get_their_answers() {
    let cluster = Cluster::start("transfers", 3, &[]);
    let made = cluster.run(&["key", "add", "updates-only", "--update"]);
    assert!(made.status.success());
    cluster.settle();
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    let secret = data_encoding::BASE64.decode(text.split('"').nth(3).unwrap().as_bytes()).unwrap();
    let limited = ClientKey::new(name("updates-only.").as_ref(), KeyAlgorithm::HmacSha256, &secret).unwrap();
    let good = cluster.client_key();
    let axfr = || MessageBuilder::query(0x5936, name("example.test.").as_ref(), Rtype::AXFR).edns(1232, false);
    let ask = |transport, message: Vec<u8>| {
        let response = exchange(transport, cluster.dns(2), &message, SILENCE.saturating_mul(10)).unwrap();
        describe(&message, &response)
    };
    let soa_alone = "NOERROR, question, answer 1, opt, tsig noerror, mac";
    for serial in [0, 1, 99] {
        // RFC 1995 2: over UDP the response is the current SOA, whatever the client has.
        assert_eq!(ask(Transport::Udp, sign(&good, ixfr(serial).build(), 0)), soa_alone, "{serial}");
    }
    assert_eq!(ask(Transport::Tcp, sign(&good, ixfr(1).build(), 0)), soa_alone, "it is current");
    for transport in [Transport::Udp, Transport::Tcp] {
        // A key without the permission gets "Prohibited". A client without a key gets no transfer (row 18).
        let prohibited = "REFUSED, question, opt, ede 18, tsig noerror, mac";
        assert_eq!(ask(transport, sign(&limited, ixfr(0).build(), 0)), prohibited, "{transport:?}");
        assert_eq!(ask(transport, ixfr(0).build()), "REFUSED, question, opt, ede 21", "{transport:?}");
        assert_eq!(ask(transport, axfr().build()), "REFUSED, question, opt, ede 21", "{transport:?}");
    }
    let prohibited = "REFUSED, question, opt, ede 18, tsig noerror, mac";
    assert_eq!(ask(Transport::Tcp, sign(&limited, axfr().build(), 0)), prohibited);
    // RFC 5936 4.2: there is no AXFR over UDP for any client.
    let not_supported = "REFUSED, question, opt, ede 21, tsig noerror, mac";
    assert_eq!(ask(Transport::Udp, sign(&good, axfr().build(), 0)), not_supported);
    if has("dig") {
        let key = cluster.update_key();
        let printed = dig(cluster.dns(3), &["-k", key.to_str().unwrap(), "example.test", "IXFR=0", "+notcp"]);
        assert!(printed.contains("\tSOA\t") && !printed.contains("Couldn't verify"), "{printed}");
    }
}
