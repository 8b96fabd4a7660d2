//! Machines with wrong clocks, and the correction of these clocks.

use super::cluster::*;
use replica::entry::SettingsChange;
use replica::io::{AdminCommand, AdminError, AdminReply, AuditRecord, OptionsChange, SerialPolicyOption};
use replica::limits::CLOCK_DIFFERENCE_MS_MAX;

const HOUR: i64 = 3_600_000;
const YEAR: i64 = 365 * 24 * HOUR;

impl Cluster {
    fn set_wall(&mut self, id: u64, error_ms: i64) {
        self.machines.get_mut(&id).unwrap().wall_error_ms = error_ms;
    }

    /// Milliseconds by which a member's last applied entry time is ahead.
    fn entries_ahead_ms(&self, id: u64) -> i64 {
        self.replica(id).entry_time_ms() as i64 - self.now.wall_ms as i64
    }

    /// Milliseconds by which the newest line of a member's audit log is ahead.
    fn audit_ahead_ms(&self, id: u64) -> i64 {
        let newest = self.machines[&id].audited.iter().rev().find_map(|line| match line {
            Audited::Update(AuditRecord::Update(update)) => Some(update.time_ms),
            Audited::Update(AuditRecord::Action(action)) => Some(action.time_ms),
            Audited::Gap(..) => None,
        });
        newest.unwrap() as i64 - self.now.wall_ms as i64
    }

    fn make_token(&mut self, at: u64, digest: u8, life_ms: u64) {
        let token = AdminCommand::CreateToken { digest: [digest; 32], life_ms, is_learner: true };
        self.admin_ok(at, token);
    }

    fn join(&mut self, at: u64, digest: u8) -> Result<AdminReply, AdminError> {
        let address = format!("192.0.2.{digest}:53");
        let request = self.admin(at, AdminCommand::Join { digest: [digest; 32], address });
        self.run(200);
        self.admin[&request].clone()
    }
}

fn is_right(ahead_ms: i64) -> bool {
    ahead_ms.abs() <= 2_000
}

/// A learner does not vote, so it is not needed to correct the time.
#[test]
fn silent_learner_does_not_block_moving_time_back() {
    let mut cluster = Cluster::with_zone(1);
    cluster.set_wall(1, 3 * HOUR);
    cluster.make_token(1, 1, 60_000);
    assert!(matches!(cluster.join(1, 1), Ok(AdminReply::Joined { .. })));
    cluster.set_wall(1, 0);
    cluster.run(5_000);
    assert!(cluster.entries_ahead_ms(1) <= 2_000, "{}", cluster.entries_ahead_ms(1));
}

/// Tokens are created with correct clocks and while the clocks are ahead, and used after the clocks are corrected.
#[test]
fn join_tokens_survive_moving_time_back() {
    for count in [1, 3] {
        let mut cluster = Cluster::with_zone(count);
        cluster.make_token(1, 1, 600_000);
        (1..=count).for_each(|id| cluster.set_wall(id, 3 * HOUR));
        cluster.run(2_000);
        cluster.make_token(1, 2, 600_000);
        let request = cluster.add(1, &address(1));
        cluster.assert_done(request);
        (1..=count).for_each(|id| cluster.set_wall(id, 0));
        cluster.run(5_000);
        assert!(cluster.entries_ahead_ms(1) <= 2_000, "{}", cluster.entries_ahead_ms(1));
        assert!(matches!(cluster.join(1, 1), Ok(AdminReply::Joined { .. })), "made before, {count}");
        assert!(matches!(cluster.join(1, 2), Ok(AdminReply::Joined { .. })), "made meanwhile, {count}");
    }
}

/// All clocks of the cluster start three hours ahead, as if the cluster had been created on one machine.
#[test]
fn corrected_clock_leaves_no_trace_in_entry_times() {
    for count in [1, 3] {
        let mut cluster = Cluster::new(count);
        (1..=count).for_each(|id| cluster.set_wall(id, 3 * HOUR));
        cluster.prepare();
        let change = OptionsChange { serial_policy: Some(SerialPolicyOption::UnixTime), ..OptionsChange::default() };
        cluster.admin_ok(1, AdminCommand::SetZoneOptions { zone: zone_id("example.test."), change });
        cluster.make_token(1, 1, 60_000);
        let request = cluster.add(1, &address(1));
        cluster.assert_done(request);
        let before = cluster.serial(1);
        assert!(
            before as i64 * 1_000 > cluster.now.wall_ms as i64 + 2 * HOUR && cluster.entries_ahead_ms(1) > 2 * HOUR
        );
        (1..=count).for_each(|id| cluster.set_wall(id, 0));
        cluster.run(1_500);
        assert!(cluster.entries_ahead_ms(1) <= 2_000, "{}", cluster.entries_ahead_ms(1));
        let request = cluster.add(1, &address(2));
        cluster.assert_done(request);
        assert!(is_right(cluster.audit_ahead_ms(count)), "{}", cluster.audit_ahead_ms(count));
        // A serial from the wrong clock is not set back.
        assert_eq!(cluster.serial(1), before + 1);
        // A new token is valid immediately at every node. An older token keeps its planned lifetime.
        cluster.make_token(count, 2, 60_000);
        assert!(cluster.join(count, 2).is_ok());
        cluster.run(60_000);
        assert_eq!(cluster.join(1, 1), Err(AdminError::TokenInvalid));
        cluster.run(500);
        cluster.machines.retain(|&id, _| id <= count);
        cluster.assert_same();
    }
}

