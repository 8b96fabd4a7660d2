//! Servers that fail.

use super::*;

#[test]
fn the_next_server_is_asked_when_one_fails_and_the_first_one_again_later() {
    for mood in [Mood::Deaf, Mood::Fails, Mood::Refuses] {
        let mut lab = Lab::new(3);
        lab.moods[0] = mood;
        lab.set_addresses(&["192.0.2.1"]);
        assert_eq!(lab.updates.iter().map(|(_, server, _)| *server).collect::<Vec<_>>(), [1], "{mood:?}");
        assert_eq!(lab.standing(), Standing::Settled);
        lab.moods[0] = Mood::Works;
        lab.set_addresses(&["192.0.2.2"]);
        lab.pass(1_000);
        assert_eq!(lab.updates.last().unwrap().1, 1, "it rests");
        lab.pass(400_000);
        lab.set_addresses(&["192.0.2.3"]);
        lab.pass(1_000);
        assert_eq!(lab.updates.last().unwrap().1, 0);
    }
}

#[test]
fn many_servers_that_fail_do_not_make_the_last_one_wait() {
    let mut lab = Lab::new(8);
    lab.moods[..7].fill(Mood::Deaf);
    lab.set_addresses(&["192.0.2.1"]);
    assert_eq!((lab.has(Family::V4), lab.now), (vec!["192.0.2.1".into()], START));
}

#[test]
fn while_no_server_answers_they_are_asked_less_and_less() {
    let mut lab = Lab::new(2);
    lab.moods = vec![Mood::Refuses; 2];
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(3_600_000);
    let rounds = lab.notices.iter().filter(|notice| matches!(notice, Notice::Resting { .. })).count();
    assert!((8..60).contains(&rounds), "{rounds} rounds in an hour");
    assert!(matches!(lab.standing(), Standing::Troubled(Trouble::Refused(Refusal::Rcode(Rcode::REFUSED)))));
    // A new address does not wait.
    lab.moods = vec![Mood::Works; 2];
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(6_000);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.2".into()], Standing::Settled));
}
