//! Queries a root, a top-level domain and two zones at their addresses.

use super::*;
use crate::serve::Emulation;
use crate::serve::tally::TallyReport;
use crate::{Folder, ZoneEntry, file_name};
use std::path::PathBuf;
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype};
use wire::parse::{Message, Section};
use zone::answer::AnswerKind;

/// A root, `test.` and two zones below it. The server of `test.` also has `a.test.`.
const ZONES: [(&str, &[&str], &str); 4] = [
    (
        ".",
        &["192.0.2.1"],
        "@ 60 SOA a. b. 1 1 1 1 1\n@ 60 NS a.\na. 60 A 192.0.2.1\ntest. 60 NS ns.test.\n\
      ns.test. 60 A 192.0.2.2\n",
    ),
    (
        "test.",
        &["192.0.2.2"],
        "@ 60 SOA ns b. 1 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.2\na 60 NS ns.a\n\
      ns.a 60 A 192.0.2.3\na 60 DS 1 8 1 0123456789012345678901234567890123456789\nb 60 NS ns.b\nns.b 60 A 192.0.2.4\n",
    ),
    (
        "a.test.",
        &["192.0.2.2", "192.0.2.3"],
        "@ 60 SOA ns b. 1 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.3\n\
      www 60 A 198.51.100.1\nalias 60 CNAME www.b.test.\n",
    ),
    (
        "b.test.",
        &["192.0.2.4", "2001:db8::4"],
        "@ 60 SOA ns b. 1 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.4\n\
      www 60 A 198.51.100.2\n",
    ),
];

