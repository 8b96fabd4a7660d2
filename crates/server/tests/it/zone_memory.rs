//! Zones use at most the configured memory. At the limit nothing grows, and everything else continues.

use crate::fairness::key;
use crate::support::cluster::{Cluster, PATIENCE, Scratch, wait_for};
use crate::support::http;
use crate::support::message::name;
use crate::support::pipeline::{Pipeline, extended_error, put, rcode, update_of};
use crate::support::rss;
use std::fmt::Write as _;
use tsig::client::{ClientKey, UpdateBuilder};
use wire::Rtype;
use wire::number::Rcode;

const ZONE: &str = "example.test.";
/// Memory limit for the zones of each node.
const LIMIT: u64 = 32 << 20;
/// Additional growth allowed for a node: the log in memory, updates in flight, and copies made by changes.
const BESIDE_ZONES: u64 = 64 << 20;
/// Bytes of each name that is added.
const NAME_BYTES: usize = 50_000;

/// A cluster whose nodes have this configuration table, with keys that may write everything.
fn start<const KEYS: usize>(test: &str, table: &str, keys: [&str; KEYS]) -> (Cluster, [ClientKey; KEYS]) {
    let scratch = Scratch::new(test);
    let mut cluster = Cluster::start(test, 3, &[]);
    cluster.end("TERM");
    cluster.configure_all(table);
    cluster.resume(&[]);
    let mut rules = String::new();
    keys.iter().for_each(|key| writeln!(rules, "grant {key} zonesub ANY;").unwrap());
    let keys = keys.map(|of| key(&cluster, of));
    let rules = scratch.file("rules", &rules);
    let set = cluster.run(&["policy", "set", ZONE, &rules]);
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    cluster.settle();
    (cluster, keys)
}

fn owner(number: usize) -> String {
    format!("m{number}.example.test.")
}

fn add(number: usize) -> UpdateBuilder {
    put(ZONE, number, &owner(number), Rtype(65_280), &[number as u8; NAME_BYTES])
}

fn delete(number: usize) -> UpdateBuilder {
    update_of(ZONE, number).delete_name(name(&owner(number)).as_ref())
}

