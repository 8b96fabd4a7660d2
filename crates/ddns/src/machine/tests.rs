//! The machine against a zone that is modelled: time is virtual, servers do as they are told.

use super::*;
use crate::address::Addresses;
use crate::limits::{CONFLICT_REST_MS, LATE_MS, NAMES_MAX, UPDATES_BURST};
use crate::outcome::{Failure, Refusal, Seen};
use proptest::prelude::*;
use wire::number::Rcode;

const START: Now = Now { ms: 5_000_000, unix_s: 1_700_000_000 };

/// How long a server holds an update after its client gave up.
const HELD_MS: u64 = 2_500;

/// What a server does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    /// As it should.
    Works,
    /// It does it, and its response is lost.
    LosesResponses,
    /// It carries an update out only some time later, as through an election, and says nothing; looks it answers.
    Holds,
    /// It never hears of it.
    Deaf,
    /// It says SERVFAIL.
    Fails,
    /// It says REFUSED.
    Refuses,
}

/// The machine, the zone that its servers share, and the clock.
struct Lab {
    config: Config,
    machine: Machine,
    now: Now,
    zone: PerFamily<(Addresses, u32)>,
    /// A wildcard that shows these where there is nothing.
    wildcard: Addresses,
    is_alias: bool,
    /// What somebody writes right after the next look.
    after_look: Option<Addresses>,
    moods: Vec<Mood>,
    /// As it lies on disk.
    disk: Saved,
    interfaces: Vec<InterfaceAddress>,
    /// Updates that reached a server: when, which, and what was asked.
    updates: Vec<(u64, usize, Update)>,
    looks: usize,
    /// Updates that a server holds, and when it carries them out.
    held: Vec<(u64, Update)>,
    notices: Vec<Notice>,
    take_over: bool,
}

impl Lab {
    fn new(servers: usize) -> Self {
        Self::with("", servers)
    }

    fn with(more: &str, servers: usize) -> Self {
        let names: Vec<String> = (0..servers).map(|number| format!("\"192.0.2.{}\"", number + 1)).collect();
        let text = format!(
            "zone = \"example.test\"\nservers = [{}]\nkey_file = \"k\"\n\
             [[name]]\nname = \"home.example.test\"\nprivate = true\nwithdraw_after_s = 10\n{more}",
            names.join(", ")
        );
        let config = Config::parse(&text).unwrap();
        let disk = Saved::new("example.test.");
        Self {
            machine: Machine::new(&config, disk.clone(), options(false)),
            config,
            now: START,
            zone: PerFamily::default(),
            wildcard: Addresses::new(),
            is_alias: false,
            after_look: None,
            moods: vec![Mood::Works; servers],
            disk,
            interfaces: Vec::new(),
            updates: Vec::new(),
            looks: 0,
            held: Vec::new(),
            notices: Vec::new(),
            take_over: false,
        }
    }

    /// The process is killed and starts again with what lies on disk.
    fn restart(&mut self) {
        let disk = Saved::parse(&self.disk.to_octets(), "example.test.").unwrap();
        self.machine = Machine::new(&self.config, disk, options(self.take_over));
        self.machine.handle_interfaces(self.interfaces.clone(), self.now);
        self.act();
    }

    fn set_addresses(&mut self, addresses: &[&str]) {
        self.interfaces = addresses
            .iter()
            .map(|address| InterfaceAddress {
                interface: "eth0".into(),
                address: address.parse().unwrap(),
                is_temporary: false,
                is_deprecated: false,
            })
            .collect();
        self.machine.handle_interfaces(self.interfaces.clone(), self.now);
        self.act();
    }

    /// Does what the machine wants done, each request at once.
    fn act(&mut self) {
        for steps in 0.. {
            assert!(steps < 1_000, "it never comes to rest");
            let Some(action) = self.machine.poll_action() else { break };
            match action {
                Action::Save(saved) => self.disk = saved,
                Action::Send(request) => {
                    let (token, outcome) = self.serve(&request);
                    self.machine.handle_outcome(token, outcome, self.now);
                }
                Action::Tell(notice) => self.notices.push(notice),
                Action::Probe { token, .. } => self.machine.handle_probe(token, None, self.now),
            }
        }
    }

