//! Scenarios: responses of servers as text, and the zones that are built from them.

use crate::recorded::{Served, build, read};
use hierarchy::construct::{Built, Dnssec};
use hierarchy::limits::{FINDINGS_LISTED_MAX, OTHER_ANSWERS_MAX};
use hierarchy::serve::Transport;
use std::fmt::Write as _;
use std::net::IpAddr;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{Message, Section};

/// Servers and their responses, separated by blank lines. A response begins with its flags; the second line is the
/// question. Then come the records, each with the initial of its section.
pub(crate) fn scenario(ranges: &[(&str, &str)], dnssec: Dnssec) -> Built {
    let mut text = String::new();
    for (address, entries) in ranges {
        text += &format!("RANGE_BEGIN 0 9\nADDRESS {address}\n");
        for entry in entries.split("\n\n") {
            let mut lines = entry.lines().map(str::trim).filter(|line| !line.is_empty());
            let (flags, question) = (lines.next().unwrap(), lines.next().unwrap());
            text += &format!("ENTRY_BEGIN\nREPLY QR {flags}\nSECTION QUESTION\n{question}\n");
            let mut last = "";
            for line in lines {
                let (section, record) = line.split_once(' ').unwrap();
                let names = [("AN", "ANSWER"), ("AU", "AUTHORITY"), ("AD", "ADDITIONAL")];
                if section != last {
                    text += &format!("SECTION {}\n", names.iter().find(|(word, _)| *word == section).unwrap().1);
                }
                text += &format!("{record}\n");
                last = section;
            }
            text += "ENTRY_END\n";
        }
        text += "RANGE_END\n";
    }
    let name = format!("catlab-scenario-{}-{:?}.rpl", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).unwrap();
    let recorded = read(&path);
    std::fs::remove_file(&path).unwrap();
    build(recorded.messages.iter(), dnssec)
}

/// The records of a zone. Made-up records have a mark.
pub(crate) fn records(built: &Built, apex: &str) -> Vec<String> {
    let zone = built.zones.iter().find(|zone| zone.apex == apex.parse().unwrap());
    let line = |built: &hierarchy::construct::BuiltRecord| {
        let mut text = String::new();
        zone::text::print_record(&built.record, &mut text);
        let mark = if built.made.is_some() { " made" } else { "" };
        text.replace("\tIN\t", " ").replace('\t', " ") + mark
    };
    zone.unwrap_or_else(|| panic!("no zone {apex}")).records.iter().map(line).collect()
}

const PARENT: &str = "NOERROR
    www.child.example. IN A
    AU child.example. 300 IN NS ns.child.example.
    AU child.example. 300 IN NS ns.other.test.
    AD ns.child.example. 300 IN A 192.0.2.53

    AA NXDOMAIN
    none.example. IN A
    AU example. 900 IN SOA ns.example. h.example. 7 1 1 1 900";

const CHILD: &str = "AA NOERROR
    www.child.example. IN A
    AN www.child.example. 60 IN A 192.0.2.80
    AU child.example. 600 IN NS ns.child.example.
    AD ns.child.example. 600 IN A 192.0.2.53";

