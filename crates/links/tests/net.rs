//! Nets that are really made: what goes through their links, and what is left of them.

use links::check::{CheckPlan, check};
use links::delay::{Loss, Rate, Rtt, Shape};
use links::plan::{GroupPlan, Mechanism, NetPlan};
use links::{Net, Recorded};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// What a busy machine may take; only losses take all of it.
const PATIENCE: Duration = Duration::from_secs(4);

fn shape(rtt_ms: u64) -> Shape {
    Shape::constant(Duration::from_millis(rtt_ms))
}

fn group(name: &str, shape: Shape) -> GroupPlan {
    GroupPlan { name: name.into(), shape, networks: Vec::new() }
}

/// A net by the relay, with a letter that tells the tests of this process apart.
fn plan(letter: char, groups: Vec<GroupPlan>) -> NetPlan {
    // Of a number of 7 digits the last 6; another process with these is not there at the same time.
    let name = format!("{letter}{:06}", std::process::id() % 1_000_000);
    NetPlan { name, seed: 1, mechanism: Mechanism::Relay, spin: Duration::ZERO, groups }
}

/// Makes it. A machine that does not let us skips the test and says so; with `CI=true` it fails.
fn made(plan: &NetPlan) -> Option<Net> {
    match Net::make(plan) {
        Ok(net) => Some(net),
        Err(error) => {
            println!("skipped: no net can be made here: {error}");
            let has_tun = std::path::Path::new("/dev/net/tun").exists();
            assert!(std::env::var("CI").as_deref() != Ok("true") || !has_tun, "{error}");
            None
        }
    }
}

fn has_namespace(name: &str) -> bool {
    Path::new("/var/run/netns").join(name).exists()
}

#[test]
fn nothing_comes_sooner_than_asked_and_most_of_it_soon_after() {
    let plan = plan('a', vec![group("near", shape(20)), group("far", shape(60))]);
    let Some(net) = made(&plan) else { return };
    for (index, rtt_us) in [(0, 20_000.0), (1, 60_000.0)] {
        let checked = check(&net, index, &CheckPlan { tcp_count: 20, patience: PATIENCE, ..CheckPlan::SHORT }).unwrap();
        println!("{checked}");
        assert_eq!((checked.early, checked.came_back, checked.mechanism), (0, checked.sent, "relay"));
        assert!(checked.udp_rtt_us.q1 >= rtt_us);
        // Wide: other tests go on at the same time. The far link does not delay twice, and no time-out
        // of anything is in it.
        assert!(checked.udp_excess_us.median < 50_000.0, "{checked}");
        let tcp = checked.tcp_excess_us.unwrap();
        assert!(tcp.q1 >= 0.0 && tcp.median < 50_000.0, "{checked}");
    }
    let links = net.finish().unwrap();
    assert_eq!(links.len(), 2);
    for link in &links {
        println!("{link}");
        for line in [link.up, link.down] {
            // The end of the TCP connection may still be on its way.
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
fn what_is_asked_of_loss_jitter_rate_and_many_clients_is_found() {
    let lossy = Shape { loss: Loss { share: 0.2, burst: 1.0 }, jitter: Duration::from_millis(4), ..shape(4) };
    let slow = Shape { rate: Some(Rate { bits: 4_000_000, queue_bytes: 30_000 }), ..shape(2) };
    let rtt = Rtt::Lognormal { median: Duration::from_millis(10), sigma: 0.7 };
    let many = Shape { rtt, ..shape(0) };
    let plan = plan('b', vec![group("lossy", lossy), group("slow", slow), group("many", many)]);
    let Some(net) = made(&plan) else { return };
    let spacing = Duration::from_micros(500);
    let whole = CheckPlan { udp_count: 1_000, spacing, tcp_count: 3, patience: PATIENCE, ..CheckPlan::WHOLE };
    let lossy = check(&net, 0, &whole).unwrap();
    println!("{lossy}");
    // 36 % of 1,000, with a deviation of 15.
    assert!((560..720).contains(&lossy.came_back) && lossy.early == 0, "{lossy}");
    let slow = check(&net, 1, &CheckPlan { udp_count: 20, ..whole }).unwrap();
    println!("{slow}");
    let reached = slow.rate_found.unwrap();
    // The line's own tests are exact; times that this process took are as good as the machine is idle.
    assert!((1_000_000.0..40_000_000.0).contains(&reached), "{slow}");
    let many = check(&net, 2, &CheckPlan { udp_count: 160, ..whole }).unwrap();
    println!("{many}");
    assert_eq!((many.early, many.came_back), (0, 160));
    // Sixteen clients with round trips of their own: a quarter of the datagrams took well less than another quarter.
    assert!(many.udp_rtt_us.q3 > many.udp_rtt_us.q1 + 1_000.0, "{many}");
    let links = net.finish().unwrap();
    assert!(links[0].up.counts.lost > 100 && links[0].down.counts.lost > 70, "{}", links[0]);
    assert!(links[1].up.counts.dropped_by_rate > 0, "{}", links[1]);
    assert_eq!(links[2].up.counts.lost, 0);
}

#[test]
fn a_net_is_written_down_while_it_is_there_and_gone_with_all_of_it_afterwards() {
    let plan = plan('c', vec![group("near", shape(1))]);
    let Some(net) = made(&plan) else { return };
    let found = Recorded::find(&plan.name).unwrap().unwrap();
    assert!(found.is_running() && found.is_ready && found.pid == std::process::id());
    assert_eq!(found.namespaces, [plan.hub(), plan.namespace_of(&plan.groups[0])]);
    assert!(Recorded::all().unwrap().contains(&found));
    assert!(found.namespaces.iter().all(|name| has_namespace(name)));
    // What is held is not removed.
    assert!(!links::clean().unwrap().contains(&plan.name));
    assert_eq!(Net::make(&plan).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(net.is_alive() && found.namespaces.iter().all(|name| has_namespace(name)));
    drop(net);
    assert_eq!(Recorded::find(&plan.name).unwrap(), None);
    assert!(!found.namespaces.iter().any(|name| has_namespace(name)));
}

#[test]
fn a_namespace_of_somebody_else_is_left_alone() {
    let plan = plan('d', vec![group("near", shape(1))]);
    let Ok(theirs) = links::Namespace::make(&plan.namespace_of(&plan.groups[0])) else {
        println!("skipped: no namespace can be made here");
        assert!(std::env::var("CI").as_deref() != Ok("true"));
        return;
    };
    let error = Net::make(&plan).unwrap_err();
    assert!(error.to_string().contains("already exists"), "{error}");
    assert!(has_namespace(theirs.name()) && !has_namespace(&plan.hub()));
    assert_eq!(Recorded::find(&plan.name).unwrap(), None);
}