    fn serve(&mut self, request: &Request) -> (u64, Outcome) {
        let (Request::Update { token, server, .. } | Request::Look { token, server, .. }) = request;
        let mood = self.moods[*server];
        let silence = Outcome::Unreachable(Failure::Silence);
        match mood {
            Mood::Deaf => return (*token, silence),
            Mood::Fails => return (*token, Outcome::Unreachable(Failure::Rcode(Rcode::SERVFAIL))),
            Mood::Refuses => return (*token, Outcome::Refused(Refusal::Rcode(Rcode::REFUSED))),
            Mood::Works | Mood::LosesResponses | Mood::Holds => {}
        }
        let outcome = match request {
            Request::Update { update, .. } => {
                // Whatever is sent is remembered on disk first.
                let known = &self.disk.names["home.example.test."];
                for change in &update.changes {
                    let is_there =
                        |sets: &PerFamily<Option<Addresses>>| sets[change.family].as_ref() == Some(&change.to);
                    assert!(known.attempts.iter().any(|attempt| is_there(&attempt.sets)), "sent before it was saved");
                }
                self.updates.push((self.now.ms, *server, update.clone()));
                if mood == Mood::Holds {
                    self.held.push((self.now.ms + HELD_MS, update.clone()));
                    return (*token, silence);
                }
                self.apply(update)
            }
            Request::Look { family, .. } => {
                self.looks += 1;
                let (addresses, ttl) = self.shows(*family);
                if let Some(theirs) = self.after_look.take() {
                    self.zone.ipv4 = (theirs, 300);
                }
                let ttl = (!addresses.is_empty()).then_some(ttl);
                Outcome::Seen(Seen { addresses, ttl, is_alias: self.is_alias })
            }
        };
        (*token, if mood == Mood::LosesResponses { silence } else { outcome })
    }

    /// What a query finds: RFC 4592 2.2.1, a wildcard counts where the name does not exist, with any type.
    fn shows(&self, family: Family) -> (Addresses, u32) {
        let exists = Family::ALL.into_iter().any(|family| !self.zone[family].0.is_empty());
        if exists {
            return self.zone[family].clone();
        }
        (self.wildcard.iter().copied().filter(|address| Family::of(address) == family).collect(), 60)
    }

    /// RFC 2136 3.2 and 3.4.
    fn apply(&mut self, update: &Update) -> Outcome {
        for change in &update.changes {
            let there = &self.zone[change.family].0;
            match (change.from.is_empty(), there.is_empty()) {
                (true, false) => return Outcome::Prerequisite(Rcode::YXRRSET),
                (false, _) if *there != change.from => return Outcome::Prerequisite(Rcode::NXRRSET),
                _ => {}
            }
        }
        if self.is_alias {
            return Outcome::Prerequisite(Rcode::YXRRSET);
        }
        for change in &update.changes {
            self.zone[change.family] = (change.to.clone(), update.ttl);
        }
        Outcome::Done
    }

    /// Lets time pass, waking the machine when it wants to be.
    fn pass(&mut self, ms: u64) {
        let end = self.now.ms + ms;
        for steps in 0.. {
            assert!(steps < 10_000, "it is woken again and again");
            let wake = self.machine.wake_ms(self.now).unwrap_or(u64::MAX).max(self.now.ms);
            let held = self.held.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX);
            let next = wake.min(held).min(end);
            self.now = Now { ms: next, unix_s: START.unix_s + (next - START.ms) / 1_000 };
            for (_, update) in self.held.extract_if(.., |(at, _)| *at <= next).collect::<Vec<_>>() {
                self.apply(&update);
            }
            self.machine.handle_time(self.now);
            self.act();
            if next == end {
                break;
            }
        }
    }

    fn standing(&self) -> Standing {
        self.machine.standings(self.now).next().unwrap().1
    }

    fn has(&self, family: Family) -> Vec<String> {
        self.zone[family].0.iter().map(ToString::to_string).collect()
    }
}

fn options(take_over: bool) -> Options {
    Options { is_dry_run: false, take_over, check_period_s: 3_600, seed: 1 }
}

fn set(addresses: &[&str]) -> Addresses {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

#[test]
fn both_families_go_in_one_update_and_nothing_follows() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    assert_eq!((lab.has(Family::V4), lab.has(Family::V6)), (vec!["192.0.2.1".into()], vec!["2001:db8::1".into()]));
    assert_eq!((lab.updates.len(), lab.standing()), (1, Standing::Settled));
    lab.pass(3_000_000);
    assert_eq!((lab.updates.len(), lab.looks), (1, 0));
}

#[test]
fn a_new_address_replaces_the_old_one_when_it_has_settled() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(1_000);
    lab.set_addresses(&["192.0.2.2"]);
    assert_eq!(lab.standing(), Standing::Busy);
    lab.pass(199);
    assert_eq!(lab.has(Family::V4), ["192.0.2.1"]);
    lab.pass(1);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.2".into()], Standing::Settled));
    // One that is gone for less than that is not acted on.
    lab.set_addresses(&[]);
    lab.pass(100);
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(10_000);
    assert_eq!(lab.updates.len(), 2);
}

