//! Replay scenarios of other projects: the examples of RFC 1034, and raw garbage.

use crate::support::cluster::Cluster;
use crate::support::dns::{SILENCE, Transport, exchange};
use crate::support::http;
use crate::support::message::name;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{Message, Section};
use zone::Record;

fn scenario(file: &str) -> Option<String> {
    let data = std::env::var_os("CATAMARAN_DATA").map_or_else(|| PathBuf::from("../../../shared/data"), PathBuf::from);
    let text = std::fs::read_to_string(data.join("rpl").join(file)).ok();
    if text.is_none() {
        skip::data(file);
    }
    text
}

/// A record in a form that is equal for two servers: no TTL, no class, lower case, no trailing dots, no quotes.
fn words(line: &str) -> String {
    let mut tokens: Vec<String> = line.split_whitespace().map(str::to_ascii_lowercase).collect();
    let is_ttl_or_class = |token: &String| token == "in" || token.bytes().all(|byte| byte.is_ascii_digit());
    while tokens.len() > 2 && is_ttl_or_class(&tokens[1]) {
        tokens.remove(1);
    }
    let plain = |token: &String| token.trim_matches('"').trim_end_matches('.').to_owned();
    tokens.iter().map(plain).collect::<Vec<_>>().join(" ")
}

/// The expected response of a CHECK_ANSWER step.
#[derive(Default, Debug)]
struct Expected {
    reply: String,
    question: String,
    /// Any of these sets matches. A scenario without the section expects nothing about it.
    answers: Vec<BTreeSet<String>>,
    authority: BTreeSet<String>,
    additional: BTreeSet<String>,
}

/// The CHECK_ANSWER steps. Each follows the QUERY with its question.
fn steps(text: &str) -> Vec<Expected> {
    let mut steps: Vec<Expected> = Vec::new();
    let (mut is_check, mut section) = (false, "");
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(';')) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "STEP" => {
                is_check = rest.ends_with("CHECK_ANSWER");
                section = "";
                if is_check {
                    steps.push(Expected { answers: vec![BTreeSet::new()], ..Expected::default() });
                }
            }
            _ if !is_check => {}
            "REPLY" => steps.last_mut().unwrap().reply = rest.to_owned(),
            "SECTION" => section = rest.trim(),
            "EXTRA_PACKET" => steps.last_mut().unwrap().answers.push(BTreeSet::new()),
            "ENTRY_BEGIN" | "ENTRY_END" | "MATCH" | "SCENARIO_END" => {}
            _ => {
                let step = steps.last_mut().unwrap();
                match section {
                    "QUESTION" => step.question = line.to_owned(),
                    "ANSWER" => drop(step.answers.last_mut().unwrap().insert(words(line))),
                    "AUTHORITY" => drop(step.authority.insert(words(line))),
                    "ADDITIONAL" => drop(step.additional.insert(words(line))),
                    other => panic!("section {other}: {line}"),
                }
            }
        }
    }
    steps
}

fn section(message: &Message<'_>, section: Section) -> BTreeSet<String> {
    let records = message.records(section).map(Result::unwrap).filter(|record| record.rtype != Rtype::OPT);
    let printed = records.map(|record| {
        let mut rdata = Vec::new();
        record.rdata_canonical(&mut rdata).unwrap();
        let owner = record.owner.to_name();
        let mut line = String::new();
        let record = Record { owner, rtype: record.rtype, ttl: record.ttl, rdata: rdata.into() };
        zone::text::print_record(&record, &mut line);
        words(&line)
    });
    printed.collect()
}

#[test]
fn the_examples_of_rfc_1034_are_answered_as_it_says() {
    let Some(text) = scenario("stelline-auth_zones.rpl") else { return };
    let zone = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/rfc1034-root.zone");
    let cluster = Cluster::start("rfc1034", 1, &["--zone", zone]);
    let steps = steps(&text);
    assert_eq!(steps.len(), 5);
    for step in &steps {
        let mut question = step.question.split_whitespace();
        let (qname, qtype) = (question.next().unwrap(), question.last().unwrap());
        let qtype = (1..=255).map(Rtype).find(|rtype| rtype.mnemonic() == Some(qtype)).unwrap();
        let query = MessageBuilder::query(7, name(qname).as_ref(), qtype).build();
        for transport in [Transport::Udp, Transport::Tcp] {
            let response = exchange(transport, cluster.dns(1), &query, Duration::from_secs(5)).unwrap();
            let message = Message::parse(&response).unwrap();
            let rcode = message.rcode().mnemonic().unwrap().to_owned();
            assert!(step.reply.split(' ').any(|word| word == rcode), "{rcode}: {step:?}");
            assert_eq!(message.header().aa, step.reply.split(' ').any(|word| word == "AA"), "{step:?}");
            let answer = section(&message, Section::Answer);
            assert!(step.answers.contains(&answer), "{answer:?}: {step:?}");
            assert_eq!(section(&message, Section::Authority), step.authority, "{step:?}");
            // The scenario was written for a server without additional records. The RFC has them.
            let additional = section(&message, Section::Additional);
            assert!(step.additional.is_subset(&additional), "{additional:?}: {step:?}");
        }
    }
}

#[test]
fn raw_garbage_is_answered_or_dropped_and_nothing_crashes() {
    let Some(text) = scenario("iter_badraw.rpl") else { return };
    let raw = text.lines().zip(text.lines().skip(1)).filter(|(before, _)| before.trim() == "RAW");
    let raw: Vec<Vec<u8>> =
        raw.map(|(_, hex)| data_encoding::HEXLOWER_PERMISSIVE.decode(hex.trim().as_bytes()).unwrap()).collect();
    assert!(raw.len() > 1_000, "{}", raw.len());
    let cluster = Cluster::start("garbage", 1, &[]);
    let before = cluster.settle();
    for (index, message) in raw.iter().enumerate() {
        // Only row 1 of the order of answers has no response.
        let is_dropped = message.len() < 12 || message[2] & 0x80 != 0;
        for transport in [Transport::Udp, Transport::Tcp] {
            let wait = if is_dropped { SILENCE / 100 } else { Duration::from_secs(5) };
            let response = exchange(transport, cluster.dns(1), message, wait);
            assert_eq!(response.is_none(), is_dropped, "{index} over {transport:?}: {response:02x?}");
            let Some(response) = response else { continue };
            assert_eq!(response[..2], message[..2], "the ID");
            assert_eq!(response[2] & 0xF8, 0x80 | message[2] & 0x78, "QR, and the opcode");
            assert_ne!(response[3] & 0x0F, 0, "no garbage is NOERROR: {index}");
        }
    }
    assert_eq!(cluster.settle(), before);
    assert_eq!(cluster.metric(1, "catamaran_panics_total"), 0);
    let page = http::get(cluster.api(1), "/metrics").unwrap().text();
    let sum = |family: &str| -> u64 {
        let series = page.lines().filter(|line| line.starts_with(family));
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    assert_eq!(sum("catamaran_requests_total"), sum("catamaran_responses_total") + sum("catamaran_drops_total"));
}
