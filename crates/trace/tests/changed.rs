//! Changes real captures by rules. Our reader and tshark find the intended changes in the result.

mod support;

use support::{Folder, captures, malformed};
use trace::mutate::{Action, Changes, ClientChange, IdChange, Mutator, NameChange, Plan, Rule};
use trace::{Format, Message, Options, Transport, Writer, open};

/// All changes at once.
fn plan() -> Plan {
    let changes = Changes {
        transports: vec![(Transport::Tcp, 0.4), (Transport::Udp, 0.6)],
        client: Some(ClientChange { prefix: "10.0.0.0/8".parse().unwrap(), count: Some(50) }),
        server: Some(("192.0.2.53".parse().unwrap(), Some(53))),
        name: Some(NameChange::Template("q{n}.{name}".parse().unwrap())),
        recursion_desired: Some(true),
        dnssec_ok: Some(0.7),
        remove_options: vec![10],
        add_options: ["nsid", "ecs=client", "padding=64"].iter().map(|option| option.parse().unwrap()).collect(),
        id: Some(IdChange::Random),
        ..Changes::default()
    };
    let rule = Rule { action: Action::Change(Box::new(changes)), ..Rule::default() };
    Plan { speed: 3.0, rules: vec![rule], ..Plan::default() }
}

#[test]
fn changed_captures_are_valid() {
    let folder = Folder::new("changed");
    let (plain, changed) = (folder.path("plain.pcap"), folder.path("changed.pcap"));
    let mut writers = [&plain, &changed].map(|path| Writer::create(path, Format::Capture).unwrap());
    for path in captures() {
        let mut mutator = Mutator::new(plan()).unwrap();
        let mut reader = open(&path, &Options::default()).unwrap();
        let (mut queries, mut sound) = (0, 0);
        while let Some(message) = reader.next().unwrap() {
            let after = mutator.apply(&message).unwrap();
            // Messages of 64,990 bytes and more may need two packets over TCP.
            if message.bytes.len() < 60_000 {
                writers[0].write(&Message { source: after.source, destination: after.destination, ..message }).unwrap();
                writers[1].write(&after).unwrap();
            }
            assert!(after.client().ip().is_ipv4());
            assert_eq!(after.server().to_string(), "192.0.2.53:53");
            if message.is_response() {
                assert_eq!(after.bytes, message.bytes);
                continue;
            }
            queries += 1;
            sound += u64::from(is_as_wanted(message.bytes, after.bytes));
        }
        let tally = mutator.tally();
        let left = tally.unreadable + tally.too_long;
        println!("{}: {queries} queries, {sound} changed, {left} changes not possible", path.display());
        // Name and EDNS are two changes.
        assert!(queries <= sound + left && left <= 2 * (queries - sound), "{}", path.display());
    }
    writers.into_iter().for_each(|writer| writer.finish().unwrap());
    let (Some(before), Some(after)) = (malformed(&plain), malformed(&changed)) else { return };
    assert!(after.is_subset(&before), "{after:?} malformed, {before:?} before");
}

/// Whether all intended changes of a query were made.
fn is_as_wanted(before: &[u8], after: &[u8]) -> bool {
    // One server in a capture appends two letters to its queries.
    let read = |bytes| wire::Message::parse(<[u8]>::strip_suffix(bytes, b"MS").unwrap_or(bytes));
    let (Ok(before), Ok(after)) = (read(before), read(after)) else { return false };
    let (Some(asked), Some(asks)) = (before.question(), after.question()) else { return false };
    let is_longer = asks.qname.as_ref().parent().is_some_and(|parent| parent == asked.qname.as_ref());
    is_longer && after.edns().is_some_and(|edns| edns.nsid() && edns.padding()) && after.header().rd
}