#[test]
fn records_go_when_there_has_been_no_address_for_long() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(10_000);
    assert_eq!(lab.has(Family::V6), ["2001:db8::1"]);
    lab.pass(300);
    assert!(lab.has(Family::V6).is_empty());
    assert_eq!(lab.has(Family::V4), ["192.0.2.1"]);
    assert_eq!((lab.updates.len(), lab.standing()), (2, Standing::Settled));
    assert_eq!(lab.updates[1].2.changes.len(), 1, "the other family is left alone");
}

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
        // When the other one gives it up, it is taken.
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
    // Somebody removes the record; what is seen now is the wildcard's.
    lab.zone = PerFamily::default();
    lab.wildcard = set(&["203.0.113.1"]);
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(1_000);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.2".into()], Standing::Settled));
}

#[test]
fn a_wildcard_that_shows_what_we_have_written_is_no_record_of_ours() {
    // Its A is our old one; its AAAA too; its A is a stranger's.
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

#[test]
fn a_record_that_went_missing_is_found_out_and_written_again() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    lab.zone = PerFamily::default();
    lab.pass(3_500_000);
    assert_eq!(lab.looks, 0);
    lab.pass(200_000);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.1".into()], Standing::Settled));
    // The check is repeated, and says when it was.
    let looks = lab.looks;
    lab.pass(3_700_000);
    assert!(lab.looks > looks && lab.updates.len() == 2);
    let (_, confirmed) = lab.machine.confirmed_at_s().next().unwrap();
    assert!(lab.now.unix_s - confirmed < 3_600);
}

#[test]
fn what_went_before_a_restart_is_withdrawn_when_its_time_is_up() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    lab.set_addresses(&["192.0.2.1"]);
    // As from cron: one process after the other, none of which lives as long as that takes.
    for _ in 0..2 {
        lab.pass(4_000);
        lab.restart();
        assert_eq!((lab.updates.len(), lab.standing()), (1, Standing::Settled));
    }
    lab.now = Now { ms: START.ms, unix_s: START.unix_s + 9 };
    lab.restart();
    assert_eq!(lab.updates.len(), 1);
    lab.now.unix_s += 1;
    lab.restart();
    assert_eq!((lab.updates.len(), lab.zone.ipv6.0.len(), lab.standing()), (2, 0, Standing::Settled));
    // One that came back has all of its time again when it goes.
    lab.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    lab.pass(1_000);
    assert_eq!(lab.disk.names["home.example.test."].gone_since_s.ipv6, None);
}

#[test]
fn a_restart_changes_nothing_and_asks_nobody() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1", "2001:db8::1"]);
    lab.restart();
    lab.pass(1_000);
    assert_eq!((lab.updates.len(), lab.looks, lab.standing()), (1, 0, Standing::Settled));
    // Another TTL is a change.
    lab.config.names[0].ttl = 90;
    lab.restart();
    assert_eq!((lab.updates.len(), lab.zone.ipv4.1, lab.zone.ipv6.1), (2, 90, 90));
}

/// Keeps names until they are right, and gives what is then on disk. One is confirmed each second, the last one first.
fn keep(names: &[String], mut disk: Saved, now: &mut Now) -> Saved {
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
fn names_that_are_not_configured_any_more_go_before_the_file_is_too_large_to_be_read() {
    let named = |letter: &str, count: usize| (0..count).map(|at| format!("{letter}{at:02}")).collect::<Vec<_>>();
    let (mut disk, mut now) = (Saved::new("example.test."), START);
    for names in [named("b", NAMES_MAX), named("c", NAMES_MAX), named("a", 1)] {
        disk = keep(&names, disk, &mut now);
    }
    let saved = Saved::parse(&disk.to_octets(), "example.test.").unwrap();
    assert_eq!((&saved, saved.names.len()), (&disk, 2 * NAMES_MAX));
    let is_there = |name: &str| saved.names.contains_key(&format!("{name}.example.test."));
    assert!(is_there("a00") && is_there("b00") && is_there("c00") && is_there("c63"));
    assert!(!is_there("b63"), "it was confirmed first");
}

#[test]
fn flapping_gives_few_updates_and_the_last_address_wins() {
    let mut lab = Lab::new(1);
    lab.set_addresses(&["192.0.2.1"]);
    for round in 0..300 {
        lab.set_addresses(&[["192.0.2.1", "192.0.2.2"][round % 2]]);
        lab.pass(300);
    }
    // 90 seconds: a burst, and one in five seconds.
    assert!((10..=18 + UPDATES_BURST as usize + 1).contains(&lab.updates.len()), "{}", lab.updates.len());
    lab.set_addresses(&["192.0.2.3"]);
    lab.pass(30_000);
    assert_eq!(lab.has(Family::V4), ["192.0.2.3"]);
    // What never settles is acted on too.
    lab.pass(60_000);
    let before = lab.updates.len();
    for round in 0..60 {
        lab.set_addresses(&[["192.0.2.4", "192.0.2.5"][round % 2]]);
        lab.pass(100);
    }
    assert!(lab.updates.len() > before);
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
    // Another address is another matter.
    lab.moods = vec![Mood::Works; 2];
    lab.set_addresses(&["192.0.2.2"]);
    lab.pass(6_000);
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["192.0.2.2".into()], Standing::Settled));
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let mut lab = Lab::new(1);
    lab.machine = Machine::new(&lab.config, lab.disk.clone(), Options { is_dry_run: true, ..options(false) });
    lab.set_addresses(&["192.0.2.1"]);
    lab.pass(10_000_000);
    let would: Vec<_> = lab.notices.iter().filter(|notice| matches!(notice, Notice::Would { .. })).collect();
    assert!(matches!(would[..], [Notice::Would { update, .. }] if update.changes[0].to == set(&["192.0.2.1"])));
    assert!(lab.updates.is_empty() && lab.looks == 0 && lab.disk.names.is_empty());
}

