//! Tests of plans.

use super::*;
use crate::prefix::Prefix;
use proptest::prelude::*;
use std::collections::BTreeSet;
use wire::{MessageBuilder, Name, Rtype};

struct Sent {
    at_ns: u64,
    source: SocketAddr,
    destination: SocketAddr,
    transport: Transport,
    bytes: Vec<u8>,
}

fn query(client: u8, id: u16, qname: &str) -> Sent {
    let qname: Name = qname.parse().unwrap();
    Sent {
        at_ns: 1_000_000_000 + u64::from(id) * 1_000_000,
        source: SocketAddr::new([192, 0, 2, client].into(), 40_000 + id % 1_000),
        destination: SocketAddr::new([198, 51, 100, 53].into(), 53),
        transport: Transport::Udp,
        bytes: MessageBuilder::query(id, qname.as_ref(), Rtype::A).header(|header| header.rd = true).build(),
    }
}

fn response(to: &Sent) -> Sent {
    let mut bytes = to.bytes.clone();
    bytes[2] |= 0x80;
    let (source, destination) = (to.destination, to.source);
    Sent { at_ns: to.at_ns + 1, source, destination, transport: to.transport, bytes }
}

fn apply(mutator: &mut Mutator, sent: &Sent) -> Option<Sent> {
    let Sent { at_ns, source, destination, transport, bytes } = sent;
    let message = Message { at_ns: *at_ns, source: *source, destination: *destination, transport: *transport, bytes };
    let Message { at_ns, source, destination, transport, bytes } = mutator.apply(&message)?;
    Some(Sent { at_ns, source, destination, transport, bytes: bytes.to_vec() })
}

fn mutator(rules: Vec<Rule>) -> Mutator {
    Mutator::new(Plan { rules, ..Plan::default() }).unwrap()
}

fn changing(changes: Changes) -> Rule {
    Rule { action: Action::Change(Box::new(changes)), ..Rule::default() }
}

fn parsed(sent: &Sent) -> wire::parse::Message<'_> {
    wire::parse::Message::parse(&sent.bytes).unwrap()
}

#[test]
fn a_plan_without_rules_changes_nothing() {
    let mut mutator = mutator(Vec::new());
    let sent = query(1, 7, "www.example.");
    let same = apply(&mut mutator, &sent).unwrap();
    assert_eq!((same.at_ns, same.source, &same.bytes), (sent.at_ns, sent.source, &sent.bytes));
}

#[test]
fn responses_follow_the_transport_of_their_client() {
    let shares = vec![(Transport::Tcp, 0.25), (Transport::Dot, 0.25)];
    let mut mutator = mutator(vec![changing(Changes { transports: shares, ..Changes::default() })]);
    let mut counts = [0; 3];
    for client in 0..=255 {
        let first = query(client, 1, "a.");
        let transport = apply(&mut mutator, &first).unwrap().transport;
        for id in 2..5 {
            let again = query(client, id, "b.");
            assert_eq!(apply(&mut mutator, &again).unwrap().transport, transport);
            assert_eq!(apply(&mut mutator, &response(&again)).unwrap().transport, transport);
        }
        counts[[Transport::Udp, Transport::Tcp, Transport::Dot].iter().position(|one| *one == transport).unwrap()] += 1;
    }
    assert!((96..160).contains(&counts[0]) && counts[1] > 40 && counts[2] > 40, "{counts:?}");
}

#[test]
fn drawing_per_query_includes_the_response() {
    let rule = Rule { share: 0.5, by: DrawPer::Query, action: Action::Keep, ..Rule::default() };
    let mut mutator = mutator(vec![rule]);
    let mut kept = 0;
    for id in 0..1_000 {
        let sent = query(1, id, "a.");
        let is_kept = apply(&mut mutator, &sent).is_some();
        assert_eq!(apply(&mut mutator, &response(&sent)).is_some(), is_kept);
        kept += u32::from(is_kept);
    }
    assert!((440..560).contains(&kept), "{kept}");
    let tally = mutator.tally();
    assert_eq!(
        (tally.messages, tally.given, tally.left_out[0]),
        (2_000, 2 * u64::from(kept), 2_000 - 2 * u64::from(kept))
    );
}

