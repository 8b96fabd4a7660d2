//! Updates with an unknown outcome that take effect late.

use super::*;

#[test]
fn a_lost_response_is_not_taken_for_a_failure_for_good() {
    let mut lab = Lab::new(2);
    lab.moods[0] = Mood::LosesResponses;
    lab.set_addresses(&["192.0.2.1"]);
    // The second server got prerequisites that no longer held. A look then showed the record.
    assert_eq!((lab.updates.len(), lab.looks, lab.standing()), (2, 1, Standing::Settled));
    assert_eq!(lab.has(Family::V4), ["192.0.2.1"]);
}

#[test]
fn an_address_that_changes_while_no_outcome_is_known_still_replaces_its_own() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.moods[0] = Mood::LosesResponses;
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(300);
    lab.restart();
    lab.set_addresses(&["192.0.2.3"]);
    lab.pass(300);
    lab.moods[0] = Mood::Works;
    lab.pass(700_000);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.3".into()], Standing::Settled));
}

/// A server delays an update from one address to another. The first address comes back, and a look shows that the
/// record is right. Then the server applies the update.
#[test]
fn an_update_that_is_carried_out_late_is_found_out_soon() {
    for is_restarted in [false, true] {
        let mut lab = Lab::new(1);
        lab.set_addresses(&["192.0.2.1"]);
        lab.pass(10_000);
        lab.moods[0] = Mood::Holds;
        lab.set_addresses(&["192.0.2.2"]);
        lab.pass(300);
        assert_eq!(lab.held.len(), 1);
        lab.moods[0] = Mood::Works;
        lab.set_addresses(&["192.0.2.1"]);
        lab.pass(1_000);
        assert!(lab.looks > 0 && lab.has(Family::V4) == ["192.0.2.1"]);
        assert_eq!(lab.standing(), Standing::Busy, "the outcome of an update is unknown");
        if is_restarted {
            lab.restart();
        }
        lab.pass(1_500);
        assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
        lab.pass(LATE_MS);
        assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.1".into()], Standing::Settled));
        let looks = lab.looks;
        lab.pass(100_000);
        assert_eq!(lab.looks, looks, "all outcomes are known");
    }
}

/// Other updates follow before a delayed update takes effect. The last of them sets the address that the delayed one
/// replaces.
#[test]
fn an_update_that_is_carried_out_after_others_is_found_out_soon() {
    let mut lab = Lab::new(2);
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(10_000);
    lab.moods[0] = Mood::Holds;
    lab.moods[1] = Mood::Deaf;
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(300);
    lab.moods = vec![Mood::Works; 2];
    for address in ["192.0.2.3", "192.0.2.1"] {
        lab.set_addresses(&[address]);
        lab.pass(500);
        assert_eq!(lab.has(Family::V4), [address]);
    }
    lab.pass(1_500);
    assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
    lab.pass(LATE_MS);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.1".into()], Standing::Settled));
}

/// One server delays an update that another server applies at once. Then the address comes back.
#[test]
fn an_update_that_is_carried_out_again_late_is_found_out_soon_and_is_ours() {
    let mut lab = Lab::new(2);
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(10_000);
    lab.moods[0] = Mood::Holds;
    for address in ["192.0.2.2", "192.0.2.1"] {
        lab.set_addresses(&[address]);
        lab.pass(500);
        assert_eq!(lab.has(Family::V4), [address]);
    }
    lab.moods[0] = Mood::Works;
    lab.pass(2_000);
    assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "the delayed update was applied");
    lab.pass(LATE_MS);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.1".into()], Standing::Settled));
}
