//! Memory of zones: changes copy little at a time, keys have a quota, and zones stop growing when a member runs out of
//! memory.

use super::cluster::*;
use replica::io::{
    AdminCommand, AdminError, AdminReply, Contents, Input, LimitsChange, NodeId, OptionsChange, Verdict, ZoneOptions,
};
use replica::limits::{EVALUATION_WORK_MAX, MEMORY_REPORT_MS};
use replica::update::LimitReached;
use replica::update::limits::OWNER_BYTES_MAX;
use tsig::client::UpdateBuilder;
use wire::number::{Rcode, Rtype};
use zone::Record;

/// The memory limit of the member with the least memory.
const LIMIT: u64 = 512 << 10;

fn update() -> UpdateBuilder {
    static NEXT: core::sync::atomic::AtomicU16 = core::sync::atomic::AtomicU16::new(0);
    let id = NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    UpdateBuilder::new(id, name("example.test.").as_ref())
}

fn send(cluster: &mut Cluster, id: NodeId, update: UpdateBuilder) -> u64 {
    let message = sign(update.finish(), cluster.now.wall_ms);
    cluster.update_bytes(id, message, "192.0.2.200:4000")
}

/// Returns the verdict on one update.
fn verdict(cluster: &mut Cluster, id: NodeId, update: UpdateBuilder) -> Verdict {
    let request = send(cluster, id, update);
    cluster.settle();
    cluster.run(50);
    cluster.verdict(request).unwrap()
}

fn owner(number: usize) -> wire::Name {
    name(&format!("m{number}.example.test."))
}

fn add(number: usize) -> UpdateBuilder {
    update().add(owner(number).as_ref(), 60, Rtype(65_280), &[7; 4_000])
}

fn delete(number: usize) -> UpdateBuilder {
    update().delete_name(owner(number).as_ref())
}

const DONE: Verdict = Verdict::Answer(Rcode::NOERROR);

/// Three members at a feature level. One follower has little memory.
fn with_small_member(level: u32) -> (Cluster, NodeId, NodeId) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let small = leader % 3 + 1;
    for id in [1, 2, 3] {
        cluster.replica_mut(id).pretend_feature_level(level);
        let limit_bytes = if id == small { LIMIT } else { 1 << 30 };
        cluster.input(id, Input::Memory { limit_bytes });
    }
    cluster.run(2 * MEMORY_REPORT_MS);
    (cluster, leader, small)
}

/// Adds records until memory is short. Returns the number of added records.
fn fill(cluster: &mut Cluster, id: NodeId, from: usize) -> usize {
    for number in from..from + 1_000 {
        match verdict(cluster, id, add(number)) {
            DONE => {}
            verdict => {
                assert_eq!(verdict, Verdict::NoMemory);
                return number - from;
            }
        }
    }
    panic!("memory never became short");
}

#[test]
fn zones_do_not_grow_beyond_what_the_smallest_member_has_room_for() {
    let (mut cluster, leader, small) = with_small_member(3);
    let other = 6 - leader - small;
    let count = fill(&mut cluster, other, 0);
    let figures = cluster.replica(small).memory_figures();
    assert!(figures.used_bytes >= figures.growth_max() && figures.used_bytes < LIMIT, "{figures:?}");
    assert!(count > 20, "{count}");
    // All clients at any member get this verdict, and the leader counts them.
    assert_eq!(verdict(&mut cluster, leader, add(count)), Verdict::NoMemory);
    assert_eq!(cluster.replica(leader).status().counters.refused_for_memory, 2);
    let of_small = cluster.replica(leader).status().members.into_iter().find(|of| of.member.id == small).unwrap();
    assert_eq!(of_small.memory.unwrap().limit_bytes, LIMIT);
    // New zones are refused before their import begins. Changes that grow a zone are refused too.
    let contents = Contents::new(&zone_id("more.test."), large_zone("more.test.", 1, 3_000)).unwrap();
    let zone = AdminCommand::AddZone { zone: zone_id("more.test."), options: ZoneOptions::default(), contents };
    let request = cluster.admin(other, zone);
    cluster.run(1_000);
    assert_eq!(cluster.admin[&request], Err(AdminError::TooLarge));
    // A replacement needs no additional memory, and a deletion makes room.
    let swap = update().delete_name(owner(0).as_ref()).add(owner(1_000).as_ref(), 60, Rtype(65_280), &[8; 3_990]);
    assert_eq!(verdict(&mut cluster, other, swap), DONE);
    for number in 1..8 {
        assert_eq!(verdict(&mut cluster, other, delete(number)), DONE, "{number}");
    }
    cluster.run(2 * MEMORY_REPORT_MS);
    assert_eq!(verdict(&mut cluster, other, add(2_000)), DONE);
    // The next leader does the same.
    cluster.kill(leader);
    let next = cluster.elect();
    cluster.run(2 * MEMORY_REPORT_MS);
    fill(&mut cluster, next, 3_000);
    let figures = cluster.replica(small).memory_figures();
    assert!(figures.used_bytes >= figures.growth_max() && figures.used_bytes < LIMIT, "{figures:?}");
    assert_eq!(verdict(&mut cluster, next, delete(9)), DONE);
    cluster.run(1_000);
    let alive = cluster.alive();
    let hashes = alive.iter().map(|&id| cluster.replica(id).state_hash()).collect::<Vec<_>>();
    assert_eq!(hashes[0], hashes[1]);
}

