//! Reads over the API with `consistent=1`: they show every update that any node has acknowledged before, or fail. Also
//! reads that wait for a serial.

use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::dns::Transport;
use crate::support::http;
use crate::support::pipeline::outcome_of;
use crate::updates::{add, rcode};
use std::time::{Duration, Instant};

/// Time limit for the node to report that no majority confirms: its own limit of 2.5 s, and more for a busy machine.
const REFUSED_WITHIN: Duration = Duration::from_secs(8);

const ZONES: &str = "/v1/zones?consistent=1";
const EXPORT: &str = "/v1/zone?zone=example.test&consistent=1";

#[test]
fn an_update_acknowledged_by_one_node_is_read_from_another_at_once() {
    let cluster = Cluster::start("consistent", 3, &[]);
    let (key, token) = (cluster.client_key(), cluster.token());
    // During an election no leader confirms a consistent read. The client reads again.
    let read = |id, path: &str, token: Option<&str>| {
        let answer = wait_for("a read", || {
            let answer = http::request(cluster.api(id), "GET", path, token, b"").unwrap();
            (answer.status != 503).then_some(answer)
        });
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    };
    let serial = |id, path: &str| read(id, path, None).json().unwrap();
    let mut behind = 0;
    for round in 0..30_u64 {
        for through in cluster.ids() {
            let owner = format!("round{round}node{through}.example.test.");
            let message = add(&key, &owner);
            assert_eq!(rcode(&message, &outcome_of(Transport::Udp, cluster.dns(through), &message)), 0);
            let queried = through % 3 + 1;
            let wanted = 1 + round * 3 + through;
            behind += u64::from(serial(queried, "/v1/zones")[0]["serial"] != wanted);
            assert_eq!(serial(queried, ZONES)[0]["serial"], wanted, "{owner} on node {queried}");
            assert_eq!(serial(queried, "/v1/status?consistent=1")["zones"][0]["serial"], wanted);
            let export = read(queried, EXPORT, Some(&token));
            assert!(export.text().contains(&owner), "{owner} on node {queried}");
        }
    }
    println!("90 reads. Without `consistent`, {behind} would have returned old data");
    // Exit code 4: no leader with a majority confirmed in time.
    let run = |words: &[&str]| wait_for("a read", || Some(cluster.run(words)).filter(|it| it.status.code() != Some(4)));
    let list = run(&["zone", "list", "--consistent"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains("serial 91"), "{list:?}");
    let export = run(&["zone", "export", "example.test", "--consistent"]);
    assert!(String::from_utf8_lossy(&export.stdout).contains("round29node3"), "{export:?}");
    let wrong = http::get(cluster.api(1), "/v1/zones?consistent=yes").unwrap();
    assert_eq!(wrong.status, 400, "{}", wrong.text());
}

#[test]
fn without_a_majority_a_consistent_read_is_refused_in_time_and_others_go_on() {
    let cluster = Cluster::start("inconsistent", 3, &[]);
    let leader = cluster.leader();
    let (alone, other) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let token = cluster.token();
    kill("KILL", cluster.pid(leader).unwrap());
    kill("KILL", cluster.pid(other).unwrap());
    for path in [ZONES, EXPORT, "/v1/status?consistent=1", "/v1/keys?consistent=1"] {
        // On a busy machine one read may take longer.
        wait_for(&format!("a refusal of {path} in time"), || {
            let start = Instant::now();
            let answer = http::request(cluster.api(alone), "GET", path, Some(&token), b"").unwrap();
            let took = start.elapsed();
            assert_eq!(answer.status, 503, "{path}: {}", answer.text());
            assert!(answer.text().contains("no leader with a majority confirmed in time"), "{}", answer.text());
            println!("{path} was refused after {took:?}");
            (took < REFUSED_WITHIN).then_some(())
        });
        let plain = path.replace("?consistent=1", "").replace("&consistent=1", "");
        let answer = http::request(cluster.api(alone), "GET", &plain, Some(&token), b"").unwrap();
        assert_eq!(answer.status, 200, "{plain}: {}", answer.text());
    }
    let list = cluster.run(&["zone", "list", "--consistent"]);
    assert_eq!(list.status.code(), Some(4), "{list:?}");
    assert!(cluster.run(&["zone", "list"]).status.success());
}

#[test]
fn a_request_waits_until_the_node_shows_a_serial() {
    let cluster = Cluster::start("at", 3, &[]);
    cluster.settle();
    let get = |id, query: &str| http::get(cluster.api(id), &format!("/v1/zones/example.test.{query}")).unwrap();
    for query in ["", "?at=1", "?at=4294967295"] {
        let shown = get(2, query);
        assert_eq!((shown.status, &shown.json().unwrap()["serial"]), (200, &1.into()), "{query}: {}", shown.text());
    }
    let late = get(2, "?at=2&wait_ms=100");
    assert_eq!(late.status, 504, "{}", late.text());
    assert!(late.text().contains("serves serial 1"), "{}", late.text());
    std::thread::scope(|scope| {
        let waiting: Vec<_> = cluster.ids().map(|id| (id, scope.spawn(move || get(id, "?at=2")))).collect();
        let message = add(&cluster.client_key(), "at.example.test.");
        assert_eq!(rcode(&message, &outcome_of(Transport::Udp, cluster.dns(1), &message)), 0);
        for (id, answer) in waiting {
            let answer = answer.join().unwrap();
            let serial = answer.json().map(|zone| zone["serial"].clone());
            assert_eq!((answer.status, serial), (200, Some(2.into())), "node {id}: {}", answer.text());
        }
    });
    assert_eq!(http::get(cluster.api(1), "/v1/zones/none.test.?at=1").unwrap().status, 404);
}

#[test]
fn requests_that_wait_for_a_serial_do_not_delay_others() {
    /// Requests that wait for a serial: more than the API allows from one client. `WAITING` of them may wait.
    const ASKING: usize = 150;
    const WAITING: usize = 32;
    let cluster = Cluster::start("at-places", 1, &[]);
    cluster.settle();
    let api = cluster.api(1);
    // The node closes a connection above the limit without an answer. A client then tries again.
    let wait = || wait_for("an answer", || http::get(api, "/v1/zones/example.test.?at=9&wait_ms=15000").ok());
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..ASKING).map(|_| scope.spawn(wait)).collect();
        let refused = || asking.iter().filter(|thread| thread.is_finished()).count();
        wait_for("the requests above the limit to be refused", || (refused() == ASKING - WAITING).then_some(()));
        assert_eq!(http::get(api, "/healthz").unwrap().status, 200);
        assert_eq!(refused(), ASKING - WAITING, "/healthz was answered only after a waiting request had ended");
        // A request for a serial that the node already shows does not wait.
        assert_eq!(http::get(api, "/v1/zones/example.test.?at=1").unwrap().status, 200);
        let heard: Vec<_> = asking.into_iter().map(|thread| thread.join().unwrap()).collect();
        let count = |status| heard.iter().filter(|answer| answer.status == status).count();
        assert_eq!((count(504), count(503)), (WAITING, ASKING - WAITING));
        let crowded = heard.iter().find(|answer| answer.status == 503).unwrap().text();
        assert!(crowded.contains("32 requests already wait for a serial"), "{crowded}");
    });
    assert_eq!(wait().status, 504, "a request can wait again");
}