#[test]
fn each_query_has_its_own_name() {
    let template = "q{n}.{name}".parse().unwrap();
    let name = Some(NameChange::Template(template));
    let mut mutator = mutator(vec![changing(Changes { name, id: Some(IdChange::Count), ..Changes::default() })]);
    let mut names = BTreeSet::new();
    for id in 0..300 {
        let sent = apply(&mut mutator, &query((id % 7) as u8, 9, "www.Example.")).unwrap();
        let question = parsed(&sent).question().unwrap();
        assert_eq!(question.qname.to_string(), format!("q{id}.www.Example."));
        assert_eq!(parsed(&sent).header().id, id);
        names.insert(question.qname.to_string());
    }
    assert_eq!(names.len(), 300);
}

#[test]
fn rules_see_the_changes_of_earlier_rules() {
    let suffix = |from: &str, to: &str| NameChange::Suffix { from: from.parse().unwrap(), to: to.parse().unwrap() };
    let first = changing(Changes { name: Some(suffix("example.com", "lab.test")), ..Changes::default() });
    let when = When { names: vec!["lab.test".parse().unwrap()], ..When::default() };
    let second = Changes { qtype: Some(Rtype::AAAA), recursion_desired: Some(false), ..Changes::default() };
    let second = Rule { when, ..changing(second) };
    let mut mutator = mutator(vec![first, second]);
    let changed = apply(&mut mutator, &query(1, 1, "www.EXAMPLE.com")).unwrap();
    let question = parsed(&changed).question().unwrap();
    assert_eq!((question.qname.to_string().as_str(), question.qtype), ("www.lab.test.", Rtype::AAAA));
    assert!(!parsed(&changed).header().rd);
    let other = query(1, 2, "www.example.org");
    assert_eq!(apply(&mut mutator, &other).unwrap().bytes, other.bytes);
}

#[test]
fn edns_is_added_changed_and_removed() {
    let add_options = vec!["padding=128".parse().unwrap(), "nsid".parse().unwrap(), "ecs=client".parse().unwrap()];
    let put_in = Changes { dnssec_ok: Some(1.0), add_options, ..Changes::default() };
    let mut with = mutator(vec![changing(put_in)]);
    let changed = apply(&mut with, &query(1, 1, "www.example.")).unwrap();
    let edns = parsed(&changed).edns().unwrap();
    assert!(edns.dnssec_ok && edns.payload == 1_232 && changed.bytes.len() == 128);
    assert_eq!(edns.options().map(|(code, _)| code).collect::<Vec<_>>(), [3, 8, 12]);
    assert_eq!(edns.option(8), Some(&[0, 1, 24, 0, 192, 0, 2][..]));
    // An added option replaces the existing one.
    let again = apply(&mut with, &changed).unwrap();
    assert_eq!(again.bytes, changed.bytes);
    let smaller = Changes {
        edns: Some(EdnsChange::Payload(512)),
        dnssec_ok: Some(0.0),
        remove_options: vec![3, 12],
        ..Changes::default()
    };
    let smaller = apply(&mut mutator(vec![changing(smaller)]), &changed).unwrap();
    let edns = parsed(&smaller).edns().unwrap();
    assert!(!edns.dnssec_ok && edns.payload == 512 && edns.options().map(|(code, _)| code).eq([8]));
    let without = Changes { edns: Some(EdnsChange::Remove), ..Changes::default() };
    let without = apply(&mut mutator(vec![changing(without)]), &changed).unwrap();
    assert_eq!(without.bytes, query(1, 1, "www.example.").bytes);
}

#[test]
fn clients_go_to_a_prefix_and_to_no_more_than_the_count() {
    let prefix: Prefix = "2001:db8::/64".parse().unwrap();
    let client = Some(ClientChange { prefix, count: Some(10) });
    let server = Some(("2001:db8:1::53".parse().unwrap(), Some(5_300)));
    let mut mutator = mutator(vec![changing(Changes { client, server, ..Changes::default() })]);
    let mut clients = BTreeSet::new();
    for number in 0..=255 {
        let sent = query(number, 1, "a.");
        let changed = apply(&mut mutator, &sent).unwrap();
        assert!(prefix.contains(changed.source.ip()) && changed.source.port() == sent.source.port());
        assert_eq!(changed.destination.to_string(), "[2001:db8:1::53]:5300");
        let answered = apply(&mut mutator, &response(&sent)).unwrap();
        assert_eq!((answered.destination, answered.source), (changed.source, changed.destination));
        clients.insert(changed.source.ip());
    }
    assert_eq!(clients.len(), 10);
}