#[test]
fn zones_grow_to_their_limit_and_no_further() {
    let table = format!("[zones]\nmemory_bytes_max = {LIMIT}\nkey_growth_bytes_max = 1000000000\n");
    let (cluster, [filler]) = start("zone-memory", &table, ["filler"]);
    let pids: Vec<u32> = cluster.ids().map(|id| cluster.pid(id).unwrap()).collect();
    let before: Vec<u64> = pids.iter().map(|&pid| rss::resident(pid)).collect();
    pids.iter().for_each(|&pid| rss::forget_peak(pid));
    let leader = cluster.leader();
    let node = cluster.ids().find(|&id| id != leader).unwrap();
    let mut client = Pipeline::new(cluster.dns(node), &filler);
    let most = 2 * LIMIT as usize / NAME_BYTES;
    let refused = (0..most).find_map(|number| {
        let (response, _) = client.one(add(number));
        (rcode(&response) != Rcode::NOERROR).then_some((number, response))
    });
    let (count, response) = refused.expect("the zones have a limit");
    println!("{count} names of {NAME_BYTES} bytes");
    assert!(count * NAME_BYTES > LIMIT as usize / 2, "{count} names are far from the limit");
    assert_eq!(rcode(&response), Rcode::SERVFAIL);
    let (code, text) = extended_error(&response).unwrap();
    assert!(code == 0 && text.contains("zones.memory_bytes_max"), "{code} {text}");
    // All nodes stay within their memory limit, and answer. The leader reports the usage.
    for ((pid, before), id) in pids.iter().zip(&before).zip(cluster.ids()) {
        let grown = rss::peak(*pid).saturating_sub(*before);
        println!("node {id} grew by {grown} bytes");
        assert!(grown <= LIMIT + BESIDE_ZONES, "node {id} grew by {grown} bytes");
        assert_eq!(cluster.metric(id, "catamaran_zone_bytes_max "), LIMIT);
        assert!(crate::updates::is_there(&crate::updates::socket(), cluster.dns(id), "www.example.test."));
    }
    assert_eq!(cluster.ids().map(|id| cluster.pid(id).unwrap()).collect::<Vec<_>>(), pids, "a node was restarted");
    let refused = cluster.ids().map(|id| cluster.metric(id, "catamaran_zone_growth_refused_total ")).sum::<u64>();
    assert!(refused > 0, "no node counted the refusal");
    let (status, own) = wait_for("the leader's report of its memory", || {
        let leader = cluster.leader();
        let status = cluster.status(leader)?;
        let own = status["members"].as_array()?.iter().find(|of| of["node"] == leader)?.clone();
        own["zone_memory"]["used_bytes"].is_u64().then_some((status, own))
    });
    assert_eq!(own["zone_memory"]["limit_bytes"], LIMIT);
    assert!(own["zone_memory"]["used_bytes"].as_u64().unwrap() >= LIMIT / 5 * 4, "{own}");
    if status["feature_level"].as_u64().unwrap() >= 3 {
        let members = status["members"].as_array().unwrap();
        assert!(members.iter().all(|of| of["zone_memory"]["limit_bytes"] == LIMIT), "{members:?}");
    }
    let shown = cluster.run(&["cluster", "status"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains(" of 32 MiB"), "{shown:?}");
    // A zone that does not fit is refused before its first record is added.
    let scratch = Scratch::new("zone-memory-large");
    let mut large = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n".to_owned();
    (0..300_000).for_each(|number| writeln!(large, "host-{number} A 192.0.2.1").unwrap());
    let added = cluster.run(&["zone", "add", &format!("large.test.={}", scratch.file("large", &large))]);
    let error = String::from_utf8_lossy(&added.stderr);
    assert!(!added.status.success() && error.contains("zones.memory_bytes_max"), "{error}");
    // Deletions are always accepted, and make room. Their memory goes back to the system.
    let full: Vec<u64> = pids.iter().map(|&pid| rss::resident(pid)).collect();
    for number in 0..count {
        assert_eq!(rcode(&client.one(delete(number)).0), Rcode::NOERROR, "{number}");
    }
    wait_for("room", || (rcode(&client.one(add(most)).0) == Rcode::NOERROR).then_some(()));
    let given_back = || pids.iter().zip(&full).map(|(&pid, full)| full.saturating_sub(rss::resident(pid))).collect();
    let start = std::time::Instant::now();
    let mut bytes: Vec<u64> = given_back();
    while bytes.iter().any(|&bytes| bytes < LIMIT / 2) {
        assert!(start.elapsed() < PATIENCE, "{full:?} bytes were in use, and only {bytes:?} bytes were given back");
        std::thread::sleep(std::time::Duration::from_millis(100));
        bytes = given_back();
    }
    println!("given back: {bytes:?} bytes");
    cluster.settle();
}

#[test]
fn the_reason_names_the_quota_that_a_key_has_used() {
    let (cluster, [greedy, other]) =
        start("key-growth", "[zones]\nkey_growth_bytes_max = 300000\n", ["greedy", "other"]);
    let mut resent = 0;
    for (round, id) in cluster.ids().enumerate() {
        let mut client = Pipeline::new(cluster.dns(id), &greedy);
        // Each node in turn: the quota applies to the whole cluster, and each node reports the reason.
        let from = round * 100;
        let refused = (from..from + 10).find_map(|number| {
            let (response, _) = client.one(add(number));
            (rcode(&response) != Rcode::NOERROR).then_some((number, response))
        });
        let (number, response) = refused.unwrap();
        assert_eq!((number - from, rcode(&response)), (5, Rcode::REFUSED));
        let (code, text) = extended_error(&response).unwrap();
        assert!(code == 18 && text.contains("zones.key_growth_bytes_max"), "{code} {text}");
        let mut others = Pipeline::new(cluster.dns(id), &other);
        assert_eq!(rcode(&others.one(add(1_000 + round)).0), Rcode::NOERROR, "the quota is not of others");
        for number in from..number {
            assert_eq!(rcode(&client.one(delete(number)).0), Rcode::NOERROR, "{number}");
        }
        resent += client.resent as u64;
    }
    // After an election another node counts. An update that is sent again may count again.
    let sum = |limit: &str| -> u64 {
        let series = format!("catamaran_update_limits_total{{limit=\"{limit}\"}}");
        cluster.ids().map(|id| cluster.metric(id, &series)).sum()
    };
    assert!((3..=3 + resent).contains(&sum("key_growth")), "{}", sum("key_growth"));
    assert_eq!(sum("owner_bytes"), 0);
    let page = http::get(cluster.api(1), "/metrics").unwrap();
    assert!(page.text().contains("catamaran_update_limits_total{limit=\"owner_bytes\"} 0"));
}
