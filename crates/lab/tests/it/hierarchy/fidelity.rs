//! A resolver sends the same queries to one process that emulates all servers as to separate servers: twelve zones,
//! each with an NSD of its own at its own address. Both are captured the same way.
//!
//! Where zones were rebuilt from recorded traffic, the resolver gets the answers that the recorded servers gave.

use super::{CATLAB, can_make_namespaces, catlab, ended, has_program, synthesized, until};
use crate::support::{Folder, data};
use hierarchy::Folder as Hierarchy;
use hierarchy::roots::{addresses, is_root_server};
use hierarchy::serve::Emulation;
use hierarchy::synth::{Families, QUERIES, SynthPlan};
use lab::emulation::Emulated;
use links::{Namespace, Pair, end_with_this_thread};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testbed::{Kind, Peer, ServedZone, Setup, start};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::{Rcode, Rtype};
use wire::parse::{Message, Parsed, parse_request};

/// The suffix of the root servers' names.
const LETTERS: &str = ".root-servers.net.";

/// A query of the resolver: name, type and server. A zone with several addresses is given by its name.
type QueryCounts = BTreeMap<(String, Rtype, String), usize>;

/// A program that is stopped when this is dropped.
struct Started(Child);

impl Started {
    fn new(mut command: Command, log: &Path) -> Self {
        let log = std::fs::File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        end_with_this_thread(&mut command);
        Self(command.spawn().unwrap())
    }