fn emulation(test: &str) -> Emulation {
    let dir = std::env::temp_dir().join(format!("catlab-emulator-{test}-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("zones")).unwrap();
    let entry = |(number, (name, servers, text)): (usize, (&str, &[&str], &str))| {
        let file: PathBuf = file_name(name, number);
        std::fs::write(dir.join(&file), text).unwrap();
        let servers = servers.iter().map(|server| server.parse().unwrap()).collect();
        ZoneEntry { name: name.to_owned(), file, servers }
    };
    let zones = ZONES.into_iter().enumerate().map(entry).collect();
    Folder::new(zones).write(&dir).unwrap();
    let emulation = Emulation::load(&dir).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    emulation
}

/// Returns RCODE, AA, and the number of records in each section.
fn ask(emulator: &mut Emulator, server: &str, name: &str, rtype: Rtype) -> (u16, bool, [usize; 3]) {
    let name: Name = name.parse().unwrap();
    let bytes = MessageBuilder::query(7, name.as_ref(), rtype).build();
    let server = server.parse().unwrap();
    let mut out = [0; 4_096];
    let message = ServerMessage { at_ns: 1, server, transport: Transport::Udp, bytes: &bytes };
    let count = emulator.answer(&message, &mut out);
    let message = Message::parse(&out[..count]).unwrap();
    let records = |section| message.records(section).count();
    let counts = [Section::Answer, Section::Authority, Section::Additional].map(records);
    (message.rcode().0, message.header().aa, counts)
}

#[test]
fn the_server_address_selects_the_zone() {
    let emulation = emulation("address");
    let mut emulator = emulation.emulator(true);
    let mut at = |server, name, rtype| ask(&mut emulator, server, name, rtype);
    let (referral, positive, refused) = ((0, false, [0, 1, 1]), (0, true, [1, 0, 0]), (5, false, [0; 3]));
    assert_eq!(at("192.0.2.1", "www.b.test.", Rtype::A), referral, "the root");
    assert_eq!(at("198.41.0.4", "www.b.test.", Rtype::A), referral, "the root at a known address");
    assert_eq!(at("128.63.2.53", "www.b.test.", Rtype::A), referral, "the root at a past address");
    assert_eq!(at("192.0.2.2", "www.b.test.", Rtype::A), referral, "the parent");
    assert_eq!(at("192.0.2.4", "www.b.test.", Rtype::A), positive);
    assert_eq!(at("2001:db8::4", "www.b.test.", Rtype::A), positive);
    assert_eq!(at("192.0.2.2", "www.a.test.", Rtype::A), positive, "parent and child on one server");
    assert_eq!(at("192.0.2.3", "www.b.test.", Rtype::A), refused, "a zone of another server");
    assert_eq!(at("192.0.2.9", "www.b.test.", Rtype::A), refused, "no server");
    assert_eq!(at("2001:db8::9", ".", Rtype::NS), refused, "no server");

    let tally = emulator.tally();
    assert_eq!((tally.query_count(), tally.unnamed_address_count(), tally.elsewhere_count), (10, 2, 1));
    let report = TallyReport::new(tally, emulation.directory());
    assert_eq!(report.unnamed_addresses[0].address, "192.0.2.9".parse::<IpAddr>().unwrap());
    let first = &report.unnamed_addresses[0];
    assert_eq!((first.name.as_str(), first.rtype.as_str()), ("www.b.test.", "A"));
    assert_eq!((report.zones[0].zone.as_str(), report.zones[0].queries), (".", 3));
    assert_eq!((tally.upstream.len(), tally.upstream[4].kind), (10, AnswerKind::Positive));
    assert_eq!(tally.upstream[4].zone.map(|zone| emulation.directory().apex(zone).to_string()).unwrap(), "b.test.");
}

#[test]
fn ds_comes_from_the_parent_if_the_server_has_it() {
    let emulation = emulation("ds");
    let mut emulator = emulation.emulator(false);
    assert_eq!(ask(&mut emulator, "192.0.2.2", "a.test.", Rtype::DS), (0, true, [1, 0, 0]));
    // The child answers that it has none, because it is alone at this address (RFC 4035 3.1.4.1).
    assert_eq!(ask(&mut emulator, "192.0.2.3", "a.test.", Rtype::DS), (0, true, [0, 1, 0]));
    assert!(emulator.tally().upstream.is_empty());
}

#[test]
fn aliases_do_not_lead_into_other_zones() {
    let emulation = emulation("alias");
    let mut emulator = emulation.emulator(false);
    for server in ["192.0.2.2", "192.0.2.3"] {
        assert_eq!(ask(&mut emulator, server, "alias.a.test.", Rtype::A), (0, true, [1, 0, 0]), "{server}");
    }
}

#[test]
fn invalid_queries_get_an_error_or_no_response() {
    let emulation = emulation("other");
    let mut emulator = emulation.emulator(true);
    let mut out = [0; 512];
    let name: Name = "test.".parse().unwrap();
    let update = MessageBuilder::update(1, name.as_ref()).build();
    let query = MessageBuilder::query(1, name.as_ref(), Rtype::TXT);
    let twice = query.question(name.as_ref(), Rtype::TXT, Class::CH).build();
    let mut rcode = |bytes: &[u8]| {
        let server = "192.0.2.2".parse().unwrap();
        let count = emulator.answer(&ServerMessage { at_ns: 0, server, transport: Transport::Udp, bytes }, &mut out);
        (count > 0).then(|| out[3] & 0x0F)
    };
    assert_eq!(rcode(&update), Some(4));
    assert_eq!(rcode(&twice), Some(1), "two questions");
    assert_eq!(rcode(&twice[..13]), Some(1));
    assert_eq!(rcode(b"short"), None);
    assert_eq!(emulator.tally().other_count, 4);
    assert_eq!(emulator.tally().query_count(), 0);
}

#[test]
fn zone_file_errors_have_the_line() {
    let dir = std::env::temp_dir().join(format!("catlab-emulator-wrong-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("zones")).unwrap();
    let entry = ZoneEntry { name: "a.".into(), file: file_name("a.", 0), servers: Vec::new() };
    let file = dir.join(&entry.file);
    Folder::new(vec![entry]).write(&dir).unwrap();
    for (text, expected) in [
        ("@ 60 SOA a. b. 1 1 1 1 1\n@ 60 NOTHING x\n", "a.zone:2"),
        ("@ 60 SOA a. b. 1 1 1 1 1\nb. 60 A 192.0.2.1\n", "line 2: b.: its owner is not in the zone"),
        ("@ 60 A 192.0.2.1\n", "exactly one SOA"),
        ("$INCLUDE other\n", "$INCLUDE is not possible"),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = Emulation::load(&dir).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(Emulation::load(&dir).err().unwrap().to_string().contains("a.zone"));
    std::fs::remove_dir_all(&dir).unwrap();
}