#[test]
fn time_is_scaled_from_the_first_message_and_shifted() {
    let plan = Plan { speed: 4.0, shift_ns: -500_000_000, ..Plan::default() };
    let mut mutator = Mutator::new(plan).unwrap();
    let times: Vec<u64> = [0, 4, 2].iter().map(|&id| apply(&mut mutator, &query(1, id, "a.")).unwrap().at_ns).collect();
    assert_eq!(times, [500_000_000, 501_000_000, 500_500_000]);
    let early = Plan { shift_ns: i64::MIN, ..Plan::default() };
    assert_eq!(apply(&mut Mutator::new(early).unwrap(), &query(1, 0, "a.")).unwrap().at_ns, 0);
    let mut slow = Mutator::new(Plan { speed: 1e-300, ..Plan::default() }).unwrap();
    assert_eq!(apply(&mut slow, &query(1, 0, "a.")).unwrap().at_ns, 1_000_000_000);
    assert_eq!(apply(&mut slow, &query(1, 1, "a.")).unwrap().at_ns, u64::MAX);
}

#[test]
fn messages_that_cannot_be_changed_are_kept_and_counted() {
    let changes = Changes { dnssec_ok: Some(1.0), qtype: Some(Rtype::NS), ..Changes::default() };
    let mut mutator = mutator(vec![changing(changes)]);
    let malformed = Sent { bytes: vec![0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], ..query(1, 1, "a.") };
    assert_eq!(apply(&mut mutator, &malformed).unwrap().bytes, malformed.bytes);
    assert_eq!(mutator.tally().unreadable, 2);
    let long = [["a"; 60].concat().as_str(); 4].join(".");
    let template = "{name}.{name}".parse().unwrap();
    let name = Some(NameChange::Template(template));
    let mut mutator = super::tests::mutator(vec![changing(Changes { name, ..Changes::default() })]);
    let long = query(1, 1, &long);
    assert_eq!(apply(&mut mutator, &long).unwrap().bytes, long.bytes);
    assert_eq!(mutator.tally().too_long, 1);
}

#[test]
fn impossible_plans_are_refused() {
    let with = |rule| Mutator::new(Plan { rules: vec![rule], ..Plan::default() }).err();
    assert_eq!(Mutator::new(Plan { speed: 0.0, ..Plan::default() }).err(), Some(PlanError::Speed));
    assert_eq!(Mutator::new(Plan { speed: f64::NAN, ..Plan::default() }).err(), Some(PlanError::Speed));
    assert_eq!(with(Rule { share: 1.5, ..Rule::default() }), Some(PlanError::Share(1)));
    let transports = vec![(Transport::Tcp, 0.6), (Transport::Dot, 0.6)];
    assert_eq!(with(changing(Changes { transports, ..Changes::default() })), Some(PlanError::Transports(1)));
    let client = |count| Some(ClientChange { prefix: "10.0.0.0/30".parse().unwrap(), count: Some(count) });
    assert_eq!(with(changing(Changes { client: client(3), ..Changes::default() })), Some(PlanError::Clients(1)));
    assert_eq!(with(changing(Changes { client: client(2), ..Changes::default() })), None);
    let add_options = vec![OptionToAdd::Other { code: 1, bytes: vec![0; 65_535] }];
    assert_eq!(with(changing(Changes { add_options, ..Changes::default() })), Some(PlanError::Options(1)));
    let rules = vec![Rule::default(); crate::limits::RULES_MAX + 1];
    assert_eq!(Mutator::new(Plan { rules, ..Plan::default() }).err(), Some(PlanError::Rules));
}

proptest! {
    #[test]
    fn no_header_makes_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 12..80),
        fixed in any::<bool>(),
    ) {
        let changes = Changes {
            name: Some(NameChange::Template("q{n}.{name}".parse().unwrap())),
            qtype: Some(Rtype::MX),
            qclass: Some(wire::Class::CH),
            dnssec_ok: Some(0.5),
            add_options: vec!["padding=64".parse().unwrap()],
            recursion_desired: Some(true),
            id: Some(if fixed { IdChange::Fixed(7) } else { IdChange::Random }),
            ..Changes::default()
        };
        let mut mutator = mutator(vec![changing(changes)]);
        let sent = Sent { bytes, ..query(1, 1, "a.") };
        let changed = apply(&mut mutator, &sent).unwrap();
        let was_whole = wire::parse::Message::parse(&sent.bytes).is_ok();
        prop_assert!(!was_whole || wire::parse::Message::parse(&changed.bytes).is_ok());
    }
}
