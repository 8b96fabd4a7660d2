//! Random events, with the rule that foreign records stay.

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Address(u8),
    ServerMode(usize, ServerMode),
    Pass(u64),
    Restart,
    Another(u8),
    Vanish,
    Wildcard(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let mode = prop_oneof![
        3 => Just(ServerMode::Works), 2 => Just(ServerMode::LosesResponses), 1 => Just(ServerMode::Unreachable),
        1 => Just(ServerMode::Fails), 1 => Just(ServerMode::Delays)
    ];
    prop_oneof![
        4 => (1u8..5).prop_map(Event::Address),
        3 => (0usize..2, mode).prop_map(|(server, mode)| Event::ServerMode(server, mode)),
        4 => (1u64..20_000).prop_map(Event::Pass),
        2 => Just(Event::Restart),
        1 => (1u8..4).prop_map(Event::Another),
        1 => Just(Event::Vanish),
        1 => (1u8..5).prop_map(Event::Wildcard),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Foreign records must never change. Once the servers work and no other client writes, the name must have its
    /// target records.
    #[test]
    fn foreign_records_are_kept_and_the_name_converges(events in prop::collection::vec(event(), 1..40)) {
        let mut simulation = Simulation::new(2);
        let mut foreign: Option<Addresses> = None;
        simulation.set_addresses(&["192.0.2.1"]);
        for event in events {
            match event {
                Event::Address(last) => simulation.set_addresses(&[&format!("192.0.2.{last}")]),
                Event::ServerMode(server, mode) => simulation.modes[server] = mode,
                Event::Pass(ms) => simulation.advance_time(ms),
                Event::Restart => simulation.restart(),
                // Addresses that are never ours.
                Event::Another(last) => {
                    let records = set(&[&format!("203.0.113.{last}")]);
                    simulation.zone.ipv4 = (records.clone(), 300);
                    foreign = Some(records);
                }
                Event::Vanish => {
                    simulation.zone = PerFamily::default();
                    foreign = None;
                }
                // The wildcard has addresses that may be ours.
                Event::Wildcard(last) => simulation.wildcard = set(&[&format!("192.0.2.{last}")]),
            }
            if let Some(foreign) = &foreign {
                prop_assert_eq!(&simulation.zone.ipv4.0, foreign);
            }
        }
        simulation.modes = vec![ServerMode::Works; 2];
        // Longer than all pauses, and than the interval between checks.
        simulation.advance_time(5_000_000);
        match foreign {
            Some(foreign) => {
                prop_assert_eq!(&simulation.zone.ipv4.0, &foreign);
                let status = simulation.status();
                prop_assert!(matches!(status, NameStatus::Failed(NameError::ForeignRecord(_)) | NameStatus::UpToDate));
            }
            None => {
                let wanted: Addresses = simulation.interfaces.iter().map(|found| found.address).collect();
                prop_assert_eq!(simulation.published(Family::V4).0, wanted);
                prop_assert_eq!(simulation.status(), NameStatus::UpToDate);
            }
        }
    }
}
