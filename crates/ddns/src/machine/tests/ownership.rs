//! Foreign records, records that are taken over, and wildcards.

use super::*;

#[test]
fn foreign_records_are_never_changed() {
    for state in ["none", "lost", "changed"] {
        let mut simulation = Simulation::new(2);
        if state != "none" {
            simulation.set_addresses(&["192.0.2.1"]);
        }
        if state == "lost" {
            simulation.disk = SavedState::new("example.test.");
        }
        simulation.zone.ipv4 = (set(&["203.0.113.9"]), 300);
        simulation.set_addresses(&["192.0.2.7"]);
        simulation.restart();
        simulation.advance_time(1_000);
        let NameStatus::Failed(NameError::ForeignRecord(observed)) = simulation.status() else {
            panic!("{state}: {:?}", simulation.status())
        };
        assert_eq!(observed.addresses, set(&["203.0.113.9"]));
        let before = simulation.updates.len();
        simulation.advance_time(2 * CONFLICT_PAUSE_MS);
        assert_eq!(simulation.zone.ipv4, (set(&["203.0.113.9"]), 300), "{state}");
        assert!(simulation.updates.len() - before <= 3, "too many updates");
        // When the other owner removes its record, we write ours.
        simulation.zone.ipv4 = PerFamily::default().ipv4;
        simulation.advance_time(CONFLICT_PAUSE_MS + 1_000);
        assert_eq!(
            (simulation.has(Family::V4), simulation.status()),
            (vec!["192.0.2.7".into()], NameStatus::UpToDate),
            "{state}"
        );
    }
}

#[test]
fn take_over_replaces_foreign_records_once() {
    let mut simulation = Simulation::new(1);
    simulation.take_over = true;
    simulation.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    simulation.interfaces = vec![];
    simulation.set_addresses(&["192.0.2.7"]);
    simulation.restart();
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.7".into()], NameStatus::UpToDate));
    simulation.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    simulation.set_addresses(&["192.0.2.8"]);
    simulation.advance_time(1_000);
    assert_eq!(simulation.has(Family::V4), ["203.0.113.9"]);
}

#[test]
fn take_over_ends_with_the_first_query() {
    for is_state_lost in [false, true] {
        let mut simulation = Simulation::new(1);
        simulation.set_addresses(&["192.0.2.1"]);
        if is_state_lost {
            simulation.disk = SavedState::new("example.test.");
        }
        simulation.take_over = true;
        simulation.restart();
        let at_start = (simulation.updates.len(), simulation.queries, simulation.status());
        simulation.zone.ipv4 = (set(&["203.0.113.9"]), 300);
        simulation.advance_time(3_700_000);
        assert_eq!(simulation.has(Family::V4), ["203.0.113.9"], "{is_state_lost}");
        assert!(matches!(simulation.status(), NameStatus::Failed(NameError::ForeignRecord(_))), "{is_state_lost}");
        assert_eq!(at_start, (1, 1, NameStatus::UpToDate), "{is_state_lost}");
    }
}

#[test]
fn take_over_needs_an_address() {
    let mut simulation = Simulation::new(1);
    simulation.take_over = true;
    simulation.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    simulation.restart();
    simulation.advance_time(100_000);
    assert_eq!((simulation.has(Family::V4), simulation.queries), (vec!["203.0.113.9".into()], 0));
    simulation.set_addresses(&["192.0.2.7"]);
    simulation.advance_time(1_000);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.7".into()], NameStatus::UpToDate));
}

#[test]
fn records_equal_to_the_target_count_as_own() {
    let mut simulation = Simulation::new(1);
    simulation.zone.ipv4 = (set(&["192.0.2.1"]), 60);
    simulation.set_addresses(&["192.0.2.1"]);
    assert_eq!((simulation.updates.len(), simulation.status()), (1, NameStatus::UpToDate));
    simulation.set_addresses(&["192.0.2.2"]);
    simulation.advance_time(1_000);
    assert_eq!((simulation.has(Family::V4), simulation.updates.len()), (vec!["192.0.2.2".into()], 2));
}

#[test]
fn a_wildcard_is_not_a_foreign_record() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1"]);
    // Somebody removes the record. Queries now return the records of the wildcard.
    simulation.zone = PerFamily::default();
    simulation.wildcard = set(&["203.0.113.1"]);
    simulation.set_addresses(&["192.0.2.2"]);
    simulation.advance_time(1_000);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.2".into()], NameStatus::UpToDate));
}

#[test]
fn a_wildcard_with_own_addresses_is_not_an_own_record() {
    // The wildcard's A is our old one; its A and AAAA are ours; its A is foreign.
    let wildcards: [&[&str]; 3] = [&["192.0.2.1"], &["192.0.2.1", "2001:db8::1"], &["203.0.113.1", "2001:db8::1"]];
    for wildcard in wildcards {
        let mut simulation = Simulation::new(1);
        simulation.set_addresses(&["192.0.2.1", "2001:db8::1"]);
        simulation.zone = PerFamily::default();
        simulation.wildcard = set(wildcard);
        simulation.set_addresses(&["192.0.2.2", "2001:db8::2"]);
        simulation.advance_time(1_000);
        let has = (simulation.has(Family::V4), simulation.has(Family::V6));
        assert_eq!(has, (vec!["192.0.2.2".into()], vec!["2001:db8::2".into()]), "{wildcard:?}");
        assert_eq!(simulation.status(), NameStatus::UpToDate, "{wildcard:?}");
    }
}

#[test]
fn wildcard_records_are_not_withdrawn() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.zone = PerFamily::default();
    simulation.wildcard = set(&["192.0.2.1"]);
    simulation.set_addresses(&[]);
    simulation.advance_time(11_000);
    assert_eq!((simulation.updates.len(), simulation.queries, simulation.status()), (4, 2, NameStatus::UpToDate));
}

#[test]
fn a_wildcard_is_not_taken_over() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.zone = PerFamily::default();
    simulation.wildcard = set(&["203.0.113.1"]);
    simulation.take_over = true;
    simulation.restart();
    simulation.set_addresses(&["192.0.2.2"]);
    simulation.advance_time(1_000);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.2".into()], NameStatus::UpToDate));
}

#[test]
fn a_foreign_record_after_a_wildcard_answer_is_kept() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.zone = PerFamily::default();
    simulation.wildcard = set(&["192.0.2.1"]);
    simulation.after_query = Some(set(&["203.0.113.9"]));
    simulation.set_addresses(&["192.0.2.2"]);
    simulation.advance_time(1_000);
    assert_eq!((simulation.after_query.clone(), simulation.has(Family::V4)), (None, vec!["203.0.113.9".into()]));
    let NameStatus::Failed(NameError::ForeignRecord(observed)) = simulation.status() else {
        panic!("{:?}", simulation.status())
    };
    assert_eq!(observed.addresses, set(&["203.0.113.9"]));
}

#[test]
fn an_alias_cannot_be_taken_over() {
    let mut simulation = Simulation::new(1);
    simulation.take_over = true;
    simulation.is_alias = true;
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.restart();
    assert!(matches!(simulation.status(), NameStatus::Failed(NameError::ForeignRecord(observed)) if observed.is_alias));
    assert!(simulation.has(Family::V4).is_empty());
}
