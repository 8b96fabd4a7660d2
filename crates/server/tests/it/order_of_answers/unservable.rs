//! Row 20: zones that are known and may not be served.

use super::{ANSWER, ANSWERS, REJECTS, add_record, count, http, increase};
use crate::support::cluster::{Cluster, KillOnDrop, Scratch, kill, wait_for};
use crate::support::dns::{SILENCE, Transport, exchange, exchange_once};
use crate::support::message::{describe, name, sign};
use std::time::Duration;
use wire::Rtype;
use wire::builder::MessageBuilder;

fn query(qname: &str, qtype: Rtype) -> Vec<u8> {
    MessageBuilder::query(7, name(qname).as_ref(), qtype).edns(1232, false).build()
}

/// Sends a message to node 1 once. It must get this response, and this counter must increase by exactly one.
fn check(cluster: &Cluster, transport: Transport, message: &[u8], wanted: &str, counter: (&str, &str)) {
    let before = count(cluster, counter);
    assert_eq!(described(cluster, transport, message), wanted, "{transport:?}");
    assert_eq!(increase(cluster, counter, before), 1, "{wanted} over {transport:?}: {counter:?}");
}

/// Sends a message to node 1 once. Returns the response in words.
fn described(cluster: &Cluster, transport: Transport, message: &[u8]) -> String {
    let response = exchange_once(transport, cluster.dns(1), message, ANSWER);
    response.map_or_else(|| "none".to_owned(), |response| describe(message, &response))
}

/// Starts node 1 of a cluster without the others, and waits for its first answer.
fn start_alone(cluster: &Cluster) -> KillOnDrop {
    let alone = KillOnDrop(cluster.serve(1));
    let message = query("www.example.test.", Rtype::A);
    wait_for("an answer", || exchange(Transport::Tcp, cluster.dns(1), &message, SILENCE));
    alone
}

#[test]
fn row_20_a_zone_that_is_known_and_not_servable_is_servfail_with_ede_14() {
    let mut cluster = Cluster::start("row-20", 3, &[]);
    cluster.settle();
    // The leader is killed last, after a quiet period. A node whose log has entries that may not be committed would
    // wait for a leader in any case.
    std::thread::sleep(Duration::from_secs(1));
    let leader = cluster.leader();
    for id in cluster.ids().filter(|id| *id != leader).chain([leader]) {
        kill("KILL", cluster.pid(id).unwrap());
    }
    cluster.end("KILL");
    // One node of three finds no leader. It knows its zones, but not the updates that it missed.
    let mut alone = start_alone(&cluster);
    let known = query("www.example.test.", Rtype::A);
    let key = cluster.client_key();
    let unsigned = add_record("example.test.").edns(1232, false).build();
    let update = || sign(&key, unsigned.clone(), 0);
    let not_serving = (REJECTS, "not_serving");
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut check = |message: &dyn Fn() -> Vec<u8>, wanted: &str, counter| {
            wait_for("a node that does not serve yet", || {
                let (before, message) = (count(&cluster, counter), message());
                let response = described(&cluster, transport, &message);
                // After 5 s the node serves its data. On a slow machine it starts again for the remaining checks.
                if response != wanted && cluster.status(1)?["serving"] == "stale" {
                    alone.0.kill().unwrap();
                    alone.0.wait().unwrap();
                    alone = start_alone(&cluster);
                    return None;
                }
                assert_eq!(response, wanted, "{transport:?}");
                assert_eq!(increase(&cluster, counter, before), 1, "{wanted} over {transport:?}: {counter:?}");
                Some(())
            });
        };
        check(&|| known.clone(), "SERVFAIL, question, opt, ede 14", (ANSWERS, "servfail"));
        let unknown = query("www.example.org.", Rtype::A);
        check(&|| unknown.clone(), "REFUSED, question, opt, ede 20", (ANSWERS, "refused"));
        check(&update, "SERVFAIL, question, opt, ede 14, tsig noerror, mac", not_serving);
        // Certainly not done (RFC 2136 3.4.2): the node does not know which zones exist, or which keys may update them.
        check(&|| unsigned.clone(), "SERVFAIL, question, opt, ede 14", not_serving);
    }
    // Later it serves its data, marked stale: reads never stop.
    wait_for("a stale answer", || {
        let response = exchange(Transport::Udp, cluster.dns(1), &known, SILENCE)?;
        (describe(&known, &response) == "NOERROR, question, answer 1, opt").then_some(())
    });
    assert_eq!(cluster.status(1).unwrap()["serving"], "stale");
    // A load balancer keeps the node in its pool, unless a maximum age for answers is configured.
    let health = http::get(cluster.api(1), "/healthz").unwrap();
    assert_eq!((health.status, health.json().unwrap()["leader"].is_null()), (200, true));
    assert_eq!(http::get(cluster.api(1), "/healthz?max_staleness_ms=0").unwrap().status, 503);
    kill("TERM", alone.0.id());
    assert!(alone.0.wait().unwrap().success());
}

#[test]
fn row_20_a_zone_that_has_expired_is_servfail_with_ede_24_and_is_not_transferred() {
    let scratch = Scratch::new("row-20-expired");
    // EXPIRE is two seconds.
    let text = "$TTL 60\n@ IN SOA ns h 7 1 1 2 4\n@ NS ns\nns A 192.0.2.53\n";
    let file = format!("zone.test={}", scratch.file("db", text));
    let cluster = Cluster::start("row-20-expired", 3, &[]);
    let added = cluster.run(&["zone", "add", &file, "--stale", "expire"]);
    assert!(added.status.success(), "{added:?}");
    cluster.settle();
    let key = cluster.client_key();
    for id in [2, 3] {
        kill("KILL", cluster.pid(id).unwrap());
    }
    let (expired, other) = (query("ns.zone.test.", Rtype::A), query("www.example.test.", Rtype::A));
    wait_for("the end of the zone", || {
        let response = exchange(Transport::Udp, cluster.dns(1), &expired, SILENCE)?;
        (describe(&expired, &response) == "SERVFAIL, question, opt, ede 24").then_some(())
    });
    let transfer = |zone, qtype| sign(&key, query(zone, qtype), 0);
    let refused = "SERVFAIL, question, opt, ede 24, tsig noerror, mac";
    for transport in [Transport::Udp, Transport::Tcp] {
        let check = |message: &[u8], wanted, counter| check(&cluster, transport, message, wanted, counter);
        check(&expired, "SERVFAIL, question, opt, ede 24", (ANSWERS, "servfail"));
        check(&query("nothing.zone.test.", Rtype::A), "SERVFAIL, question, opt, ede 24", (ANSWERS, "servfail"));
        check(&sign(&key, expired.clone(), 0), refused, (ANSWERS, "servfail"));
        check(&other, "NOERROR, question, answer 1, opt", (ANSWERS, "positive"));
        // A secondary would count EXPIRE from now.
        check(&transfer("zone.test.", Rtype::IXFR), refused, (REJECTS, "expired"));
    }
    let check = |message: &[u8], wanted, counter| check(&cluster, Transport::Tcp, message, wanted, counter);
    check(&transfer("zone.test.", Rtype::AXFR), refused, (REJECTS, "expired"));
    let whole = "NOERROR, question, answer 14, opt, tsig noerror, mac";
    check(&transfer("example.test.", Rtype::AXFR), whole, (super::RESPONSES, "noerror"));
}