#[test]
fn gone_member_does_not_limit_memory_until_it_returns() {
    let (mut cluster, leader, small) = with_small_member(3);
    let count = fill(&mut cluster, leader, 0);
    cluster.cut_off(small);
    cluster.run(3_000);
    assert_eq!(verdict(&mut cluster, leader, add(count)), DONE);
    cluster.cut.clear();
    cluster.run(3_000);
    assert_eq!(verdict(&mut cluster, leader, add(count + 1)), Verdict::NoMemory);
}

#[test]
fn leader_uses_only_its_own_memory_limit_below_the_feature_level() {
    let (mut cluster, leader, small) = with_small_member(2);
    for number in 0..150 {
        assert_eq!(verdict(&mut cluster, small, add(number)), DONE, "{number}");
    }
    cluster.input(leader, Input::Memory { limit_bytes: LIMIT });
    assert_eq!(verdict(&mut cluster, small, add(150)), Verdict::NoMemory);
    assert_eq!(verdict(&mut cluster, small, delete(3)), DONE);
    assert!([1, 2, 3].into_iter().all(|id| cluster.replica(id).status().invariant_violations.malformed_frames == 0));
}

#[test]
fn zone_limits_apply_to_every_key() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let set = |cluster: &mut Cluster, limits| {
        let change = OptionsChange { limits, ..OptionsChange::default() };
        let set = AdminCommand::SetZoneOptions { zone: zone_id("example.test."), change };
        assert_eq!(cluster.admin_ok(leader, set), AdminReply::Done);
    };
    let one = |ttl, last| update().add(owner(1).as_ref(), ttl, Rtype::A, &[192, 0, 2, last]);
    let records = cluster.replica(leader).zones().head().zone(&zone_id("example.test.")).unwrap().record_count() as u32;
    assert_eq!(verdict(&mut cluster, leader, one(300, 1)), DONE);
    let limits = LimitsChange { ttl_max_s: Some(60), rrset_records_max: Some(2), records_max: Some(records + 3) };
    set(&mut cluster, limits);
    for (change, expected) in [
        // Records from before the limits may stay or be deleted.
        (update().add(owner(2).as_ref(), 61, Rtype::A, &[192, 0, 2, 1]), Verdict::Limited(LimitReached::ZoneTtl)),
        (one(61, 1), Verdict::Limited(LimitReached::ZoneTtl)),
        (one(60, 2), DONE),
        (one(60, 3), Verdict::Limited(LimitReached::ZoneRrsetRecords)),
        (update().delete_rrset(owner(1).as_ref(), Rtype::A), DONE),
        (one(60, 1).add(owner(2).as_ref(), 60, Rtype::A, &[192, 0, 2, 1]), DONE),
        (one(60, 2), DONE),
        (update().add(owner(3).as_ref(), 60, Rtype::A, &[1; 4]), Verdict::Limited(LimitReached::ZoneRecords)),
    ] {
        assert_eq!(verdict(&mut cluster, leader % 3 + 1, change), expected);
    }
    // One limit is removed. The others remain.
    set(&mut cluster, LimitsChange { records_max: Some(0), ..LimitsChange::NONE });
    assert_eq!(verdict(&mut cluster, leader, update().add(owner(3).as_ref(), 60, Rtype::A, &[1; 4])), DONE);
    assert_eq!(verdict(&mut cluster, leader, one(61, 2)), Verdict::Limited(LimitReached::ZoneTtl));
    cluster.assert_same();
}