#[test]
fn the_outside_address_is_published_and_stays_while_probes_are_silent() {
    let mut lab = Lab::with("ipv4 = \"outside\"\nipv6 = \"off\"\n[[outside.probe]]\nstun = \"192.0.2.9\"\n", 1);
    let probe = |lab: &mut Lab| {
        let mut asked = None;
        while let Some(action) = lab.machine.poll_action() {
            if let Action::Probe { token, family, .. } = action {
                assert_eq!(family, Family::V4, "the other family is not wanted");
                asked = Some(token);
            }
        }
        asked
    };
    lab.machine.handle_interfaces(Vec::new(), lab.now);
    let token = probe(&mut lab).unwrap();
    assert_eq!(lab.standing(), Standing::Busy);
    lab.machine.handle_probe(token, Some("1.1.1.1".parse().unwrap()), lab.now);
    lab.act();
    assert_eq!((lab.has(Family::V4), lab.standing()), (vec!["1.1.1.1".into()], Standing::Settled));
    lab.pass(3_000_000);
    assert_eq!((lab.has(Family::V4), lab.updates.len()), (vec!["1.1.1.1".into()], 1));
}

#[derive(Clone, Debug)]
enum Event {
    Address(u8),
    Mood(usize, Mood),
    Pass(u64),
    Restart,
    Another(u8),
    Vanish,
    Wildcard(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let mood = prop_oneof![
        3 => Just(Mood::Works), 2 => Just(Mood::LosesResponses), 1 => Just(Mood::Deaf), 1 => Just(Mood::Fails),
        1 => Just(Mood::Holds)
    ];
    prop_oneof![
        4 => (1u8..5).prop_map(Event::Address),
        3 => (0usize..2, mood).prop_map(|(server, mood)| Event::Mood(server, mood)),
        4 => (1u64..20_000).prop_map(Event::Pass),
        2 => Just(Event::Restart),
        1 => (1u8..4).prop_map(Event::Another),
        1 => Just(Event::Vanish),
        1 => (1u8..5).prop_map(Event::Wildcard),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever happens, a record that we never wrote is left alone; and when servers work again and nobody else has
    /// written, the name has what it shall have.
    #[test]
    fn others_are_left_alone_and_the_name_is_right_in_the_end(events in prop::collection::vec(event(), 1..40)) {
        let mut lab = Lab::new(2);
        let mut anothers: Option<Addresses> = None;
        lab.set_addresses(&["192.0.2.1"]);
        for event in events {
            match event {
                Event::Address(last) => lab.set_addresses(&[&format!("192.0.2.{last}")]),
                Event::Mood(server, mood) => lab.moods[server] = mood,
                Event::Pass(ms) => lab.pass(ms),
                Event::Restart => lab.restart(),
                // Addresses that are never ours.
                Event::Another(last) => {
                    let theirs = set(&[&format!("203.0.113.{last}")]);
                    lab.zone.ipv4 = (theirs.clone(), 300);
                    anothers = Some(theirs);
                }
                Event::Vanish => {
                    lab.zone = PerFamily::default();
                    anothers = None;
                }
                // It shows what may be ours.
                Event::Wildcard(last) => lab.wildcard = set(&[&format!("192.0.2.{last}")]),
            }
            if let Some(theirs) = &anothers {
                prop_assert_eq!(&lab.zone.ipv4.0, theirs);
            }
        }
        lab.moods = vec![Mood::Works; 2];
        // Past all rests, and past a check.
        lab.pass(5_000_000);
        match anothers {
            Some(theirs) => {
                prop_assert_eq!(&lab.zone.ipv4.0, &theirs);
                prop_assert!(matches!(lab.standing(), Standing::Troubled(Trouble::Anothers(_)) | Standing::Settled));
            }
            None => {
                let wanted: Addresses = lab.interfaces.iter().map(|found| found.address).collect();
                prop_assert_eq!(lab.shows(Family::V4).0, wanted);
                prop_assert_eq!(lab.standing(), Standing::Settled);
            }
        }
    }
}
