//! Very many zones, each added by a request of its own: 100,000 with `CATAMARAN_TEST_FULL=1`, otherwise fewer, so that
//! the test takes some seconds.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::message::name;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Concurrent administrators.
const CLIENTS: usize = 8;
/// Resident memory of a node per zone, in bytes, with its four records. Checked only from a minimum number of zones on:
/// with fewer, fixed costs dominate.
const ZONE_RESIDENT_BYTES_MAX: u64 = 2 << 10;

/// Number of zones that are added and removed to measure the cost of one, and number of such measurements.
const COST_TURNS: u32 = 10;
const COST_MEASUREMENTS: usize = 11;

fn apex(number: usize) -> String {
    format!("zone{number:06}.many.test.")
}

fn ask(cluster: &Cluster, token: &str, method: &str, number: usize) -> u16 {
    let zone = "$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";
    let apex = apex(number);
    let text = format!("$ORIGIN {apex}\n{zone}");
    let body = if method == "POST" { text.as_bytes() } else { b"" };
    http::request(cluster.api(1), method, &format!("/v1/zone?zone={apex}"), Some(token), body).unwrap().status
}

/// The RCODE and the number of answers for a name in a zone.
fn answers(cluster: &Cluster, number: usize) -> (u8, u8) {
    let qname = name(&format!("www.{}", apex(number)));
    let query = MessageBuilder::query(7, qname.as_ref(), Rtype::A).build();
    let response =
        wait_for("an answer", || exchange(Transport::Udp, cluster.dns(1), &query, Duration::from_millis(500)));
    (response[3] & 0x0F, response[7])
}

/// Private resident memory of a node's process, in bytes.
fn resident_bytes(cluster: &Cluster) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", cluster.pid(1).unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Processor time of all threads of a node so far, from the kernel.
fn busy(cluster: &Cluster) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", cluster.pid(1).unwrap())).unwrap();
    // A thread may have ended meanwhile.
    let times = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("schedstat")).ok());
    times.map(|text| Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())).sum()
}

/// Processor time to add and remove the zone with this number. It is the median of some measurements: when a virtual
/// machine stands still, the kernel counts that as time of the thread that runs.
fn cost(cluster: &Cluster, token: &str, number: usize) -> Duration {
    let measure = || {
        let before = busy(cluster);
        for _ in 0..COST_TURNS {
            assert_eq!(ask(cluster, token, "POST", number), 201);
            assert_eq!(ask(cluster, token, "DELETE", number), 200);
        }
        busy(cluster).saturating_sub(before) / COST_TURNS
    };
    let mut costs: Vec<Duration> = (0..COST_MEASUREMENTS).map(|_| measure()).collect();
    costs.sort();
    costs[COST_MEASUREMENTS / 2]
}

fn check(cluster: &Cluster, count: usize, resident_before: u64) {
    assert_eq!(cluster.metric(1, "catamaran_zones"), count as u64 + 1);
    for number in (0..count).step_by(count / 50) {
        assert_eq!(answers(cluster, number), (0, 1), "{}", apex(number));
    }
    let resident = resident_bytes(cluster).saturating_sub(resident_before) / count as u64;
    println!("{resident} bytes of memory for each of {count} zones");
    if count >= 100_000 {
        assert!(resident <= ZONE_RESIDENT_BYTES_MAX, "{resident} bytes for each of {count} zones");
    }
}

#[test]
fn a_zone_among_many_is_added_and_removed_without_the_others() {
    let is_full = skip::is_full_run();
    let count = if is_full { 100_000 } else { 2_000 };
    let mut cluster = Cluster::start("many-zones", 1, &[]);
    let (token, resident_before) = (cluster.token(), resident_bytes(&cluster));
    let alone = cost(&cluster, &token, count);
    let (next, started_at) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    assert_eq!(ask(&cluster, &token, "POST", number), 201, "{}", apex(number));
                }
            });
        }
    });
    println!("{count} zones added in {:.1} s", started_at.elapsed().as_secs_f64());
    check(&cluster, count, resident_before);
    // Adding or removing one zone does not change the other zones, and its cost does not depend on their number.
    let among_all = cost(&cluster, &token, count);
    println!("a zone comes and goes: {alone:?} of processor time alone, {among_all:?} among {count}");
    assert!(among_all < 3 * alone, "{among_all:?} among {count}, {alone:?} alone");
    assert_eq!(ask(&cluster, &token, "POST", count), 201);
    assert_eq!((answers(&cluster, count), answers(&cluster, count - 1)), ((0, 1), (0, 1)));
    assert_eq!(ask(&cluster, &token, "DELETE", count), 200);
    assert_eq!((answers(&cluster, count), answers(&cluster, count - 1)), ((5, 0), (0, 1)));
    let state = cluster.settle();
    cluster.end("TERM");
    cluster.resume(&[]);
    assert_eq!(cluster.settle(), state);
    check(&cluster, count, resident_before);
}
