//! Replay scenarios: queries with their expected answers, and raw bytes that a server must survive.

use crate::support::{Folder, data, root_zone, skip_unless_installed};
use compare::query::Query;
use compare::recorded::{self, Recorded};
use compare::response::{Reaction, Response, Rr, flag};
use compare::run::{Collected, Plan};
use compare::{Tally, ask_all};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use testbed::{Kind, Peer, ServedZone, Setup, free_address, start};
use trace::Transport;
use wire::builder::MessageBuilder;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use zone::text::{scan_rdata_text, scan_rtype};

/// One step of a scenario: a query, and the allowed responses.
#[derive(Default)]
struct Entry {
    is_query: bool,
    reply: Vec<String>,
    question: Option<(Name, Rtype)>,
    /// Sections of each allowed response, by name.
    packets: Vec<BTreeMap<String, Vec<Expected>>>,
}

/// An RR in a scenario. The TTL is compared if given.
struct Expected {
    owner: Vec<u8>,
    ttl: Option<u32>,
    rtype: Rtype,
    rdata: Vec<u8>,
}

impl Expected {
    fn is(&self, rr: &Rr) -> bool {
        self.owner == rr.owner
            && self.rtype == rr.rtype
            && self.ttl.is_none_or(|ttl| ttl == rr.ttl)
            && self.rdata.eq_ignore_ascii_case(&rr.rdata)
    }
}

fn rr(line: &str) -> Expected {
    let mut words = line.split_whitespace().peekable();
    let owner: Name = words.next().unwrap().parse().unwrap();
    let ttl = words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let _class = words.next_if(|word| *word == "IN");
    let rtype = scan_rtype(words.next().unwrap().as_bytes()).unwrap();
    let rdata = words.collect::<Vec<_>>().join(" ");
    let root: Name = ".".parse().unwrap();
    let rdata = scan_rdata_text(rtype, rdata.as_bytes(), Some(root.as_ref())).unwrap();
    Expected { owner: owner.as_bytes().to_ascii_lowercase(), ttl: ttl.map(|ttl| ttl.parse().unwrap()), rtype, rdata }
}

/// Reads the steps of a scenario.
fn scenario(text: &str) -> Vec<Entry> {
    let (mut entries, mut entry, mut section) = (Vec::new(), Entry::default(), String::new());
    let lines = text.lines().map(|line| line.split(';').next().unwrap_or_default().trim());
    for line in lines.skip_while(|line| !line.starts_with("SCENARIO_BEGIN")).filter(|line| !line.is_empty()) {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match first {
            "STEP" => entry = Entry { is_query: rest.ends_with("QUERY"), ..Entry::default() },
            "ENTRY_BEGIN" | "EXTRA_PACKET" => {
                entry.packets.push(BTreeMap::new());
                if first == "EXTRA_PACKET" {
                    section = "ANSWER".into();
                }
            }
            "REPLY" => entry.reply = rest.split_whitespace().map(str::to_owned).collect(),
            "SECTION" => section = rest.trim().into(),
            "ENTRY_END" => entries.push(std::mem::take(&mut entry)),
            "SCENARIO_BEGIN" | "SCENARIO_END" | "MATCH" => {}
            _ if section == "QUESTION" => {
                let words: Vec<&str> = line.split_whitespace().collect();
                let qtype = if words[2] == "ANY" { Rtype::ANY } else { scan_rtype(words[2].as_bytes()).unwrap() };
                entry.question = Some((words[0].parse().unwrap(), qtype));
            }
            _ => entry.packets.last_mut().unwrap().entry(section.clone()).or_default().push(rr(line)),
        }
    }
    entries
}

fn is_section(found: &std::collections::BTreeSet<Rr>, expected: Option<&Vec<Expected>>) -> bool {
    let expected = expected.map_or(&[][..], Vec::as_slice);
    found.len() == expected.len() && expected.iter().all(|expected| found.iter().any(|rr| expected.is(rr)))
}

/// Whether a response is one of the allowed ones. The additional section is compared only if given.
fn is_allowed(response: &Response, entry: &Entry) -> bool {
    let has = |word: &str| entry.reply.iter().any(|reply| reply == word);
    let rcode = if has("NXDOMAIN") { Rcode::NXDOMAIN } else { Rcode::NOERROR };
    response.rcode == rcode
        && response.flags[flag::AA] == has("AA")
        && entry.packets.iter().any(|packet| {
            is_section(&response.answer, packet.get("ANSWER"))
                && is_section(&response.authority, packet.get("AUTHORITY"))
                && packet.get("ADDITIONAL").is_none_or(|expected| is_section(&response.additional, Some(expected)))
        })
}

fn ours(folder: &Folder, zones: Vec<ServedZone>) -> Peer {
    let setup = Setup::new(folder.path().join("ours"), free_address().unwrap(), zones);
    start(Kind::Catamaran, &setup).unwrap()
}

