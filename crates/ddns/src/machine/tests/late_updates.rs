//! Updates without an outcome, which are carried out late.

use super::*;

#[test]
fn a_lost_response_is_not_taken_for_a_failure_for_good() {
    let mut lab = Lab::new(2);
    lab.moods[0] = Mood::LosesResponses;
    lab.set_addresses(&["192.0.2.1"]);
    // The second server was asked with prerequisites that no longer held, and showed what was there.
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

/// An update goes from one address to the other and is held; the address comes back, a look shows that the record is
/// right, and then the server carries the update out.
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
        assert_eq!(lab.standing(), Standing::Busy, "an update is in doubt");
        if is_restarted {
            lab.restart();
        }
        lab.pass(1_500);
        assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "it was carried out");
        lab.pass(LATE_MS);
        assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.1".into()], Standing::Settled));
        let looks = lab.looks;
        lab.pass(100_000);
        assert_eq!(lab.looks, looks, "nothing is in doubt any more");
    }
}

/// Between the update that is held and its effect others are done, the last of which sets what the first one replaces.
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
    assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "it was carried out");
    lab.pass(LATE_MS);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.1".into()], Standing::Settled));
}

/// One server holds an update that another one does; then the address comes back.
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
    assert_eq!(lab.has(Family::V4), ["192.0.2.2"], "it was carried out");
    lab.pass(LATE_MS);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.1".into()], Standing::Settled));
}
