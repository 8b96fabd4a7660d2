//! Servers that fail.

use super::*;

#[test]
fn a_failed_server_is_followed_by_the_next_and_tried_again_later() {
    for mode in [ServerMode::Unreachable, ServerMode::Fails, ServerMode::Refuses] {
        let mut simulation = Simulation::new(3);
        simulation.modes[0] = mode;
        simulation.set_addresses(&["192.0.2.1"]);
        assert_eq!(simulation.updates.iter().map(|(_, server, _)| *server).collect::<Vec<_>>(), [1], "{mode:?}");
        assert_eq!(simulation.status(), NameStatus::UpToDate);
        simulation.modes[0] = ServerMode::Works;
        simulation.set_addresses(&["192.0.2.2"]);
        simulation.advance_time(1_000);
        assert_eq!(simulation.updates.last().unwrap().1, 1, "the failed server was asked again too early");
        simulation.advance_time(400_000);
        simulation.set_addresses(&["192.0.2.3"]);
        simulation.advance_time(1_000);
        assert_eq!(simulation.updates.last().unwrap().1, 0);
    }
}

#[test]
fn failed_servers_do_not_delay_the_last_one() {
    let mut simulation = Simulation::new(8);
    simulation.modes[..7].fill(ServerMode::Unreachable);
    simulation.set_addresses(&["192.0.2.1"]);
    assert_eq!((simulation.has(Family::V4), simulation.now), (vec!["192.0.2.1".into()], START));
}

#[test]
fn requests_become_rare_while_no_server_answers() {
    let mut simulation = Simulation::new(2);
    simulation.modes = vec![ServerMode::Refuses; 2];
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.advance_time(3_600_000);
    let rounds = simulation.notices.iter().filter(|notice| matches!(notice, Notice::RetryLater { .. })).count();
    assert!((8..60).contains(&rounds), "{rounds} rounds in an hour");
    assert!(matches!(simulation.status(), NameStatus::Failed(NameError::Refused(Refusal::Rcode(Rcode::REFUSED)))));
    // A new address does not wait.
    simulation.modes = vec![ServerMode::Works; 2];
    simulation.set_addresses(&["192.0.2.2"]);
    simulation.advance_time(6_000);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.2".into()], NameStatus::UpToDate));
}