    /// Sends SIGINT and waits for the program to exit.
    fn end(mut self) {
        assert!(Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap().success());
        self.0.wait().unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The servers that answer.
#[expect(dead_code, reason = "held until the test is over")]
enum Servers {
    Emulated(Emulated),
    Apart(Vec<Peer>),
}

/// The zone at each address of the tree. The root is also at today's root server addresses.
fn zones_of_addresses(tree: &Path) -> BTreeMap<IpAddr, String> {
    let zones = Hierarchy::read(tree).unwrap().zones;
    let of = |zone: hierarchy::ZoneEntry| {
        let name = zone.name;
        zone.servers.into_iter().map(move |address| (address, name.clone()))
    };
    zones.into_iter().flat_map(of).collect()
}

/// Starts an NSD for each zone, all in one namespace.
fn servers_apart(folder: &Folder, tree: &Path, all: &Namespace) -> Vec<Peer> {
    let zones = Hierarchy::read(tree).unwrap().zones;
    let start_nsd = |(number, zone): (usize, hierarchy::ZoneEntry)| {
        // The root is also at the root servers' IPv6 addresses: a resolver tries these too.
        let letters = addresses().filter(|address| zone.name == "." && (address.is_ipv4() || has_ipv6()));
        let mut all_addresses: BTreeSet<IpAddr> = zone.servers.iter().copied().chain(letters).collect();
        let first = all_addresses.pop_first().unwrap();
        let mut lines = "server:\n  ip-freebind: yes\n  minimal-responses: no\n".to_owned();
        for address in all_addresses {
            writeln!(lines, "  ip-address: {address}").unwrap();
        }
        let zones = vec![ServedZone::new(zone.name, tree.join(zone.file))];
        let setup =
            Setup { lines, ..Setup::new(folder.path().join(format!("nsd{number}")), (first, 53).into(), zones) };
        all.inside(|| start(Kind::Nsd, &setup).map_err(io::Error::other)).unwrap()
    };
    zones.into_iter().enumerate().map(start_nsd).collect()
}

/// Queries a server or resolver until it answers. Returns the RCODE.
fn ask(near: &Namespace, server: IpAddr, name: &str, rtype: Rtype, recursion_desired: bool) -> Rcode {
    let name: Name = name.parse().unwrap();
    let query = MessageBuilder::query(7, name.as_ref(), rtype).header(|header| header.rd = recursion_desired).build();
    let any = if server.is_ipv4() { "0.0.0.0" } else { "::" };
    let opened = near.inside(|| {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((server, 53))?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        Ok(socket)
    });
    let socket = opened.unwrap();
    let mut bytes = [0; 4_096];
    let mut rcode = None;
    until("an answer", || {
        let count = socket.send(&query).and_then(|_| socket.recv(&mut bytes)).unwrap_or(0);
        rcode = Message::parse(&bytes[..count]).ok().map(|message| message.rcode());
        rcode.is_some()
    });
    rcode.unwrap()
}

/// Lets a resolver answer a tree's questions and captures its queries.
fn walk(folder: &Folder, tree: &Path, families: Families, resolver: &str, is_emulated: bool) -> QueryCounts {
    let kind = if is_emulated { "emulated" } else { "apart" };
    let resolver_folder = folder.path().join(format!("{resolver}-{kind}"));
    let output =
        Command::new(CATLAB).args(["hierarchy", "profile", resolver, "--out"]).arg(&resolver_folder).output().unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    let mut words = words.split_whitespace();
    // Tests that run at the same time in this process need different names.
    let letter = match (resolver, families, is_emulated) {
        ("unbound", Families::V4, true) => 'e',
        ("unbound", Families::V4, false) => 'f',
        ("unbound", _, true) => 'i',
        ("unbound", _, false) => 'j',
        (_, _, true) => 'g',
        (_, _, false) => 'h',
    };
    let pair = Pair::make(&format!("{letter}{:06}", std::process::id() % 1_000_000)).unwrap();

    let emulation = Emulation::load(tree).unwrap();
    let has_ipv6 = pair.has_ipv6();
    let servers = if is_emulated {
        let emulators = vec![emulation.emulator(false)];
        Servers::Emulated(pair.all().inside(|| Emulated::start(emulators, has_ipv6)).unwrap())
    } else {
        Servers::Apart(servers_apart(folder, tree, pair.all()))
    };
    let addresses = zones_of_addresses(tree);
    for (&address, zone) in &addresses {
        assert_eq!(ask(pair.near(), address, zone, Rtype::SOA, false), Rcode::NOERROR, "{zone} at {address}");
    }
    let capture = resolver_folder.join("walk.pcap");
    let dumpcap = capturing(pair.all(), &capture);
    let mut command = pair.near().command(words.next().unwrap());
    command.args(words);
    let running = Started::new(command, &resolver_folder.join("log"));
    let questions = std::fs::read_to_string(tree.join(QUERIES)).unwrap();
    for question in questions.lines() {
        let name = question.strip_suffix(" A").unwrap();
        assert_eq!(ask(pair.near(), "127.0.0.1".parse().unwrap(), name, Rtype::A, true), Rcode::NOERROR, "{name}");
        // Further queries of the resolver follow at once.
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(running);
    std::thread::sleep(Duration::from_secs(1));
    dumpcap.end();
    drop(servers);
    let is_alone = |address: &IpAddr| addresses.values().filter(|zone| **zone == addresses[address]).count() == 1;
    let servers = addresses.keys().map(|address| {
        let server = if is_alone(address) { address.to_string() } else { addresses[address].clone() };
        (*address, server)
    });
    seen(&capture, &servers.collect())
}

/// Starts a capture of the servers' traffic and waits until it runs.
fn capturing(all: &Namespace, file: &PathBuf) -> Started {
    let mut command = all.command("dumpcap");
    command.args(["-q", "-i", "lab0", "-w"]).arg(file);
    let log = file.with_extension("log");
    let started = Started::new(command, &log);
    until("dumpcap captures", || {
        let output = std::fs::read_to_string(&log).unwrap_or_default();
        output.contains("File:") || output.contains("Capturing")
    });
    // dumpcap prints this shortly before it captures.
    std::thread::sleep(Duration::from_millis(500));
    started
}

/// The queries of a capture by name, type and server. All root servers count as one server with one name: which of them
/// a resolver chooses is random.
fn seen(capture: &Path, servers: &BTreeMap<IpAddr, String>) -> QueryCounts {
    let mut reader = trace::open(capture, &trace::Options::default()).unwrap();
    let mut seen = QueryCounts::new();
    while let Some(message) = reader.next().unwrap() {
        if message.is_response() {
            continue;
        }
        let Parsed::Request(request) = parse_request(message.bytes) else { panic!("{message:?}") };
        let question = request.question.unwrap();
        let server = message.destination.ip();
        let server = match is_root_server(server) {
            true => ".".to_owned(),
            // An address outside all zones stands for itself.
            false => servers.get(&server).cloned().unwrap_or_else(|| server.to_string()),
        };
        let name = question.qname.to_string().to_lowercase();
        let name = if name.ends_with(LETTERS) { LETTERS.to_owned() } else { name };
        *seen.entry((name, question.qtype, server)).or_default() += 1;
    }
    seen
}

fn same_from_one_process_as_from_twelve(resolver: &str, program: &str, server_count: usize, families: Families) {
    if !can_make_namespaces() || ![program, "nsd", "dumpcap"].into_iter().all(has_program) {
        return;
    }
    let folder = Folder::new(&format!("hierarchy-fidelity-{resolver}-{families:?}"));
    let plan = SynthPlan { zone_count: 12, server_count, families, ..SynthPlan::default() };
    let tree = synthesized(&folder, plan).canonicalize().unwrap();
    let emulated = walk(&folder, &tree, families, resolver, true);
    let apart = walk(&folder, &tree, families, resolver, false);
    let keys = |seen: &QueryCounts| seen.keys().cloned().collect::<BTreeSet<_>>();
    println!("{resolver} {families:?}: {} queries to one process, {} to NSD", total(&emulated), total(&apart));
    let (emulated, apart) = (keys(&emulated), keys(&apart));
    let only = |one: &BTreeSet<_>, other: &BTreeSet<_>| one.difference(other).cloned().collect::<Vec<_>>();
    assert!(emulated.len() > 12, "{emulated:?}");
    let by_address = |seen: &BTreeSet<(String, Rtype, String)>| {
        seen.iter().filter_map(|(_, _, server)| server.parse::<IpAddr>().ok()).collect::<BTreeSet<_>>().len()
    };
    // Each of the twelve zones except the root has one address and is queried there.
    assert!(server_count > 1 || families == Families::Both || by_address(&emulated) == 11, "{emulated:?}");
    let differences = (only(&emulated, &apart), only(&apart, &emulated));
    assert_eq!(differences, (vec![], vec![]), "{resolver}: queries only to the emulation, queries only to NSD");
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

fn total(seen: &QueryCounts) -> usize {
    seen.values().sum()
}

#[test]
fn unbound_sends_one_process_the_same_queries_as_twelve_servers() {
    same_from_one_process_as_from_twelve("unbound", "unbound", 1, Families::V4);
}

#[test]
fn bind_sends_one_process_the_same_queries_as_twelve_servers() {
    same_from_one_process_as_from_twelve("bind", "named", 1, Families::V4);
}

/// A resolver chooses servers and address families at random, but the zone is always the same.
#[test]
fn unbound_sends_the_same_queries_if_zones_have_two_servers_in_both_families() {
    if has_ipv6() {
        same_from_one_process_as_from_twelve("unbound", "unbound", 2, Families::Both);
    }
}

/// Recorded traffic of resolvers, and probes of servers: the file, how many questions it has, and how many of them have
/// several answers.
const RECORDED: [(&str, u64, u64); 4] = [
    ("captures/zeek-dns-edns-ecs.pcap", 37, 1),
    ("traces/dnsviz-example-authoritative.json.gz", 28, 0),
    ("rpl/world_cz_lidovky_www.rpl", 42, 1),
    ("rpl/world_cz_vutbr_www.rpl", 9, 0),
];

fn answers_as_the_servers_did(resolver: &str, program: &str) {
    if !can_make_namespaces() || !has_program(program) {
        return;
    }
    for (file, questions, several) in RECORDED {
        let Some(trace) = data(file) else { continue };
        let folder = Folder::new(&format!("hierarchy-recorded-{resolver}"));
        let (zones, trace) = (folder.path().join("zones"), trace.to_str().unwrap());
        let output = catlab(&["zones", "build", trace, "--out"]).arg(&zones).output().unwrap();
        let (code, _, error) = ended(&output);
        assert!(zones.join("hierarchy.json").exists(), "{file}: {code} {error}");
        let run =
            ["hierarchy", "run", zones.to_str().unwrap(), "--resolver", resolver, "--compare", trace, "--json", "-"];
        let (code, text, error) = ended(&catlab(&run).output().unwrap());
        let report: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{file}: {error}"));
        let compared = &report["compared"];
        let counts = ["questions", "same", "one_of_several", "as_far", "beyond", "other"];
        let counts = counts.map(|name| compared[name].as_u64().unwrap());
        println!("{resolver}, {file}: {counts:?} {}", compared["left_out"]);
        assert_eq!(counts, [questions, questions - several, several, 0, 0, 0], "{file}: {compared:#}");
        assert_eq!((code, compared["several"].as_array().unwrap().len() as u64), (0, several), "{file}");
    }
}

/// Unbound answers names of localhost itself (RFC 6761 6.3). One other question differs: DS of co.uk, which the
/// recorded server denied instead of referring to uk.
#[test]
fn unbound_answers_like_the_root_server_of_recorded_traffic() {
    // About 5,000 questions in sequence take minutes.
    if !skip::is_full_run() {
        return skip::full("a recorded trace against unbound");
    }
    if !can_make_namespaces() || !has_program("unbound") {
        return;
    }
    let Some(trace) = data("captures/lroot-20161006-1354-knot-live.pcap.xz") else { return };
    let folder = Folder::new("hierarchy-recorded-root");
    let (zones, trace) = (folder.path().join("zones"), trace.to_str().unwrap());
    let (code, _, error) = ended(&catlab(&["zones", "build", trace, "--out"]).arg(&zones).output().unwrap());
    assert_eq!(code, 0, "{error}");
    let run = ["hierarchy", "run", zones.to_str().unwrap(), "--resolver", "unbound", "--compare", trace, "--json", "-"];
    let (_, text, error) = ended(&catlab(&run).output().unwrap());
    let report: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{error}"));
    let compared = &report["compared"];
    let count = |name: &str| compared[name].as_u64().unwrap();
    let others = compared["others"].as_array().unwrap();
    let is_known = |other: &&serde_json::Value| {
        let question = other["question"].as_str().unwrap().to_lowercase();
        question.contains("localhost. ") || question == "co.uk. ds"
    };
    let unknown: Vec<_> = others.iter().filter(|other| !is_known(other)).collect();
    println!("{} questions, {} the same, {} otherwise", count("questions"), count("same"), count("other"));
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert_eq!((count("other"), others.len()), (24, 24), "{compared:#}");
    assert_eq!((count("questions"), count("same")), (5_069, 5_045));
}

#[test]
fn unbound_answers_like_the_servers_of_recorded_traffic() {
    answers_as_the_servers_did("unbound", "unbound");
}

#[test]
fn bind_answers_like_the_servers_of_recorded_traffic() {
    answers_as_the_servers_did("bind", "named");
}

#[test]
fn powerdns_recursor_answers_like_the_servers_of_recorded_traffic() {
    answers_as_the_servers_did("pdns", "pdns_recursor");
}

#[test]
fn knot_resolver_answers_like_the_servers_of_recorded_traffic() {
    answers_as_the_servers_did("knot", "kresd");
}