#[test]
fn key_growth_quota_is_enforced() {
    let mut cluster = Cluster::with_zone(3);
    for id in [1, 2, 3] {
        cluster.replica_mut(id).config_mut().key_growth_bytes_max = 100_000;
    }
    let leader = cluster.elect();
    let fill = |cluster: &mut Cluster, id| {
        let count = (0..).take_while(|&number| verdict(cluster, id, add(number)) == DONE).count();
        assert_eq!(verdict(cluster, id, add(count)), Verdict::Limited(LimitReached::KeyGrowth));
        count
    };
    assert_eq!(fill(&mut cluster, leader % 3 + 1), 24);
    let counters = cluster.replica(leader).status().counters;
    assert_eq!(counters.limits_reached[LimitReached::KeyGrowth as usize], 2);
    // A refusal is an outcome, so all members have applied it.
    cluster.assert_same();
    // Followers have counted the entries that they applied.
    cluster.kill(leader);
    let next = cluster.elect();
    assert_eq!(verdict(&mut cluster, next, add(24)), Verdict::Limited(LimitReached::KeyGrowth));
    assert_eq!(verdict(&mut cluster, next, delete(0)), DONE);
    assert_eq!(verdict(&mut cluster, next, add(24)), DONE);
    cluster.run(1_000);
    cluster.start(leader);
    cluster.run(1_000);
    cluster.assert_same();
}

/// Fills one owner up to its limit. Returns its size in bytes.
fn fill_owner(cluster: &mut Cluster, id: NodeId) -> usize {
    let record = |rtype: u16, number: u8| Record {
        owner: name("big.example.test."),
        rtype: Rtype(65_280 + rtype),
        ttl: 60,
        rdata: vec![number; 2_000].into(),
    };
    let mut bytes = 0;
    for rtype in 0..10 {
        let add = |update: UpdateBuilder, number| {
            let Record { owner, rtype, ttl, rdata } = record(rtype, number);
            update.add(owner.as_ref(), ttl, rtype, &rdata)
        };
        match verdict(cluster, id, (0..30).fold(update(), add)) {
            DONE => bytes += 30 * 2_000,
            verdict => {
                assert_eq!(verdict, Verdict::Limited(LimitReached::OwnerBytes));
                return bytes;
            }
        }
    }
    panic!("the limit of an owner was never reached");
}

/// The type of a small record at the same owner.
const SMALL: Rtype = Rtype(65_279);

/// A small change of the large owner.
fn touch(number: u32) -> UpdateBuilder {
    let owner = name("big.example.test.");
    update().delete_rrset(owner.as_ref(), SMALL).add(owner.as_ref(), 60, SMALL, &number.to_be_bytes())
}

#[test]
fn leader_limits_copied_bytes_per_tick() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let bytes = fill_owner(&mut cluster, leader);
    assert!(bytes > OWNER_BYTES_MAX / 2, "{bytes}");
    let before = cluster.serial(leader);
    let requests: Vec<_> = (0..400).map(|number| send(&mut cluster, leader, touch(number))).collect();
    cluster.settle();
    let done = cluster.serial(leader) - before;
    // Each update reads and copies the owner.
    let most = EVALUATION_WORK_MAX as usize / (2 * bytes) + 2;
    assert!(done > 0 && done as usize <= most, "{done} updates of {bytes} bytes between two ticks");
    cluster.run(2_000);
    requests.into_iter().for_each(|request| cluster.assert_done(request));
    cluster.assert_same();
}

#[test]
fn catching_up_member_frees_unread_versions() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    fill_owner(&mut cluster, leader);
    let behind = leader % 3 + 1;
    cluster.cut_off(behind);
    // Together these updates copy more than a member's arena holds.
    for number in 0..400 {
        let request = send(&mut cluster, leader, touch(number));
        cluster.settle();
        cluster.run(10);
        cluster.assert_done(request);
    }
    cluster.cut.clear();
    cluster.run(2_000);
    assert_eq!(cluster.machines[&behind].fatal, None);
    cluster.assert_same();
    let stats = cluster.replica(behind).zones().stats();
    assert!(stats.committed_bytes <= 48 << 20, "{stats:?}");
}