#[test]
fn one_wrong_clock_of_three_does_not_affect_entry_times() {
    for error_ms in [3 * HOUR, 10 * YEAR, -10 * YEAR] {
        let mut cluster = Cluster::new(3);
        let leader = cluster.elect();
        cluster.run(1_500);
        cluster.set_wall(leader, error_ms);
        cluster.run(100);
        cluster.prepare();
        assert_eq!(cluster.leader(), Some(leader));
        cluster.make_token(leader, 1, 60_000);
        for id in [1, 2, 3] {
            assert!(is_right(cluster.entries_ahead_ms(id)), "{}", cluster.entries_ahead_ms(id));
        }
        let ahead = |of| cluster.replica(leader).clock_ahead_ms(of).unwrap();
        assert!(is_right(ahead(leader) - error_ms) && is_right(ahead(leader % 3 + 1)), "{error_ms}");
        cluster.run(70_000);
        assert_eq!(cluster.join(leader, 1), Err(AdminError::TokenInvalid));
    }
}

#[test]
fn two_differing_clocks_do_not_move_time_back() {
    let mut cluster = Cluster::with_zone(2);
    let leader = cluster.elect();
    cluster.set_wall(leader, -3 * HOUR);
    cluster.run(5_000);
    cluster.make_token(leader, 1, 60_000);
    assert!(cluster.entries_ahead_ms(leader) > -10_000);
}

#[test]
fn unset_clock_does_not_move_time_back() {
    let mut cluster = Cluster::with_zone(1);
    cluster.set_wall(1, -60 * YEAR);
    cluster.run(5_000);
    assert!(cluster.entries_ahead_ms(1) > -10_000);
}

#[test]
fn a_small_clock_error_does_not_move_time_back() {
    let mut cluster = Cluster::with_zone(1);
    cluster.set_wall(1, 30_000);
    cluster.make_token(1, 1, 1_000);
    cluster.set_wall(1, 0);
    const { assert!(CLOCK_DIFFERENCE_MS_MAX > 30_000) };
    let before = cluster.replica(1).entry_time_ms();
    cluster.make_token(1, 2, 1_000);
    assert_eq!(cluster.replica(1).entry_time_ms(), before);
}

/// Below the feature level, entry times stay ahead, and a token's lifetime starts at the entry time.
#[test]
fn token_is_valid_below_the_clock_feature_level() {
    let mut cluster = Cluster::new(3);
    [1, 2, 3].into_iter().for_each(|id| cluster.set_wall(id, 3 * HOUR));
    cluster.prepare();
    for id in [1, 2, 3] {
        cluster.replica_mut(id).pretend_feature_level(3);
        cluster.set_wall(id, 0);
    }
    cluster.run(5_000);
    assert!(cluster.entries_ahead_ms(1) > 2 * HOUR);
    cluster.make_token(2, 2, 60_000);
    assert!(cluster.join(3, 2).is_ok());
}

/// A member stores the time of its last contact with a leader, on its own clock. If this clock was ahead, old data must
/// not look fresh.
#[test]
fn a_member_whose_clock_was_ahead_knows_after_a_restart_how_old_its_data_is() {
    let mut cluster = Cluster::with_zone(3);
    cluster.elect();
    cluster.set_wall(3, 3 * HOUR);
    cluster.run(15_000);
    cluster.set_wall(3, 0);
    cluster.run(15_000);
    cluster.kill(3);
    cluster.cut_off(3);
    cluster.run(60_000);
    cluster.start(3);
    let staleness_ms = cluster.replica(3).status().staleness_ms;
    assert!((60_000..80_000).contains(&staleness_ms), "{staleness_ms}");
}

#[test]
fn member_changes_its_address_and_keeps_its_id() {
    let mut cluster = Cluster::with_zone(3);
    let moves = |id, address: &str| AdminCommand::MoveNode { id, address: address.to_owned() };
    assert_eq!(cluster.admin_ok(1, moves(2, "ns2.example.net:853")), AdminReply::Done);
    assert_eq!(cluster.admin_ok(3, moves(2, "ns2.example.net:853")), AdminReply::Unchanged);
    for id in [1, 2, 3] {
        let members = cluster.replica(id).status().members;
        assert_eq!((members.len(), &*members[1].member.address), (3, "ns2.example.net:853"));
        assert!(members[1].is_voter);
    }
    let unknown = cluster.admin(1, moves(9, "192.0.2.9:1"));
    cluster.run(200);
    assert_eq!(cluster.admin[&unknown], Err(AdminError::NodeUnknown));
    let change = SettingsChange::MemberMove { id: 9, address: "192.0.2.9:1".to_owned() };
    cluster.replica_mut(1).apply_settings(&change, 99);
    assert!(!cluster.replica(1).membership().is_member(9), "a MemberMove entry adds no member");
}
