//! Which addresses are published, and how often.

use super::*;

#[test]
fn both_families_are_in_one_update() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    assert_eq!(
        (simulation.has(Family::V4), simulation.has(Family::V6)),
        (vec!["192.0.2.1".into()], vec!["2001:db8::1".into()])
    );
    assert_eq!((simulation.updates.len(), simulation.status()), (1, NameStatus::UpToDate));
    simulation.advance_time(3_000_000);
    assert_eq!((simulation.updates.len(), simulation.queries), (1, 0));
}

#[test]
fn a_new_address_replaces_the_old_one_when_it_has_settled() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.advance_time(1_000);
    simulation.set_addresses(&["192.0.2.2"]);
    assert_eq!(simulation.status(), NameStatus::Pending);
    simulation.advance_time(199);
    assert_eq!(simulation.has(Family::V4), ["192.0.2.1"]);
    simulation.advance_time(1);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.2".into()], NameStatus::UpToDate));
    // An address that is gone for a shorter time causes no update.
    simulation.set_addresses(&[]);
    simulation.advance_time(100);
    simulation.set_addresses(&["192.0.2.2"]);
    simulation.advance_time(10_000);
    assert_eq!(simulation.updates.len(), 2);
}

#[test]
fn records_are_removed_after_a_time_without_address() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.advance_time(10_000);
    assert_eq!(simulation.has(Family::V6), ["2001:db8::1"]);
    simulation.advance_time(300);
    assert!(simulation.has(Family::V6).is_empty());
    assert_eq!(simulation.has(Family::V4), ["192.0.2.1"]);
    assert_eq!((simulation.updates.len(), simulation.status()), (2, NameStatus::UpToDate));
    assert_eq!(simulation.updates[1].2.changes.len(), 1, "the other family is not changed");
}

#[test]
fn a_missing_record_is_detected_and_restored() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.zone = PerFamily::default();
    simulation.advance_time(3_500_000);
    assert_eq!(simulation.queries, 0);
    simulation.advance_time(200_000);
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["192.0.2.1".into()], NameStatus::UpToDate));
    // The check is repeated, and the time of the last one is reported.
    let queries_before = simulation.queries;
    simulation.advance_time(3_700_000);
    assert!(simulation.queries > queries_before && simulation.updates.len() == 2);
    let (_, confirmed) = simulation.machine.confirmed_at_s().next().unwrap();
    assert!(simulation.now.unix_s - confirmed < 3_600);
}

#[test]
fn flapping_addresses_cause_few_updates_and_the_last_one_wins() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1"]);
    for round in 0..300 {
        simulation.set_addresses(&[["192.0.2.1", "192.0.2.2"][round % 2]]);
        simulation.advance_time(300);
    }
    // 90 seconds allow a burst, and then one update every five seconds.
    assert!((10..=18 + UPDATES_BURST as usize + 1).contains(&simulation.updates.len()), "{}", simulation.updates.len());
    simulation.set_addresses(&["192.0.2.3"]);
    simulation.advance_time(30_000);
    assert_eq!(simulation.has(Family::V4), ["192.0.2.3"]);
    // An address that changes all the time is published too.
    simulation.advance_time(60_000);
    let before = simulation.updates.len();
    for round in 0..60 {
        simulation.set_addresses(&[["192.0.2.4", "192.0.2.5"][round % 2]]);
        simulation.advance_time(100);
    }
    assert!(simulation.updates.len() > before);
}

#[test]
fn a_dry_run_only_reports_changes() {
    let mut simulation = Simulation::new(1);
    simulation.machine =
        Machine::new(&simulation.config, simulation.disk.clone(), Options { is_dry_run: true, ..options(false) });
    simulation.set_addresses(&["192.0.2.1"]);
    simulation.advance_time(10_000_000);
    let would: Vec<_> = simulation.notices.iter().filter(|notice| matches!(notice, Notice::DryRun { .. })).collect();
    assert!(matches!(would[..], [Notice::DryRun { update, .. }] if update.changes[0].to == set(&["192.0.2.1"])));
    assert!(simulation.updates.is_empty() && simulation.queries == 0 && simulation.disk.names.is_empty());
}

#[test]
fn the_public_address_is_published_and_kept_while_probes_fail() {
    let mut simulation =
        Simulation::with("ipv4 = \"public\"\nipv6 = \"off\"\n[[public_address.probe]]\nstun = \"192.0.2.9\"\n", 1);
    let probe = |simulation: &mut Simulation| {
        let mut request_token = None;
        while let Some(action) = simulation.machine.poll_action() {
            if let Action::Probe { token, family, .. } = action {
                assert_eq!(family, Family::V4, "the other family is not configured");
                request_token = Some(token);
            }
        }
        request_token
    };
    simulation.machine.handle_interfaces(Vec::new(), simulation.now);
    let token = probe(&mut simulation).unwrap();
    assert_eq!(simulation.status(), NameStatus::Pending);
    simulation.machine.handle_probe(token, Some("1.1.1.1".parse().unwrap()), simulation.now);
    simulation.act();
    assert_eq!((simulation.has(Family::V4), simulation.status()), (vec!["1.1.1.1".into()], NameStatus::UpToDate));
    simulation.advance_time(3_000_000);
    assert_eq!((simulation.has(Family::V4), simulation.updates.len()), (vec!["1.1.1.1".into()], 1));
}