#[test]
fn parent_and_child_have_their_own_side_of_a_zone_cut() {
    let built = scenario(&[("192.0.2.1", PARENT), ("192.0.2.53", CHILD)], Dnssec::Keep);
    let parent = records(&built, "example.");
    assert!(parent.contains(&"child.example. 300 NS ns.other.test.".to_owned()), "{parent:?}");
    assert!(parent.contains(&"ns.child.example. 300 A 192.0.2.53".to_owned()), "{parent:?}");
    assert!(!parent.iter().any(|line| line.starts_with("www.")), "{parent:?}");
    let child = records(&built, "child.example.");
    assert!(child[0].starts_with("child.example. 3600 SOA ns.child.example. ") && child[0].ends_with(" made"));
    assert!(child.contains(&"child.example. 600 NS ns.child.example.".to_owned()), "{child:?}");
    assert!(child.contains(&"www.child.example. 60 A 192.0.2.80".to_owned()), "{child:?}");
    let servers = |number: usize| built.zones[number].servers.clone();
    assert_eq!(servers(1), ["192.0.2.1".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(servers(2), ["192.0.2.53".parse::<std::net::IpAddr>().unwrap()]);
}

/// A resolver that knew the zones above does not ask them again. They are made up if no server answered for them.
#[test]
fn zones_of_silent_parents_resolve_from_the_root() {
    // The referral to mid.example. was seen, but no answer of its servers.
    let referral = "NOERROR
    www.deep.mid.example. IN A
    AU mid.example. 300 IN NS ns.mid.example.
    AD ns.mid.example. 300 IN A 192.0.2.7

    AA NXDOMAIN
    none.example. IN A
    AU example. 900 IN SOA ns.example. h.example. 7 1 1 1 900";
    let deep = "AA NOERROR
    www.deep.mid.example. IN A
    AN www.deep.mid.example. 60 IN A 192.0.2.80
    AU deep.mid.example. 60 IN NS ns.deep.mid.example.
    AD ns.deep.mid.example. 60 IN A 192.0.2.53";
    let other = "AA NOERROR
    www.other.test. IN A
    AN www.other.test. 60 IN A 192.0.2.81
    AU other.test. 60 IN NS ns.other.test.";
    let built = scenario(&[("192.0.2.1", referral), ("192.0.2.53", deep), ("192.0.2.9", other)], Dnssec::Keep);
    let names: Vec<_> = built.report.zones.iter().map(|zone| (zone.name.as_str(), zone.is_made)).collect();
    let expected = [
        (".", true),
        ("example.", false),
        ("mid.example.", false),
        ("deep.mid.example.", false),
        ("test.", true),
        ("other.test.", false),
    ];
    assert_eq!(names, expected);
    assert!(built.zones[0].records.iter().all(|record| record.made.is_some()), "{:?}", records(&built, "."));
    // From the root on, each server is asked at an address from the referral before it.
    let served = Served::new(&built);
    for (name, address, referrals) in
        [("www.deep.mid.example.", [192, 0, 2, 80], 3), ("www.other.test.", [192, 0, 2, 81], 2)]
    {
        let name: wire::Name = name.parse().unwrap();
        let query = MessageBuilder::query(1, name.as_ref(), Rtype::A).build();
        let mut server: IpAddr = "198.41.0.4".parse().unwrap();
        let mut count = 0;
        loop {
            let bytes = served.ask(server, Transport::Udp, &query).unwrap_or_else(|| panic!("{server} has no server"));
            let message = Message::parse(&bytes).unwrap();
            if let Some(record) = message.records(Section::Answer).flatten().next() {
                assert_eq!((record.rdata(), count), (&address[..], referrals), "{name}");
                break;
            }
            let glue = message.records(Section::Additional).flatten().find(|record| record.rtype == Rtype::A);
            let bytes: [u8; 4] = glue.unwrap_or_else(|| panic!("{server}: no glue")).rdata().try_into().unwrap();
            server = bytes.into();
            count += 1;
            assert!(count < 9, "{name}");
        }
    }
}

#[test]
fn zones_on_the_server_of_their_parent_are_delegated() {
    let both = "AA NOERROR
    www.sub.example. IN A
    AN www.sub.example. 60 IN A 192.0.2.80
    AU sub.example. 60 IN NS ns.sub.example.

    AA NOERROR
    example. IN SOA
    AN example. 60 IN SOA ns.sub.example. h.example. 1 2 3 4 5
    AU example. 60 IN NS ns.sub.example.";
    let built = scenario(&[("192.0.2.1", both)], Dnssec::Keep);
    let parent = records(&built, "example.");
    assert!(parent.contains(&"sub.example. 60 NS ns.sub.example. made".to_owned()), "{parent:?}");
    assert!(parent.contains(&"ns.sub.example. 60 A 192.0.2.1 made".to_owned()), "{parent:?}");
}

#[test]
fn the_first_of_two_answers_is_kept_and_the_other_reported() {
    let one = "AA NOERROR
    www.example. IN A
    AN www.example. 60 IN A 192.0.2.80
    AU example. 60 IN NS ns.example.

    AA NOERROR
    www.example. IN A
    AN www.example. 60 IN A 192.0.2.81
    AU example. 60 IN NS ns.example.

    AA NOERROR
    example. IN NS
    AN example. 30 IN NS ns.example.";
    let built = scenario(&[("192.0.2.1", one)], Dnssec::Keep);
    assert!(records(&built, "example.").contains(&"www.example. 60 A 192.0.2.80".to_owned()));
    let conflicts: Vec<_> =
        built.report.conflicts.first.iter().map(|conflict| (conflict.rrset.as_str(), conflict.what)).collect();
    assert_eq!(conflicts, [("example. NS", "ttl"), ("www.example. A", "records")]);
    let [ns, www] = &built.conflicts[..] else { panic!("{:?}", built.conflicts) };
    // The answer for NS replaced the RRset from authority sections, which had another TTL.
    assert_eq!((ns.kept.ttl, ns.others.len(), ns.others[0].ttl), (Some(30), 1, Some(60)));
    assert_eq!((www.kept.ttl, &www.kept.records[..]), (Some(60), &["192.0.2.80".to_owned()][..]));
    let others: Vec<_> = www.others.iter().map(|other| (&other.records[..], other.messages)).collect();
    assert_eq!(others, [(&["192.0.2.81".to_owned()][..], 1)]);
}

#[test]
fn other_answers_are_listed_up_to_a_limit_and_counted() {
    let answers = OTHER_ANSWERS_MAX + 4;
    let mut script = String::new();
    // The second one comes twice.
    for number in [0, 1].into_iter().chain(1..answers) {
        writeln!(script, "AA NOERROR\n    www.example. IN A\n    AN www.example. 60 IN A 192.0.2.{number}").unwrap();
        writeln!(script, "    AU example. 60 IN NS ns.example.\n").unwrap();
    }
    let built = scenario(&[("192.0.2.1", script.trim_end())], Dnssec::Keep);
    let [www] = &built.conflicts[..] else { panic!("{:?}", built.conflicts) };
    assert_eq!(www.kept.records, ["192.0.2.0"]);
    assert_eq!((www.messages, www.others.len()), (answers as u64, OTHER_ANSWERS_MAX));
    assert_eq!((&www.others[0].records[0][..], www.others[0].messages), ("192.0.2.1", 2));
    assert_eq!(www.others_unlisted, (answers - 1 - OTHER_ANSWERS_MAX) as u64);
}

/// The report has the first ones, and the list has all of them.
#[test]
fn unlisted_conflicts_are_counted() {
    let mut script = String::new();
    for number in 0..FINDINGS_LISTED_MAX + 7 {
        for address in 1..3 {
            writeln!(script, "AA NOERROR\n    n{number}.example. IN A").unwrap();
            writeln!(script, "    AN n{number}.example. 60 IN A 192.0.2.{address}").unwrap();
            writeln!(script, "    AU example. 60 IN NS ns.example.\n").unwrap();
        }
    }
    let built = scenario(&[("192.0.2.1", script.trim_end())], Dnssec::Keep);
    let count = (FINDINGS_LISTED_MAX + 7) as u64;
    assert_eq!((built.conflicts.len() as u64, built.report.conflicts.count), (count, count));
    assert_eq!(built.report.conflicts.first[..], built.conflicts[..FINDINGS_LISTED_MAX]);
}

const SIGNED: &str = "AA DO NOERROR
    a.example. IN TXT
    AN a.example. 60 IN TXT \"any\"
    AN a.example. 60 IN RRSIG TXT 8 1 60 20300101000000 20200101000000 1 example. AAAA
    AU example. 60 IN NS ns.test.

    AA DO NOERROR
    empty.example. IN A
    AU example. 60 IN SOA ns.test. h.example. 1 2 3 4 5
    AU empty.example. 5 IN NSEC z.example. RRSIG NSEC
    AU empty.example. 5 IN RRSIG NSEC 8 2 5 20300101000000 20200101000000 1 example. AAAA

    DO NOERROR
    x.cut.example. IN A
    AU cut.example. 60 IN NS ns.test.
    AU cut.example. 60 IN DS 1 8 1 0123456789012345678901234567890123456789
    AU cut.example. 60 IN RRSIG DS 8 2 60 20300101000000 20200101000000 1 example. AAAA";

#[test]
fn signatures_reveal_wildcards_and_are_kept_or_dropped() {
    let built = scenario(&[("192.0.2.1", SIGNED)], Dnssec::Keep);
    let kept = records(&built, "example.");
    assert!(kept.contains(&"*.example. 60 TXT \"any\"".to_owned()), "{kept:?}");
    assert!(kept.iter().any(|line| line.starts_with("cut.example. 60 DS ")), "{kept:?}");
    assert!(kept.iter().any(|line| line.starts_with("empty.example. 5 NSEC ")), "{kept:?}");
    assert_eq!((built.report.zones[1].name.as_str(), built.report.zones[1].missing_proofs), ("example.", 2));
    let built = scenario(&[("192.0.2.1", SIGNED)], Dnssec::Off);
    let off = records(&built, "example.");
    let is_dnssec = |line: &String| [" RRSIG ", " DS ", " NSEC "].iter().any(|word| line.contains(word));
    assert!(!off.iter().any(is_dnssec), "{off:?}");
}

#[test]
fn a_name_without_records_exists() {
    let denied = "AA NOERROR
    mail.example. IN A
    AU example. 60 IN SOA ns.test. h.example. 1 2 3 4 5

    AA NOERROR
    mail.example. IN TXT
    AU example. 60 IN SOA ns.test. h.example. 1 2 3 4 5

    AA NOERROR
    up.example. IN A
    AU example. 60 IN SOA ns.test. h.example. 1 2 3 4 5

    AA NOERROR
    below.up.example. IN A
    AN below.up.example. 60 IN A 192.0.2.1";
    let built = scenario(&[("192.0.2.1", denied)], Dnssec::Keep);
    let all = records(&built, "example.");
    assert!(all.contains(&"mail.example. 3600 HINFO \"catlab\" \"\" made".to_owned()), "{all:?}");
    assert!(!all.iter().any(|line| line.starts_with("up.example.")), "{all:?}");
}

#[test]
fn invalid_records_are_skipped_and_reported() {
    let mixed = "AA NOERROR
    www.example. IN CNAME
    AN www.example. 60 IN CNAME a.test.
    AU example. 60 IN NS ns.test.

    AA NOERROR
    www.example. IN TXT
    AN www.example. 60 IN TXT \"beside\"
    AU example. 60 IN NS ns.test.";
    let built = scenario(&[("192.0.2.1", mixed)], Dnssec::Keep);
    assert!(!records(&built, "example.").iter().any(|line| line.contains("TXT")));
    assert_eq!(built.report.dropped.count, 1);
    assert_eq!(built.report.dropped.first[0].rrset, "www.example. TXT");
}

#[test]
fn messages_without_zone_data_are_counted_by_reason() {
    let none = "RA NOERROR
    www.example. IN A
    AN www.example. 60 IN A 192.0.2.1

    REFUSED
    www.example. IN A

    NOERROR
    www.example. IN A
    AU . 60 IN NS a.root-servers.net.

    AA NOERROR
    version.bind. CH TXT";
    let built = scenario(&[("192.0.2.1", none)], Dnssec::Keep);
    assert!(built.zones.is_empty());
    let counts: Vec<u64> = built.report.left_out.values().copied().collect();
    assert_eq!((built.report.messages, counts), (4, vec![1, 1, 1, 1]), "{:?}", built.report.left_out);
}

/// A server that adds NS records to answers and sends glue in the order of the name servers.
const GENEROUS: &str = "AA NOERROR
    www.example. IN A
    AN www.example. 60 IN A 192.0.2.80
    AU example. 60 IN NS ns.example.
    AD ns.example. 60 IN A 192.0.2.1

    NOERROR
    x.cut.example. IN A
    AU cut.example. 60 IN NS a.other.example.
    AU cut.example. 60 IN NS b.cut.example.
    AD a.other.example. 60 IN A 192.0.2.3
    AD b.cut.example. 60 IN A 192.0.2.4";

/// A server of the same zone that behaves like ours.
const SPARSE: &str = "AA NOERROR
    www.example. IN A
    AN www.example. 60 IN A 192.0.2.80

    NOERROR
    x.cut.example. IN A
    AU cut.example. 60 IN NS a.other.example.
    AU cut.example. 60 IN NS b.cut.example.
    AD b.cut.example. 60 IN A 192.0.2.4
    AD a.other.example. 60 IN A 192.0.2.3";

#[test]
fn each_server_keeps_its_learned_behavior() {
    let built = scenario(&[("192.0.2.1", GENEROUS), ("192.0.2.2", SPARSE)], Dnssec::Keep);
    let [generous, sparse] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse::<IpAddr>().unwrap());
    let behavior = built.behaviors[&generous];
    assert!(behavior.ns_in_answers && behavior.glue_in_order && !behavior.keeps_what_fits, "{behavior:?}");
    assert!(!built.behaviors.contains_key(&sparse), "{:?}", built.behaviors);
    let served = Served::new(&built);
    let ask = |server, name: &str| {
        let name: wire::Name = name.parse().unwrap();
        let query = MessageBuilder::query(7, name.as_ref(), Rtype::A).build();
        let bytes = served.ask(server, Transport::Udp, &query).unwrap();
        let message = Message::parse(&bytes).unwrap();
        Section::ALL.map(|section| {
            let owners = message.records(section).map(|record| record.unwrap().owner.to_name().to_string());
            owners.collect::<Vec<_>>().join(" ")
        })
    };
    assert_eq!(ask(generous, "www.example."), ["www.example.", "example.", "ns.example."]);
    assert_eq!(ask(sparse, "www.example."), ["www.example.", "", ""]);
    let glue = |server| ask(server, "x.cut.example.")[2].clone();
    assert_eq!(glue(generous), "a.other.example. b.cut.example.");
    assert_eq!(glue(sparse), "b.cut.example. a.other.example.");
}
