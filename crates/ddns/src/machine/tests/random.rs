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
    let mood = prop_oneof![
        3 => Just(ServerMode::Works), 2 => Just(ServerMode::LosesResponses), 1 => Just(ServerMode::Unreachable),
        1 => Just(ServerMode::Fails), 1 => Just(ServerMode::Delays)
    ];
    prop_oneof![
        4 => (1u8..5).prop_map(Event::Address),
        3 => (0usize..2, mood).prop_map(|(server, mood)| Event::ServerMode(server, mood)),
        4 => (1u64..20_000).prop_map(Event::Pass),
        2 => Just(Event::Restart),
        1 => (1u8..4).prop_map(Event::Another),
        1 => Just(Event::Vanish),
        1 => (1u8..5).prop_map(Event::Wildcard),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Foreign records must never change. Once the servers work and nobody else writes, the name must have its target
    /// records.
    #[test]
    fn foreign_records_are_kept_and_the_name_converges(events in prop::collection::vec(event(), 1..40)) {
        let mut lab = Lab::new(2);
        let mut foreign: Option<Addresses> = None;
        lab.set_addresses(&["192.0.2.1"]);
        for event in events {
            match event {
                Event::Address(last) => lab.set_addresses(&[&format!("192.0.2.{last}")]),
                Event::ServerMode(server, mood) => lab.modes[server] = mood,
                Event::Pass(ms) => lab.pass(ms),
                Event::Restart => lab.restart(),
                // Addresses that are never ours.
                Event::Another(last) => {
                    let theirs = set(&[&format!("203.0.113.{last}")]);
                    lab.zone.ipv4 = (theirs.clone(), 300);
                    foreign = Some(theirs);
                }
                Event::Vanish => {
                    lab.zone = PerFamily::default();
                    foreign = None;
                }
                // The wildcard has addresses that may be ours.
                Event::Wildcard(last) => lab.wildcard = set(&[&format!("192.0.2.{last}")]),
            }
            if let Some(theirs) = &foreign {
                prop_assert_eq!(&lab.zone.ipv4.0, theirs);
            }
        }
        lab.modes = vec![ServerMode::Works; 2];
        // Longer than all pauses, and than the interval between checks.
        lab.pass(5_000_000);
        match foreign {
            Some(theirs) => {
                prop_assert_eq!(&lab.zone.ipv4.0, &theirs);
                let status = lab.status();
                prop_assert!(matches!(status, NameStatus::Failed(NameError::ForeignRecord(_)) | NameStatus::UpToDate));
            }
            None => {
                let wanted: Addresses = lab.interfaces.iter().map(|found| found.address).collect();
                prop_assert_eq!(lab.shows(Family::V4).0, wanted);
                prop_assert_eq!(lab.status(), NameStatus::UpToDate);
            }
        }
    }
}
