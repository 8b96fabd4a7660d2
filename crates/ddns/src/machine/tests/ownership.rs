//! Foreign records, records that are taken over, and wildcards.

use super::*;

#[test]
fn foreign_records_are_never_changed() {
    for state in ["none", "lost", "changed"] {
        let mut lab = Lab::new(2);
        if state != "none" {
            lab.set_addresses(&["192.0.2.1"]);
        }
        if state == "lost" {
            lab.disk = Saved::new("example.test.");
        }
        lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
        lab.set_addresses(&["192.0.2.7"]);
        lab.restart();
        lab.pass(1_000);
        let NameStatus::Failed(NameError::ForeignRecord(observed)) = lab.status() else {
            panic!("{state}: {:?}", lab.status())
        };
        assert_eq!(observed.addresses, set(&["203.0.113.9"]));
        let before = lab.updates.len();
        lab.pass(2 * CONFLICT_PAUSE_MS);
        assert_eq!(lab.zone.ipv4, (set(&["203.0.113.9"]), 300), "{state}");
        assert!(lab.updates.len() - before <= 3, "it rests");
        // When the other owner removes its record, we write ours.
        lab.zone.ipv4 = PerFamily::default().ipv4;
        lab.pass(CONFLICT_PAUSE_MS + 1_000);
        assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.7".into()], NameStatus::UpToDate), "{state}");
    }
}

#[test]
fn take_over_replaces_foreign_records_once() {
    let mut lab = Lab::new(1);
    lab.take_over = true;
    lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    lab.interfaces = vec![];
    lab.set_addresses(&["192.0.2.7"]);
    lab.restart();
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.7".into()], NameStatus::UpToDate));
    lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    lab.set_addresses(&["192.0.2.8"]);
    lab.pass(1_000);
    assert_eq!(lab.has(Family::V4), ["203.0.113.9"]);
}

#[test]
fn take_over_ends_with_the_first_query() {
    for is_state_lost in [false, true] {
        let mut lab = Lab::new(1);
        lab.set_addresses(&["192.0.2.1"]);
        if is_state_lost {
            lab.disk = Saved::new("example.test.");
        }
        lab.take_over = true;
        lab.restart();
        let at_start = (lab.updates.len(), lab.queries, lab.status());
        lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
        lab.pass(3_700_000);
        assert_eq!(lab.has(Family::V4), ["203.0.113.9"], "{is_state_lost}");
        assert!(matches!(lab.status(), NameStatus::Failed(NameError::ForeignRecord(_))), "{is_state_lost}");
        assert_eq!(at_start, (1, 1, NameStatus::UpToDate), "{is_state_lost}");
    }
}

#[test]
fn take_over_needs_an_address() {
    let mut lab = Lab::new(1);
    lab.take_over = true;
    lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    lab.restart();
    lab.pass(100_000);
    assert_eq!((lab.has(Family::V4), lab.queries), (vec!["203.0.113.9".into()], 0));
    lab.set_addresses(&["192.0.2.7"]);
    lab.pass(1_000);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.7".into()], NameStatus::UpToDate));
}

#[test]
fn records_equal_to_the_target_count_as_own() {
    let mut lab = Lab::new(1);
    lab.zone.ipv4 = (set(&["192.0.2.1"]), 60);
    lab.set_addresses(&["192.0.2.1"]);
    assert_eq!((lab.updates.len(), lab.status()), (1, NameStatus::UpToDate));
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(1_000);
    assert_eq!((lab.has(Family::V4), lab.updates.len()), (vec!["192.0.2.2".into()], 2));
}

#[test]
fn a_wildcard_is_not_a_foreign_record() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    // Somebody removes the record. Looks now show the wildcard.
    lab.zone = PerFamily::default();
    lab.wildcard = set(&["203.0.113.1"]);
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(1_000);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.2".into()], NameStatus::UpToDate));
}

#[test]
fn a_wildcard_with_own_addresses_is_not_an_own_record() {
    // The wildcard's A is our old one; its A and AAAA are ours; its A is foreign.
    let wildcards: [&[&str]; 3] = [&["192.0.2.1"], &["192.0.2.1", "2001:db8::1"], &["203.0.113.1", "2001:db8::1"]];
    for wildcard in wildcards {
        let mut lab = Lab::new(1);
        lab.set_addresses(&["192.0.2.1", "2001:db8::1"]);
        lab.zone = PerFamily::default();
        lab.wildcard = set(wildcard);
        lab.set_addresses(&["192.0.2.2", "2001:db8::2"]);
        lab.pass(1_000);
        let has = (lab.has(Family::V4), lab.has(Family::V6));
        assert_eq!(has, (vec!["192.0.2.2".into()], vec!["2001:db8::2".into()]), "{wildcard:?}");
        assert_eq!(lab.status(), NameStatus::UpToDate, "{wildcard:?}");
    }
}

#[test]
fn wildcard_records_are_not_withdrawn() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.zone = PerFamily::default();
    lab.wildcard = set(&["192.0.2.1"]);
    lab.set_addresses(&[]);
    lab.pass(11_000);
    assert_eq!((lab.updates.len(), lab.queries, lab.status()), (4, 2, NameStatus::UpToDate));
}

#[test]
fn a_wildcard_is_not_taken_over() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.zone = PerFamily::default();
    lab.wildcard = set(&["203.0.113.1"]);
    lab.take_over = true;
    lab.restart();
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(1_000);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.2".into()], NameStatus::UpToDate));
}

#[test]
fn a_foreign_record_after_a_wildcard_answer_is_kept() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.zone = PerFamily::default();
    lab.wildcard = set(&["192.0.2.1"]);
    lab.after_query = Some(set(&["203.0.113.9"]));
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(1_000);
    assert_eq!((lab.after_query.clone(), lab.has(Family::V4)), (None, vec!["203.0.113.9".into()]));
    let NameStatus::Failed(NameError::ForeignRecord(observed)) = lab.status() else { panic!("{:?}", lab.status()) };
    assert_eq!(observed.addresses, set(&["203.0.113.9"]));
}

#[test]
fn an_alias_cannot_be_taken_over() {
    let mut lab = Lab::new(1);
    lab.take_over = true;
    lab.is_alias = true;
    lab.set_addresses(&["192.0.2.1"]);
    lab.restart();
    assert!(matches!(lab.status(), NameStatus::Failed(NameError::ForeignRecord(observed)) if observed.is_alias));
    assert!(lab.has(Family::V4).is_empty());
}
