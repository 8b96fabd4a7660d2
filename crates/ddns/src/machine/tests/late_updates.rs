//! Updates with an unknown outcome that take effect late.

use super::*;

#[test]
fn a_lost_response_is_resolved_by_a_query() {
    let mut lab = Lab::new(2);
    lab.modes[0] = ServerMode::LosesResponses;
    lab.set_addresses(&["192.0.2.1"]);
    // The second server got prerequisites that no longer held. A query then returned the record.
    assert_eq!((lab.updates.len(), lab.queries, lab.status()), (2, 1, NameStatus::UpToDate));
    assert_eq!(lab.has(Family::V4), ["192.0.2.1"]);
}

#[test]
fn an_address_change_during_an_unknown_outcome_replaces_own_records() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.modes[0] = ServerMode::LosesResponses;
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(300);
    lab.restart();
    lab.set_addresses(&["192.0.2.3"]);
    lab.pass(300);
    lab.modes[0] = ServerMode::Works;
    lab.pass(700_000);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.3".into()], NameStatus::UpToDate));
}

/// A server delays an update from one address to another. The first address comes back, and a query shows that the
/// record is right. Then the server applies the update.
#[test]
fn a_late_update_is_detected_soon() {
    for is_restarted in [false, true] {
        let mut lab = Lab::new(1);
        lab.set_addresses(&["192.0.2.1"]);
        lab.pass(10_000);
        lab.modes[0] = ServerMode::Delays;
        lab.set_addresses(&["192.0.2.2"]);
        lab.pass(300);
        assert_eq!(lab.delayed.len(), 1);
        lab.modes[0] = ServerMode::Works;
        lab.set_addresses(&["192.0.2.1"]);
        lab.pass(1_000);
        assert!(lab.queries > 0 && lab.has(Family::V4) == ["192.0.2.1"]);
        assert_eq!(lab.status(), NameStatus::Pending, "the outcome of an update is unknown");
        if is_restarted {
            lab.restart();
        }
        lab.pass(1_500);
        assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
        lab.pass(LATE_MS);
        assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.1".into()], NameStatus::UpToDate));
        let looks = lab.queries;
        lab.pass(100_000);
        assert_eq!(lab.queries, looks, "all outcomes are known");
    }
}

/// Other updates follow before a delayed update takes effect. The last of them sets the address that the delayed one
/// replaces.
#[test]
fn a_late_update_after_others_is_detected_soon() {
    let mut lab = Lab::new(2);
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(10_000);
    lab.modes[0] = ServerMode::Delays;
    lab.modes[1] = ServerMode::Unreachable;
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(300);
    lab.modes = vec![ServerMode::Works; 2];
    for address in ["192.0.2.3", "192.0.2.1"] {
        lab.set_addresses(&[address]);
        lab.pass(500);
        assert_eq!(lab.has(Family::V4), [address]);
    }
    lab.pass(1_500);
    assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
    lab.pass(LATE_MS);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.1".into()], NameStatus::UpToDate));
}

/// One server delays an update that another server applies at once. Then the address comes back.
#[test]
fn a_late_repeat_of_an_update_is_detected_soon_and_is_own() {
    let mut lab = Lab::new(2);
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(10_000);
    lab.modes[0] = ServerMode::Delays;
    for address in ["192.0.2.2", "192.0.2.1"] {
        lab.set_addresses(&[address]);
        lab.pass(500);
        assert_eq!(lab.has(Family::V4), [address]);
    }
    lab.modes[0] = ServerMode::Works;
    lab.pass(2_000);
    assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
    lab.pass(LATE_MS);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.1".into()], NameStatus::UpToDate));
}
