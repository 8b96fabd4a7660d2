//! Zones rebuilt from real traffic answer as the recorded servers did.
//!
//! The data is not part of the project. It is in `CATAMARAN_DATA`, or in `../shared/data` beside the workspace. Without
//! it, the tests are skipped and say so.

mod aliases;
mod compare;
mod recorded;
mod scenarios;

use compare::{Tally, compare};
use hierarchy::construct::{Built, Dnssec};
use hierarchy::roots;
use recorded::{Served, build, data, read};
use std::net::IpAddr;
use zone::record::RecordList;

const ROOT_CAPTURE: &str = "captures/lroot-20161006-1354-knot-live.pcap.xz";

/// Checks every zone with our own rules.
fn check(built: &Built) {
    for zone in &built.zones {
        let records: RecordList = zone.records.iter().map(|built| &built.record).collect();
        let loaded = zone::file::from_records(records).unwrap_or_else(|at| panic!("{}: record {at}", zone.apex));
        if let Err(findings) = zone::check::check(loaded) {
            panic!("{}: {findings:?}", zone.apex);
        }
    }
}

fn names(built: &Built) -> Vec<String> {
    built.zones.iter().map(|zone| zone.apex.to_string()).collect()
}

#[test]
fn the_zones_of_the_root_capture_answer_its_queries_as_its_servers_did() {
    let Some(path) = data(ROOT_CAPTURE) else { return };
    let recorded = read(&path);
    assert_eq!(recorded.query_count, 8_267);
    let built = build(recorded.messages.iter(), Dnssec::Keep);
    println!("{} exchanges; zones {:?}", recorded.exchanges.len(), names(&built));
    println!("left out: {:?}", built.report.left_out);
    for zone in &built.report.zones {
        println!("{zone:?}");
    }
    println!("conflicts: {} {:?}", built.report.conflicts.count, built.report.conflicts.first.get(..5));
    check(&built);
    let served = Served::new(&built);
    let mut tally = Tally::default();
    recorded.exchanges.iter().for_each(|exchange| compare(&served, exchange, &mut tally));
    tally.print();
    println!("{:?}", built.behaviors);
    assert!(tally.share() >= 0.9995, "{:.4} %", 100.0 * tally.share());
}

#[test]
fn upstream_messages_of_resolvers_give_zones() {
    // The expected zones and shares of equal answers in percent, with and without the additional section.
    // docs/catlab/zones.md has the shares, rounded down.
    let expected = [
        ("captures/zeek-dns-edns-ecs.pcap", &["netflix.com.", "ripe.net."][..], [72.5, 90.1]),
        ("rpl/world_cz_lidovky_www.rpl", &[".", "cz.", "nic.cz.", "lidovky.cz.", "idnes.cz.", "net."], [54.6, 61.2]),
        ("rpl/world_cz_vutbr_www.rpl", &[".", "cz.", "vutbr.cz.", "ro.vutbr.cz."], [62.2, 90.5]),
        (
            "traces/dnsviz-example-authoritative.json.gz",
            &[".", "com.", "net.", "example.com.", "example.net."],
            [78.9, 88.7],
        ),
    ];
    for (file, apexes, [whole, but_additional]) in expected {
        let Some(path) = data(file) else { continue };
        let recorded = read(&path);
        for dnssec in [Dnssec::Keep, Dnssec::Off] {
            let built = build(recorded.messages.iter(), dnssec);
            let names = names(&built);
            println!("{file}: {names:?}, {:?}", built.report.left_out);
            check(&built);
            for apex in apexes {
                assert!(names.iter().any(|name| name == apex), "{file}: no {apex} in {names:?}");
            }
            assert!(built.zones.iter().all(|zone| !zone.servers.is_empty()));
            if dnssec == Dnssec::Keep {
                let served = Served::new(&built);
                let mut tally = Tally::default();
                recorded.asked_again().iter().for_each(|exchange| compare(&served, exchange, &mut tally));
                tally.print();
                assert!(100.0 * tally.share() >= whole, "{file}");
                assert!(100.0 * tally.share_but_additional() >= but_additional, "{file}");
            }
        }
    }
}

#[test]
fn damaged_messages_still_give_zones() {
    let Some(path) = data("captures/zeek-dns-edns-ecs.pcap") else { return };
    let recorded = read(&path);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..200 {
        let mut messages = recorded.messages.clone();
        for (_, bytes) in &mut messages {
            for _ in 0..draw(4) {
                let at = draw(bytes.len());
                bytes[at] = draw(256) as u8;
            }
            if draw(10) == 0 {
                bytes.truncate(draw(bytes.len()));
            }
        }
        check(&build(messages.iter(), Dnssec::Keep));
    }
}

#[test]
fn the_addresses_of_the_root_are_those_of_its_hints() {
    let Some(path) = data("zones/named.root") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let last = text.lines().filter(|line| !line.starts_with(';')).filter_map(|line| line.split_whitespace().last());
    let mut hints: Vec<IpAddr> = last.filter_map(|word| word.parse().ok()).collect();
    let mut known: Vec<IpAddr> = roots::addresses().collect();
    hints.sort_unstable();
    known.sort_unstable();
    assert_eq!(hints, known);
}
