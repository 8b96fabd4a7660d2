//! Tests with real nets: traffic through their links, and cleanup.

use links::check::{CheckPlan, check};
use links::delay::{Loss, Rate, Rtt, Shape};
use links::plan::{GroupPlan, Mechanism, NetPlan};
use links::{Net, RecordedNet};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// Allows for a busy machine. Only losses wait this long.
const TIMEOUT: Duration = Duration::from_secs(4);

fn shape(rtt_ms: u64) -> Shape {
    Shape::constant(Duration::from_millis(rtt_ms))
}

fn group(name: &str, shape: Shape) -> GroupPlan {
    GroupPlan { name: name.into(), shape, networks: Vec::new() }
}

/// A net with the relay. The letter makes the name unique in this process.
fn plan(letter: char, groups: Vec<GroupPlan>) -> NetPlan {
    // The last 6 digits of a process ID are unique among running tests.
    let name = format!("{letter}{:06}", std::process::id() % 1_000_000);
    NetPlan { name, seed: 1, mechanism: Mechanism::Relay, spin: Duration::ZERO, groups }
}

/// Creates the net. If the machine does not allow it, the test is skipped.
fn make_net(plan: &NetPlan) -> Option<Net> {
    match Net::make(plan) {
        Ok(net) => Some(net),
        Err(error) => {
            skip::permission(format!("making a net: {error}"));
            None
        }
    }
}

fn has_namespace(name: &str) -> bool {
    Path::new("/var/run/netns").join(name).exists()
}

#[test]
fn packets_are_not_early_and_mostly_on_time() {
    let plan = plan('a', vec![group("near", shape(20)), group("far", shape(60))]);
    let Some(net) = make_net(&plan) else { return };
    for (index, rtt_us) in [(0, 20_000.0), (1, 60_000.0)] {
        let checked = check(&net, index, &CheckPlan { tcp_count: 20, timeout: TIMEOUT, ..CheckPlan::QUICK }).unwrap();
        println!("{checked}");
        assert_eq!((checked.early, checked.came_back, checked.mechanism), (0, checked.sent, "relay"));
        assert!(checked.udp_rtt_us.q1 >= rtt_us);
        // Wide limits, because other tests run meanwhile. They show that the delay is not doubled and has no timeout in
        // it.
        assert!(checked.udp_excess_us.median < 50_000.0, "{checked}");
        let tcp = checked.tcp_excess_us.unwrap();
        assert!(tcp.q1 >= 0.0 && tcp.median < 50_000.0, "{checked}");
    }
    let links = net.finish().unwrap();
    assert_eq!(links.len(), 2);
    for link in &links {
        println!("{link}");
        for line in [link.up, link.down] {
            // The end of the TCP connection may still be in the link.
            let counts = line.counts;
            assert!(counts.delivered >= 50 && counts.held < 10 && line.refused == 0, "{link}");
            assert_eq!(counts.delivered + counts.held, counts.packets, "{link}");
            assert_eq!(
                (counts.lost, counts.dropped_by_rate, counts.dropped_by_room, line.dropped_unread),
                (0, 0, 0, 0)
            );
        }
    }
}

#[test]
fn loss_jitter_rate_and_client_count_are_as_configured() {
    let lossy = Shape { loss: Loss { share: 0.2, burst: 1.0 }, jitter: Duration::from_millis(4), ..shape(4) };
    let slow = Shape { rate: Some(Rate { bits: 4_000_000, queue_bytes: 30_000 }), ..shape(2) };
    let rtt = Rtt::Lognormal { median: Duration::from_millis(10), sigma: 0.7 };
    let many_clients = Shape { rtt, ..shape(0) };
    let plan = plan('b', vec![group("lossy", lossy), group("slow", slow), group("many", many_clients)]);
    let Some(net) = make_net(&plan) else { return };
    let spacing = Duration::from_micros(500);
    let full = CheckPlan { udp_count: 1_000, spacing, tcp_count: 3, timeout: TIMEOUT, ..CheckPlan::FULL };
    let lossy = check(&net, 0, &full).unwrap();
    println!("{lossy}");
    // 36 % of 1,000, with a standard deviation of 15.
    assert!((560..720).contains(&lossy.came_back) && lossy.early == 0, "{lossy}");
    let slow = check(&net, 1, &CheckPlan { udp_count: 20, ..full }).unwrap();
    println!("{slow}");
    let reached = slow.rate_found.unwrap();
    // The unit tests of the line are exact. Times of real processes depend on the load of the machine.
    assert!((1_000_000.0..40_000_000.0).contains(&reached), "{slow}");
    let many_clients = check(&net, 2, &CheckPlan { udp_count: 160, ..full }).unwrap();
    println!("{many_clients}");
    assert_eq!((many_clients.early, many_clients.came_back), (0, 160));
    // Sixteen clients with different round trips: the third quartile is clearly above the first.
    assert!(many_clients.udp_rtt_us.q3 > many_clients.udp_rtt_us.q1 + 1_000.0, "{many_clients}");
    let links = net.finish().unwrap();
    assert!(links[0].up.counts.lost > 100 && links[0].down.counts.lost > 70, "{}", links[0]);
    assert!(links[1].up.counts.dropped_by_rate > 0, "{}", links[1]);
    assert_eq!(links[2].up.counts.lost, 0);
}

#[test]
fn a_net_has_a_record_until_it_is_removed() {
    let plan = plan('c', vec![group("near", shape(1))]);
    let Some(net) = make_net(&plan) else { return };
    let found = RecordedNet::find(&plan.name).unwrap().unwrap();
    assert!(found.is_running() && found.is_ready && found.pid == std::process::id());
    assert_eq!(found.namespaces, [plan.hub(), plan.namespace_of(&plan.groups[0])]);
    assert!(RecordedNet::all().unwrap().contains(&found));
    assert!(found.namespaces.iter().all(|name| has_namespace(name)));
    // A running net is not removed.
    assert!(!links::clean().unwrap().contains(&plan.name));
    assert_eq!(Net::make(&plan).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(net.is_alive() && found.namespaces.iter().all(|name| has_namespace(name)));
    drop(net);
    assert_eq!(RecordedNet::find(&plan.name).unwrap(), None);
    assert!(!found.namespaces.iter().any(|name| has_namespace(name)));
}

#[test]
fn foreign_namespaces_are_kept() {
    let plan = plan('d', vec![group("near", shape(1))]);
    let Ok(namespace) = links::Namespace::make(&plan.namespace_of(&plan.groups[0])) else {
        return skip::permission("making a namespace");
    };
    let error = Net::make(&plan).unwrap_err();
    assert!(error.to_string().contains("already exists"), "{error}");
    assert!(has_namespace(namespace.name()) && !has_namespace(&plan.hub()));
    assert_eq!(RecordedNet::find(&plan.name).unwrap(), None);
}
