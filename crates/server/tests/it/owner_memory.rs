//! A key that may write one name makes that name as large as it can, and changes it as often as it can. Each change
//! copies the name. The memory that nodes use for it is bounded, and other keys are not affected.

use crate::fairness::key;
use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::pipeline::{Outcomes, Pipeline, put, rcode, update_of};
use crate::support::rss;
use skip::stalls::StallWatch;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tsig::client::ClientKey;
use wire::Rtype;
use wire::number::Rcode;

const ZONE: &str = "example.test.";
/// The only name that the attacker may write.
const BIG: &str = "big.example.test.";
/// Updates of 60 KB that fill the name: 4 MB, if the cluster allows it.
const FILLING: usize = 70;
/// Bytes of the rdata of one record in these updates.
const RECORD_BYTES: usize = 2_000;
/// Small updates to the large name: the number from the original report, and as many as the time allows.
const FEW: usize = 600;
const MANY: usize = 6_000;
/// Maximum duration of the attack.
const ATTACK: Duration = Duration::from_secs(15);
/// Maximum growth of a node.
const GROWTH_MAX: u64 = 64 << 20;
/// p99 of the updates of another key is within this limit, or ten times as much in a build without optimization.
const P99_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2_500 } else { 250 });

/// A cluster with a key for the large name, and a key for other names.
fn start(test: &str) -> (Cluster, ClientKey, ClientKey) {
    let scratch = Scratch::new(test);
    let cluster = Cluster::start(test, 3, &[]);
    let (weak, other) = (key(&cluster, "weak"), key(&cluster, "other"));
    let rules = scratch.file("rules", &format!("grant weak name {BIG} ANY;\ngrant other zonesub A;\n"));
    let set = cluster.run(&["policy", "set", ZONE, &rules]);
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    cluster.settle();
    (cluster, weak, other)
}

/// Rdata that is different for each number.
fn rdata(number: usize, bytes: usize) -> Vec<u8> {
    let mut rdata = vec![0; bytes];
    rdata[..8].copy_from_slice(&(number as u64).to_be_bytes());
    rdata
}

/// Makes the name as large as the cluster allows. Returns the number of updates that were done.
fn fill(client: &mut Pipeline<'_>) -> usize {
    let big = crate::support::message::name(BIG);
    let done = (0..FILLING).filter(|&number| {
        let rtype = Rtype(65_280 + number as u16);
        let records = 60_000 / RECORD_BYTES;
        let update = (0..records).fold(update_of(ZONE, number), |update, record| {
            update.add(big.as_ref(), 60, rtype, &rdata(record, RECORD_BYTES))
        });
        rcode(&client.one(update).0) == Rcode::NOERROR
    });
    done.count()
}

/// Small changes of the large name, each to another record. Ends early when the time is over. Returns how many were
/// done.
fn attack(client: &mut Pipeline<'_>, count: usize) -> usize {
    let start = Instant::now();
    let mut done = 0;
    while done < count && start.elapsed() < ATTACK {
        let batch = FEW.min(count - done);
        let outcomes = client.many(batch, |number| put(ZONE, number, BIG, Rtype(65_279), &rdata(done + number, 100)));
        done += outcomes.done;
        if outcomes.done < batch {
            println!("the attack ends: {outcomes:?}");
            break;
        }
    }
    done
}

/// Sends updates of another key while `attack` runs. Returns the latency of each. An update that was sent again counts
/// as failed.
fn beside(cluster: &Cluster, other: &ClientKey, attack: impl FnOnce() + Send) -> Vec<Duration> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            attack();
            is_over.store(true, SeqCst);
        });
        let node = cluster.ids().find(|&id| id != cluster.leader()).unwrap();
        let mut client = Pipeline::new(cluster.dns(node), other);
        let mut times = Vec::new();
        while !is_over.load(SeqCst) && !running.is_finished() {
            let number = times.len();
            let owner = format!("other{}.example.test.", number % 100);
            let resent = client.resent;
            let (response, time) = client.one(put(ZONE, number, &owner, Rtype::A, &(number as u32).to_be_bytes()));
            assert_eq!(rcode(&response), Rcode::NOERROR, "{owner}");
            times.push(if client.resent == resent { time } else { Duration::MAX });
            std::thread::sleep(Duration::from_millis(20));
        }
        running.join().unwrap();
        println!("of {} updates of another key, {} were sent again", times.len(), client.resent);
        times.sort_unstable();
        times
    })
}