#[test]
fn answers_of_rfc_1034_section_6() {
    let Some(path) = data("rpl/stelline-auth_zones.rpl") else { return };
    if Kind::Catamaran.program().is_none() {
        return skip::peer("catamaran");
    }
    let folder = Folder::new("rfc1034");
    let fixture = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    let zones = [(".", "rfc1034-6-1-root.zone"), ("EDU.", "rfc1034-6-1-edu.zone")];
    let zones = zones.map(|(apex, file)| ServedZone::new(apex, fixture(file)));
    let server = ours(&folder, zones.into());
    let entries = scenario(&std::fs::read_to_string(path).unwrap());
    let mut checked = 0;
    for pair in entries.chunks(2) {
        let [query, answer] = pair else { panic!("a query without an answer") };
        assert!(query.is_query && !answer.is_query);
        let (qname, qtype) = query.question.as_ref().unwrap();
        let bytes = MessageBuilder::query(0, qname.as_ref(), *qtype).build();
        for transport in [Transport::Udp, Transport::Tcp] {
            let queries = [Recorded { transport, bytes: bytes.clone() }];
            let replies = ask_all(server.address, &queries, &AtomicUsize::new(0)).unwrap();
            let Reaction::Response(response) = &replies[0].reaction else {
                panic!("{qname} {qtype:?}: {:?}", replies[0].reaction)
            };
            assert!(is_allowed(response, answer), "{qname} {qtype:?} over {transport:?}: {response:#?}");
            assert_eq!(response.question, Query::parse(&queries[0]).map(|query| question(&query)).unwrap());
        }
        checked += 1;
    }
    assert_eq!(checked, 5);
}

fn question(query: &Query) -> Vec<u8> {
    [&query.qname[..], &query.qtype.0.to_be_bytes(), &query.qclass.0.to_be_bytes()].concat()
}

#[test]
fn garbage_is_survived_counted_and_answered_like_peers() {
    let (Some(trace), Some(zone), false) =
        (data("rpl/iter_badraw.rpl"), data("zones/root-20170821.zone.xz"), skip_unless_installed())
    else {
        return;
    };
    let folder = Folder::new("garbage");
    let mut messages = recorded::read_rpl_raw(&trace).unwrap();
    assert_eq!(messages.len(), 3_091);
    let zones = root_zone(&folder, &zone);

    // Only catamaran gets all of it and counts it.
    let server = ours(&folder, zones.clone());
    let before = metrics(&folder);
    let replies = ask_all(server.address, &messages, &AtomicUsize::new(0)).unwrap();
    let after = metrics(&folder);
    let grown = |name: &str| -> u64 {
        let of = |page: &str| page.lines().filter(|line| line.starts_with(name)).filter_map(value).sum::<u64>();
        of(&after) - of(&before)
    };
    let silent = replies.iter().filter(|reply| reply.reaction == Reaction::Silence).count() as u64;
    let (drops, rejects, responses) =
        (grown("catamaran_drops_total"), grown("catamaran_rejects_total"), grown("catamaran_responses_total"));
    println!(
        "{} messages, {silent} without response; drops +{drops}, rejects +{rejects}, responses +{responses}",
        messages.len()
    );
    let answered = messages.len() as u64 - silent;
    // Queries without an answer are sent three times.
    assert_eq!(drops, 3 * silent);
    assert!(responses >= answered && rejects > 0, "every message is counted");
    assert!(is_alive(&server));
    drop(server);

    if !skip::is_full_run() {
        messages.truncate(400);
    }
    let plan = Plan { ours: Kind::Catamaran, zones, messages: &messages, folder: folder.path(), progress: &|_| () };
    let mut tally = Tally::default();
    Collected::ask(&plan).unwrap().judge(&mut tally, |_, _| ());
    println!("{tally}");
    for (class, cases) in tally.classes() {
        println!("{} unexplained: {class}\n{}", cases.len(), cases[0].text);
    }
    assert_eq!(tally.judged, messages.len() + tally.repeated_over_tcp);
    assert_eq!(tally.unexplained.len(), 0);
}

fn is_alive(server: &Peer) -> bool {
    let root: Name = ".".parse().unwrap();
    let bytes = MessageBuilder::query(0, root.as_ref(), Rtype::SOA).build();
    let queries = [Recorded { transport: Transport::Udp, bytes }];
    let replies = ask_all(server.address, &queries, &AtomicUsize::new(0)).unwrap();
    replies[0]
        .reaction
        .response()
        .is_some_and(|response| response.rcode == Rcode::NOERROR && !response.answer.is_empty())
}

/// The value of a line of `/metrics`.
fn value(line: &str) -> Option<u64> {
    line.rsplit_once(' ')?.1.parse().ok()
}

/// The page `/metrics` of the node that runs in the folder.
fn metrics(folder: &Folder) -> String {
    let cluster = std::fs::read_to_string(folder.path().join("ours/data/cluster.json")).unwrap();
    let cluster: serde_json::Value = serde_json::from_str(&cluster).unwrap();
    let address = cluster["nodes"][0]["api"].as_str().unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    page
}
