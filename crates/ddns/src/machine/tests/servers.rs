//! Servers that fail.

use super::*;

#[test]
fn a_failed_server_is_followed_by_the_next_and_tried_again_later() {
    for mood in [ServerMode::Unreachable, ServerMode::Fails, ServerMode::Refuses] {
        let mut lab = Lab::new(3);
        lab.modes[0] = mood;
        lab.set_addresses(&["192.0.2.1"]);
        assert_eq!(lab.updates.iter().map(|(_, server, _)| *server).collect::<Vec<_>>(), [1], "{mood:?}");
        assert_eq!(lab.status(), NameStatus::UpToDate);
        lab.modes[0] = ServerMode::Works;
        lab.set_addresses(&["192.0.2.2"]);
        lab.pass(1_000);
        assert_eq!(lab.updates.last().unwrap().1, 1, "it rests");
        lab.pass(400_000);
        lab.set_addresses(&["192.0.2.3"]);
        lab.pass(1_000);
        assert_eq!(lab.updates.last().unwrap().1, 0);
    }
}

#[test]
fn failed_servers_do_not_delay_the_last_one() {
    let mut lab = Lab::new(8);
    lab.modes[..7].fill(ServerMode::Unreachable);
    lab.set_addresses(&["192.0.2.1"]);
    assert_eq!((lab.has(Family::V4), lab.now), (vec!["192.0.2.1".into()], START));
}

#[test]
fn requests_become_rare_while_no_server_answers() {
    let mut lab = Lab::new(2);
    lab.modes = vec![ServerMode::Refuses; 2];
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(3_600_000);
    let rounds = lab.notices.iter().filter(|notice| matches!(notice, Notice::RetryLater { .. })).count();
    assert!((8..60).contains(&rounds), "{rounds} rounds in an hour");
    assert!(matches!(lab.status(), NameStatus::Failed(NameError::Refused(Refusal::Rcode(Rcode::REFUSED)))));
    // A new address does not wait.
    lab.modes = vec![ServerMode::Works; 2];
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(6_000);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.2".into()], NameStatus::UpToDate));
}
