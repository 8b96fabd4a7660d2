//! The state that survives a restart.

use super::*;

#[test]
fn an_address_lost_before_a_restart_is_withdrawn_in_time() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    simulation.set_addresses(&["192.0.2.1"]);
    // As from cron: one process after the other, each with a shorter life than the withdrawal time.
    for _ in 0..2 {
        simulation.advance_time(4_000);
        simulation.restart();
        assert_eq!((simulation.updates.len(), simulation.status()), (1, NameStatus::UpToDate));
    }
    simulation.now = Now { ms: START.ms, unix_s: START.unix_s + 9 };
    simulation.restart();
    assert_eq!(simulation.updates.len(), 1);
    simulation.now.unix_s += 1;
    simulation.restart();
    assert_eq!(
        (simulation.updates.len(), simulation.zone.ipv6.0.len(), simulation.status()),
        (2, 0, NameStatus::UpToDate)
    );
    // If the address comes back, the withdrawal time begins again when it goes.
    simulation.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    simulation.advance_time(1_000);
    assert_eq!(simulation.disk.names["home.example.test."].gone_since_s.ipv6, None);
}

#[test]
fn a_restart_sends_no_requests() {
    let mut simulation = Simulation::new(1);
    simulation.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    simulation.restart();
    simulation.advance_time(1_000);
    assert_eq!((simulation.updates.len(), simulation.queries, simulation.status()), (1, 0, NameStatus::UpToDate));
    // A changed TTL needs an update.
    simulation.config.names[0].ttl = 90;
    simulation.restart();
    assert_eq!((simulation.updates.len(), simulation.zone.ipv4.1, simulation.zone.ipv6.1), (2, 90, 90));
}

/// Runs the machine until all names are right. Returns the state on disk. One name per second is confirmed, the last
/// one first.
fn run_until_saved(names: &[String], mut disk: SavedState, now: &mut Now) -> SavedState {
    let tables = names.iter().rev().map(|name| format!("[[name]]\nname = \"{name}.example.test\"\nprivate = true\n"));
    let head = "zone = \"example.test\"\nservers = [\"192.0.2.1\"]\nkey_file = \"k\"\n".to_owned();
    let config = Config::parse(&(head + &tables.collect::<String>())).unwrap();
    let mut machine = Machine::new(&config, disk.clone(), options(false));
    let address = "192.0.2.1".parse().unwrap();
    let found = InterfaceAddress { interface: "eth0".into(), address, is_temporary: false, is_deprecated: false };
    machine.handle_interfaces(vec![found], *now);
    while let Some(action) = machine.poll_action() {
        match action {
            Action::Save(saved) => disk = saved,
            Action::Send(Request::Update { token, .. }) => {
                *now = Now { ms: now.ms + 1_000, unix_s: now.unix_s + 1 };
                machine.handle_outcome(token, Outcome::Done, *now);
            }
            _ => {}
        }
    }
    disk
}

#[test]
fn unconfigured_names_are_removed_before_the_file_is_too_large() {
    let names = |letter: &str, count: usize| (0..count).map(|at| format!("{letter}{at:02}")).collect::<Vec<_>>();
    let (mut disk, mut now) = (SavedState::new("example.test."), START);
    for names in [names("b", NAMES_MAX), names("c", NAMES_MAX), names("a", 1)] {
        disk = run_until_saved(&names, disk, &mut now);
    }
    let saved = SavedState::parse(&disk.to_bytes(), "example.test.").unwrap();
    assert_eq!((&saved, saved.names.len()), (&disk, 2 * NAMES_MAX));
    let is_there = |name: &str| saved.names.contains_key(&format!("{name}.example.test."));
    assert!(is_there("a00") && is_there("b00") && is_there("c00") && is_there("c63"));
    assert!(!is_there("b63"), "b63 was confirmed first, so it is forgotten first");
}