fn terms(cluster: &Cluster) -> Vec<u64> {
    cluster.ids().map(|id| cluster.status(id).unwrap()["term"].as_u64().unwrap()).collect()
}

/// Runs an attack and checks its effects against the bounds. Returns whether this machine did not stall.
fn assert_bounded(cluster: &Cluster, other: &ClientKey, attack: impl FnOnce() + Send) -> bool {
    let pids: Vec<u32> = cluster.ids().map(|id| cluster.pid(id).unwrap()).collect();
    let (terms_before, before): (_, Vec<u64>) = (terms(cluster), pids.iter().map(|&pid| rss::resident(pid)).collect());
    pids.iter().for_each(|&pid| rss::forget_peak(pid));
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let times = beside(cluster, other, attack);
    let p99 = times[times.len() * 99 / 100];
    let grown: Vec<u64> =
        pids.iter().zip(&before).map(|(&pid, &before)| rss::peak(pid).saturating_sub(before)).collect();
    println!("grown by {grown:?} bytes at most; {} updates of another key, p99 {p99:?}", times.len());
    // A reader that does not run keeps all versions of the name since it began.
    let is_judged = watch.stall("growth and latency beside a large name").is_none();
    drop(watch);
    if is_judged {
        for (pid, grown) in pids.iter().zip(&grown) {
            assert!(*grown <= GROWTH_MAX, "process {pid} grew by {grown} bytes");
        }
        assert_eq!(terms(cluster), terms_before, "there was an election");
        assert!(p99 <= P99_MAX, "p99 of another key's updates is {p99:?}");
    }
    let kept = wait_for("memory that is given back", || {
        let kept: Vec<u64> =
            pids.iter().zip(&before).map(|(&pid, &before)| rss::resident(pid).saturating_sub(before)).collect();
        kept.iter().all(|&kept| kept <= GROWTH_MAX / 2).then_some(kept)
    });
    println!("kept: {kept:?} bytes");
    cluster.settle();
    is_judged
}

#[test]
fn a_name_that_one_key_fills_and_changes_costs_little_memory() {
    let (cluster, weak, other) = start("owner-memory");
    let mut client = Pipeline::new(cluster.dns(cluster.leader()), &weak);
    let filled = fill(&mut client);
    println!("{filled} of {FILLING} updates of 60 KB were done");
    let (mut few, mut many) = (0, 0);
    client.resent = 0;
    let is_judged = assert_bounded(&cluster, &other, || few = attack(&mut client, FEW));
    assert_eq!(few, FEW);
    assert!(!is_judged || client.resent == 0, "{} updates failed and were sent again", client.resent);
    assert_bounded(&cluster, &other, || many = attack(&mut client, MANY));
    assert!(many >= FEW, "{many}");
    println!("{many} small updates of the large name");
}

/// Records of the name in the zone file, 6 MB: more than updates can add.
const LOADED: usize = 3_000;

#[test]
fn a_large_name_of_a_zone_file_is_deleted_at_a_bounded_cost() {
    let (cluster, weak, other) = start("loaded-memory");
    let scratch = Scratch::new("loaded-memory-zone");
    let mut zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n".to_owned();
    for number in 0..LOADED {
        let rtype = 65_280 + number / 30;
        let bytes: String = rdata(number, RECORD_BYTES).iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(zone, "big TYPE{rtype} \\# {RECORD_BYTES} {bytes}").unwrap();
    }
    let file = scratch.file("zone", &zone);
    let replaced = cluster.run(&["zone", "replace", "--yes", &format!("{ZONE}={file}")]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    cluster.settle();
    let big = crate::support::message::name(BIG);
    // With more in flight, updates would wait longer than they may.
    let mut client = Pipeline::new(cluster.dns(cluster.leader()), &weak).with_in_flight(10);
    let mut outcomes = Outcomes::default();
    let is_judged = assert_bounded(&cluster, &other, || {
        // One record per update: each update copies the name.
        outcomes = client.many(FEW, |number| {
            let rtype = Rtype((65_280 + number / 30) as u16);
            update_of(ZONE, number).delete_record(big.as_ref(), rtype, &rdata(number, RECORD_BYTES))
        });
    });
    assert_eq!(outcomes.done, FEW, "{outcomes:?}");
    assert!(!is_judged || client.resent == 0, "{outcomes:?}");
    let (response, _) = client.one(put(ZONE, 1, BIG, Rtype(65_279), &rdata(1, 100)));
    assert_eq!(rcode(&response), Rcode::REFUSED, "a name at its limit grew");
}
