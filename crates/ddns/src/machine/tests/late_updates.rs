//! Updates with an unknown outcome that take effect late.

use super::*;

#[test]
fn a_lost_response_is_resolved_by_a_query() {
    let mut simulation = Simulation::new(2);
    simulation.modes[0] = ServerMode::LosesResponses;
    simulation.set_addresses(&["192.0.2.1"]);
    // The second server got prerequisites that no longer held. A query then returned the record.
    assert_eq!((simulation.updates.len(), simulation.queries, simulation.status()), (2, 1, NameStatus::UpToDate));
    assert_eq!(simulation.has(Family::V4), ["192.0.2.1"]);
}

#[test]
fn an_address_change_during_an_unknown_outcome_replaces_own_records() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.modes[0] = ServerMode::LosesResponses;
    simulation.set_addresses(&["192.0.2.2"]);
    simulation.advance_time(300);
    simulation.restart();
    simulation.set_addresses(&["192.0.2.3"]);
    simulation.advance_time(300);
    simulation.modes[0] = ServerMode::Works;
    simulation.advance_time(700_000);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.3".into()], NameStatus::UpToDate));
}

/// A server delays an update from one address to another. The first address comes back, and a query shows that the
/// record is right. Then the server applies the update.
#[test]
fn a_late_update_is_detected_soon() {
    for is_restarted in [false, true] {
        let mut simulation = Simulation::new(1);
        simulation.set_addresses(&["192.0.2.1"]);
        simulation.advance_time(10_000);
        simulation.modes[0] = ServerMode::Delays;
        simulation.set_addresses(&["192.0.2.2"]);
        simulation.advance_time(300);
        assert_eq!(simulation.delayed.len(), 1);
        simulation.modes[0] = ServerMode::Works;
        simulation.set_addresses(&["192.0.2.1"]);
        simulation.advance_time(1_000);
        assert!(simulation.queries > 0 && simulation.has(Family::V4) == ["192.0.2.1"]);
        assert_eq!(simulation.status(), NameStatus::Pending, "the outcome of an update is unknown");
        if is_restarted {
            simulation.restart();
        }
        simulation.advance_time(1_500);
        assert_eq!(simulation.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
        simulation.advance_time(LATE_MS);
        assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.1".into()], NameStatus::UpToDate));
        let queries_before = simulation.queries;
        simulation.advance_time(100_000);
        assert_eq!(simulation.queries, queries_before, "all outcomes are known");
    }
}

/// Other updates follow before a delayed update takes effect. The last of them sets the address that the delayed one
/// replaces.
#[test]
fn a_late_update_after_others_is_detected_soon() {
    let mut simulation = Simulation::new(2);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.advance_time(10_000);
    simulation.modes[0] = ServerMode::Delays;
    simulation.modes[1] = ServerMode::Unreachable;
    simulation.set_addresses(&["192.0.2.2"]);
    simulation.advance_time(300);
    simulation.modes = vec![ServerMode::Works; 2];
    for address in ["192.0.2.3", "192.0.2.1"] {
        simulation.set_addresses(&[address]);
        simulation.advance_time(500);
        assert_eq!(simulation.has(Family::V4), [address]);
    }
    simulation.advance_time(1_500);
    assert_eq!(simulation.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
    simulation.advance_time(LATE_MS);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.1".into()], NameStatus::UpToDate));
}

/// One server delays an update that another server applies at once. Then the address comes back.
#[test]
fn a_late_repeat_of_an_update_is_detected_soon_and_is_own() {
    let mut simulation = Simulation::new(2);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.advance_time(10_000);
    simulation.modes[0] = ServerMode::Delays;
    for address in ["192.0.2.2", "192.0.2.1"] {
        simulation.set_addresses(&[address]);
        simulation.advance_time(500);
        assert_eq!(simulation.has(Family::V4), [address]);
    }
    simulation.modes[0] = ServerMode::Works;
    simulation.advance_time(2_000);
    assert_eq!(simulation.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
    simulation.advance_time(LATE_MS);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.1".into()], NameStatus::UpToDate));
}
