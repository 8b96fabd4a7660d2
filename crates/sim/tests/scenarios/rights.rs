//! Updates that their key or their zone forbids, and members that do not know a grant yet.

use super::cluster::*;
use replica::io::{AdminCommand, Right, Verdict};
use tsig::client::UpdateBuilder;
use wire::number::{Rcode, Rtype};

pub(super) const REVOKE: fn() -> AdminCommand =
    || AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Update };
const GRANT: fn() -> AdminCommand = || AdminCommand::Grant { key: name("key."), zone: None, right: Right::Update };

#[test]
fn lagging_member_reads_from_the_leader_before_refusing() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let behind = leader % 3 + 1;
    cluster.admin_ok(leader, REVOKE());
    for other in [1, 2, 3].into_iter().filter(|&id| id != behind) {
        cluster.cut.extend([(behind, other), (other, behind)]);
    }
    cluster.admin_ok(leader, GRANT());
    // The update is granted, and executed through another member. The lagging member does not know the grant or the
    // update.
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let first = cluster.update_looked_at(leader, message.clone(), "192.0.2.200:4000");
    cluster.run(100);
    cluster.assert_done(first);
    let again = cluster.update_looked_at(behind, message.clone(), "192.0.2.200:4000");
    let new = add(&address(2), 78, cluster.now.wall_ms);
    let new = cluster.update_looked_at(behind, new, "192.0.2.200:4000");
    cluster.run(500);
    assert_eq!((cluster.verdict(again), cluster.verdict(new)), (None, None), "it cannot know");
    cluster.cut.clear();
    cluster.run(2_000);
    cluster.assert_done(again);
    cluster.assert_done(new);
    cluster.run(500);
    cluster.assert_same();
}

#[test]
fn partitioned_member_refuses_no_update() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let alone = leader % 3 + 1;
    cluster.admin_ok(leader, REVOKE());
    for other in [1, 2, 3].into_iter().filter(|&id| id != alone) {
        cluster.cut.extend([(alone, other), (other, alone)]);
    }
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let request = cluster.update_looked_at(alone, message, "192.0.2.200:4000");
    cluster.run(3_000);
    assert_eq!(cluster.verdict(request), Some(Verdict::NotProposed));
}

#[test]
fn leader_decides_permissions() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let revoke = AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Update };
    cluster.admin_ok(leader, revoke);
    let request = cluster.add(follower, &address(1));
    assert_eq!(cluster.verdict(request), Some(Verdict::Answer(Rcode::REFUSED)));
    let transfer = AdminCommand::Grant { key: name("key."), zone: None, right: Right::Transfer };
    cluster.admin_ok(follower, transfer);
    let request = cluster.add(leader, &address(2));
    assert_eq!(cluster.verdict(request), Some(Verdict::Answer(Rcode::REFUSED)));
    let grant = AdminCommand::Grant { key: name("key."), zone: Some(zone_id("example.test.")), right: Right::Update };
    cluster.admin_ok(follower, grant);
    let request = cluster.add(follower, &address(3));
    cluster.assert_done(request);
    assert_eq!(cluster.serial(1), 2);
    cluster.assert_same();
}

#[test]
fn no_such_zone_is_notauth() {
    let mut cluster = Cluster::with_zone(3);
    let owner = name("www.other.test.");
    let builder = UpdateBuilder::new(5, name("other.test.").as_ref());
    let message = builder.add(owner.as_ref(), 60, Rtype::A, &[192, 0, 2, 1]).finish();
    let request = cluster.update_bytes(2, sign(message, cluster.now.wall_ms), "192.0.2.200:4000");
    cluster.settle();
    assert_eq!(cluster.verdict(request), Some(Verdict::Answer(Rcode::NOTAUTH)));
}
