//! Foreign records, records that are taken over, and wildcards.

use super::*;

#[test]
fn the_record_of_another_is_never_touched() {
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
        let Standing::Troubled(Trouble::Anothers(seen)) = lab.standing() else {
            panic!("{state}: {:?}", lab.standing())
        };
        assert_eq!(seen.addresses, set(&["203.0.113.9"]));
        let before = lab.updates.len();
        lab.pass(2 * CONFLICT_REST_MS);
        assert_eq!(lab.zone.ipv4, (set(&["203.0.113.9"]), 300), "{state}");
        assert!(lab.updates.len() - before <= 3, "it rests");
        // When the other owner removes its record, we write ours.
        lab.zone.ipv4 = PerFamily::default().ipv4;
        lab.pass(CONFLICT_REST_MS + 1_000);
        assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.7".into()], Standing::Settled), "{state}");
    }
}

#[test]
fn take_over_takes_what_is_there_once() {
    let mut lab = Lab::new(1);
    lab.take_over = true;
    lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    lab.interfaces = vec![];
    lab.set_addresses(&["192.0.2.7"]);
    lab.restart();
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.7".into()], Standing::Settled));
    lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    lab.set_addresses(&["192.0.2.8"]);
    lab.pass(1_000);
    assert_eq!(lab.has(Family::V4), ["203.0.113.9"]);
}

#[test]
fn take_over_is_used_up_by_the_first_look_also_where_nothing_differs() {
    for is_state_lost in [false, true] {
        let mut lab = Lab::new(1);
        lab.set_addresses(&["192.0.2.1"]);
        if is_state_lost {
            lab.disk = Saved::new("example.test.");
        }
        lab.take_over = true;
        lab.restart();
        let at_start = (lab.updates.len(), lab.looks, lab.standing());
        lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
        lab.pass(3_700_000);
        assert_eq!(lab.has(Family::V4), ["203.0.113.9"], "{is_state_lost}");
        assert!(matches!(lab.standing(), Standing::Troubled(Trouble::Anothers(_))), "{is_state_lost}");
        assert_eq!(at_start, (1, 1, Standing::Settled), "{is_state_lost}");
    }
}

#[test]
fn take_over_removes_nothing_while_there_is_no_address() {
    let mut lab = Lab::new(1);
    lab.take_over = true;
    lab.zone.ipv4 = (set(&["203.0.113.9"]), 300);
    lab.restart();
    lab.pass(100_000);
    assert_eq!((lab.has(Family::V4), lab.looks), (vec!["203.0.113.9".into()], 0));
    lab.set_addresses(&["192.0.2.7"]);
    lab.pass(1_000);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.7".into()], Standing::Settled));
}

#[test]
fn what_is_right_already_is_taken_for_ours() {
    let mut lab = Lab::new(1);
    lab.zone.ipv4 = (set(&["192.0.2.1"]), 60);
    lab.set_addresses(&["192.0.2.1"]);
    assert_eq!((lab.updates.len(), lab.standing()), (1, Standing::Settled));
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(1_000);
    assert_eq!((lab.has(Family::V4), lab.updates.len()), (vec!["192.0.2.2".into()], 2));
}

#[test]
fn a_wildcard_is_not_taken_for_somebody() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    // Somebody removes the record. Looks now show the wildcard.
    lab.zone = PerFamily::default();
    lab.wildcard = set(&["203.0.113.1"]);
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(1_000);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.2".into()], Standing::Settled));
}

#[test]
fn a_wildcard_that_shows_what_we_have_written_is_no_record_of_ours() {
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
        assert_eq!(lab.standing(), Standing::Settled, "{wildcard:?}");
    }
}

#[test]
fn what_a_wildcard_shows_needs_no_withdrawal() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.zone = PerFamily::default();
    lab.wildcard = set(&["192.0.2.1"]);
    lab.set_addresses(&[]);
    lab.pass(11_000);
    assert_eq!((lab.updates.len(), lab.looks, lab.standing()), (4, 2, Standing::Settled));
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
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.2".into()], Standing::Settled));
}

#[test]
fn what_another_writes_after_a_wildcard_was_seen_stays() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.zone = PerFamily::default();
    lab.wildcard = set(&["192.0.2.1"]);
    lab.after_look = Some(set(&["203.0.113.9"]));
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(1_000);
    assert_eq!((lab.after_look.clone(), lab.has(Family::V4)), (None, vec!["203.0.113.9".into()]));
    let Standing::Troubled(Trouble::Anothers(seen)) = lab.standing() else { panic!("{:?}", lab.standing()) };
    assert_eq!(seen.addresses, set(&["203.0.113.9"]));
}

#[test]
fn an_alias_is_anothers_even_to_who_takes_over() {
    let mut lab = Lab::new(1);
    lab.take_over = true;
    lab.is_alias = true;
    lab.set_addresses(&["192.0.2.1"]);
    lab.restart();
    assert!(matches!(lab.standing(), Standing::Troubled(Trouble::Anothers(seen)) if seen.is_alias));
    assert!(lab.has(Family::V4).is_empty());
}
