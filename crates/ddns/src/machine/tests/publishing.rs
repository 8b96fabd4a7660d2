//! Which addresses are published, and how often.

use super::*;

#[test]
fn both_families_are_in_one_update() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    assert_eq!((lab.has(Family::V4), lab.has(Family::V6)), (vec!["192.0.2.1".into()], vec!["2001:db8::1".into()]));
    assert_eq!((lab.updates.len(), lab.status()), (1, NameStatus::UpToDate));
    lab.pass(3_000_000);
    assert_eq!((lab.updates.len(), lab.queries), (1, 0));
}

#[test]
fn a_new_address_replaces_the_old_one_when_it_has_settled() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(1_000);
    lab.set_addresses(&["192.0.2.2"]);
    assert_eq!(lab.status(), NameStatus::Pending);
    lab.pass(199);
    assert_eq!(lab.has(Family::V4), ["192.0.2.1"]);
    lab.pass(1);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.2".into()], NameStatus::UpToDate));
    // An address that is gone for a shorter time causes no update.
    lab.set_addresses(&[]);
    lab.pass(100);
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(10_000);
    assert_eq!(lab.updates.len(), 2);
}

#[test]
fn records_are_removed_after_a_time_without_address() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(10_000);
    assert_eq!(lab.has(Family::V6), ["2001:db8::1"]);
    lab.pass(300);
    assert!(lab.has(Family::V6).is_empty());
    assert_eq!(lab.has(Family::V4), ["192.0.2.1"]);
    assert_eq!((lab.updates.len(), lab.status()), (2, NameStatus::UpToDate));
    assert_eq!(lab.updates[1].2.changes.len(), 1, "the other family is not changed");
}

#[test]
fn a_missing_record_is_detected_and_restored() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.zone = PerFamily::default();
    lab.pass(3_500_000);
    assert_eq!(lab.queries, 0);
    lab.pass(200_000);
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["192.0.2.1".into()], NameStatus::UpToDate));
    // The check is repeated, and the time of the last one is reported.
    let looks = lab.queries;
    lab.pass(3_700_000);
    assert!(lab.queries > looks && lab.updates.len() == 2);
    let (_, confirmed) = lab.machine.confirmed_at_s().next().unwrap();
    assert!(lab.now.unix_s - confirmed < 3_600);
}

#[test]
fn flapping_addresses_cause_few_updates_and_the_last_one_wins() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    for round in 0..300 {
        lab.set_addresses(&[["192.0.2.1", "192.0.2.2"][round % 2]]);
        lab.pass(300);
    }
    // 90 seconds allow a burst, and then one update every five seconds.
    assert!((10..=18 + UPDATES_BURST as usize + 1).contains(&lab.updates.len()), "{}", lab.updates.len());
    lab.set_addresses(&["192.0.2.3"]);
    lab.pass(30_000);
    assert_eq!(lab.has(Family::V4), ["192.0.2.3"]);
    // An address that changes all the time is published too.
    lab.pass(60_000);
    let before = lab.updates.len();
    for round in 0..60 {
        lab.set_addresses(&[["192.0.2.4", "192.0.2.5"][round % 2]]);
        lab.pass(100);
    }
    assert!(lab.updates.len() > before);
}

#[test]
fn a_dry_run_only_reports_changes() {
    let mut lab = Lab::new(1);
    lab.machine = Machine::new(&lab.config, lab.disk.clone(), Options { is_dry_run: true, ..options(false) });
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(10_000_000);
    let would: Vec<_> = lab.notices.iter().filter(|notice| matches!(notice, Notice::DryRun { .. })).collect();
    assert!(matches!(would[..], [Notice::DryRun { update, .. }] if update.changes[0].to == set(&["192.0.2.1"])));
    assert!(lab.updates.is_empty() && lab.queries == 0 && lab.disk.names.is_empty());
}

#[test]
fn the_public_address_is_published_and_kept_while_probes_fail() {
    let mut lab = Lab::with("ipv4 = \"public\"\nipv6 = \"off\"\n[[public_address.probe]]\nstun = \"192.0.2.9\"\n", 1);
    let probe = |lab: &mut Lab| {
        let mut asked = None;
        while let Some(action) = lab.machine.poll_action() {
            if let Action::Probe { token, family, .. } = action {
                assert_eq!(family, Family::V4, "the other family is not configured");
                asked = Some(token);
            }
        }
        asked
    };
    lab.machine.handle_interfaces(Vec::new(), lab.now);
    let token = probe(&mut lab).unwrap();
    assert_eq!(lab.status(), NameStatus::Pending);
    lab.machine.handle_probe(token, Some("1.1.1.1".parse().unwrap()), lab.now);
    lab.act();
    assert_eq!((lab.has(Family::V4), lab.status()), (vec!["1.1.1.1".into()], NameStatus::UpToDate));
    lab.pass(3_000_000);
    assert_eq!((lab.has(Family::V4), lab.updates.len()), (vec!["1.1.1.1".into()], 1));
}
