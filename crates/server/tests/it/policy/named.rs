//! The same rules in `named` and here, a thousand generated updates, the same verdicts.
//!
//! The rules reach the cluster by `policy import`. Each set of rules has its own zone. The zones of some sets are those
//! of the client's addresses, so that tcp-self and 6to4-self can match. Known differences are not generated:
//!
//! * Types of DNSSEC, which no client may write here.
//! * More records than a rule allows for a name. `named` leaves them out silently, and we refuse them (the end of the
//!   test shows that).
//! * A message without any record to judge, such as "delete all" of a name without records, and, in `named`, of a PTR
//!   that does not exist.

use crate::support::cluster::{Cluster, Scratch, text, wait_for};
use crate::support::dns::{framed, read_message, tcp_from};
use crate::support::http;
use crate::support::message::{name, now_s};
use crate::support::ports::free_ports;
use crate::support::tools::has;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use testbed::{Kind, Peer, ServedZone, Setup, UpdateKey, start};
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;
use wire::Rtype;
use wire::builder::MessageBuilder;
use wire::number::{Class, Rcode};
use wire::parse::Section;

const SETS: u8 = 50;
const CASES: usize = 20;

/// SplitMix64: the cases are the same each time.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    fn number(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.number(all.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.number(100) < percent
    }
}

/// One set of rules with its zone, and the names, keys and addresses to test.
pub(super) struct Set {
    pub(super) apex: String,
    pub(super) names: Vec<String>,
    pub(super) keys: Vec<String>,
    pub(super) sources: [Ipv4Addr; 2],
    pub(super) rules: Vec<String>,
}

/// Each set has its own client addresses.
pub(super) fn sources(set: u8) -> [Ipv4Addr; 2] {
    [1, 2].map(|last| Ipv4Addr::new(127, 0, set, last))
}

impl Set {
    fn make(number: u8, draw: &mut Draw) -> Self {
        let (high, low) = (number >> 4, number & 15);
        let apex = match number % 5 {
            3 => format!("{number}.0.127.in-addr.arpa"),
            4 => format!("{low:x}.{high:x}.0.0.f.7.2.0.0.2.ip6.arpa"),
            _ => format!("s{number}.test"),
        };
        let below = ["www", "host", "x.host", "multi", "new", "sub", "a.sub"];
        let mut names: Vec<String> = below.iter().map(|label| format!("{label}.{apex}")).collect();
        names.push(apex.clone());
        match number % 5 {
            3 => names.extend([1, 2].map(|last| format!("{last}.{apex}"))),
            4 => names.extend([1, 2].map(|last| format!("{last}.0.{apex}"))),
            _ => {}
        }
        let keys = vec!["alpha".to_owned(), format!("host.{apex}"), format!("sub.{apex}"), "stranger".to_owned()];
        let mut set = Self { apex, names, keys, sources: sources(number), rules: Vec::new() };
        set.rules = (0..=draw.number(6)).map(|_| set.rule(draw)).collect();
        // Without this rule, most updates would be refused because no rule matches.
        if draw.chance(70) {
            let types = draw.of(&["", "ANY", "A AAAA(30) TXT MX PTR", "ANY(40) SOA"]);
            set.rules.push(format!("grant {} zonesub {types};", draw.of(&["*", "alpha", "*", &set.keys[1]])));
        }
        set
    }

    fn rule(&self, draw: &mut Draw) -> String {
        let is_of_address = !self.apex.ends_with("test") && draw.chance(40);
        let kind = if is_of_address {
            if self.apex.ends_with("in-addr.arpa") { "tcp-self" } else { "6to4-self" }
        } else {
            *draw.of(&["name", "subdomain", "zonesub", "wildcard", "self", "selfsub", "selfwild", "zonesub"])
        };
        let mut identities = vec!["*".to_owned(), format!("*.{}", self.apex), "alpha".to_owned()];
        if is_of_address {
            identities.push(self.names.last().unwrap().clone());
        } else {
            identities.extend_from_slice(&self.keys[..3]);
        }
        let name = match kind {
            "name" | "subdomain" => draw.of(&self.names).to_uppercase(),
            "wildcard" => format!("*.{}", draw.of(&self.names)),
            "zonesub" => String::new(),
            _ => ".".to_owned(),
        };
        let types = ["A", "AAAA(30)", "TXT", "MX(20)", "NS", "SOA", "PTR", "ANY", "TYPE65300", "A(25)", "ANY(40)"];
        let types: Vec<&str> = (0..draw.number(4)).map(|_| *draw.of(&types)).collect();
        let effect = if draw.chance(70) { "grant" } else { "deny" };
        format!("{effect} {} {kind} {name} {};", draw.of(&identities), types.join(" "))
    }

    fn zone_file(&self) -> String {
        "$TTL 300\n@ SOA ns.invalid. h.invalid. 1 3600 900 604800 300\n@ NS ns.invalid.\n@ NS ns2.invalid.\n\
         www A 192.0.2.1\nwww TXT x\nhost A 192.0.2.1\nx.host TXT x\nmulti A 192.0.2.1\nmulti MX 10 mx.invalid.\n\
         multi TXT x\nsub NS ns.invalid.\n"
            .to_owned()
    }
}

/// An update to judge.
pub(super) struct Case {
    pub(super) key: usize,
    pub(super) source: Ipv4Addr,
    pub(super) is_tcp: bool,
    message: Vec<u8>,
    pub(super) words: String,
    /// Name and type if the update is about only one. Then the rules alone decide.
    only: Option<(String, &'static str)>,
}

const TYPES: [(&str, Rtype); 8] = [
    ("A", Rtype::A),
    ("AAAA", Rtype::AAAA),
    ("TXT", Rtype::TXT),
    ("MX", Rtype::MX),
    ("NS", Rtype::NS),
    ("SOA", Rtype::SOA),
    ("PTR", Rtype::PTR),
    ("TYPE65300", Rtype(65_300)),
];

fn rdata(rtype: Rtype, draw: &mut Draw) -> Vec<u8> {
    let last = 1 + draw.number(9) as u8;
    let target = name("t.invalid.");
    match rtype {
        Rtype::A => vec![192, 0, 2, last],
        Rtype::AAAA => [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[last]].concat(),
        Rtype::MX => [&[0, last][..], target.as_bytes()].concat(),
        Rtype::NS | Rtype::PTR => target.as_bytes().to_vec(),
        // A serial that is never newer than the current one: accepted from a client with the permission, and without
        // effect.
        Rtype::SOA => [target.as_bytes(), target.as_bytes(), &[0; 20]].concat(),
        _ => vec![1, b'a' + last],
    }
}

pub(super) fn case(set: &Set, id: u16, draw: &mut Draw) -> Case {
    let mut builder = MessageBuilder::update(id, name(&set.apex).as_ref());
    let mut words = String::new();
    if draw.chance(10) {
        builder = builder.name_in_use(name(&format!("absent.{}", set.apex)).as_ref());
        words += "if absent; ";
    }
    let steps = *draw.of(&[1, 1, 2, 3]);
    let mut only = None;
    for step in 0..steps {
        let owner_text = draw.of(&set.names).clone();
        let owner = name(&owner_text);
        let (type_text, rtype) = *draw.of(&TYPES);
        // The last step has a type: a message needs a record that rules can judge.
        let is_last = step + 1 == steps;
        let kind = match draw.number(if is_last { 3 } else { 4 }) {
            1 | 2 if is_last && rtype == Rtype::PTR => 0,
            kind => kind,
        };
        let value = rdata(rtype, draw);
        builder = match kind {
            0 => builder.add(owner.as_ref(), rtype, 300, &value),
            1 => builder.delete_rrset(owner.as_ref(), rtype),
            2 => builder.record(Section::UPDATE, owner.as_ref(), rtype, Class::NONE, 0, &value),
            _ => builder.delete_name(owner.as_ref()),
        };
        let word = ["add", "delete the RRset", "delete the record", "delete the name"][kind];
        write!(words, "{word} {owner_text} {type_text}; ").unwrap();
        only = (steps == 1).then_some((owner_text, type_text));
    }
    let source = *draw.of(&set.sources);
    Case { key: *draw.of(&[0, 0, 1, 1, 2, 3]), source, is_tcp: draw.chance(50), message: builder.build(), words, only }
}

fn ask(case: &Case, to: SocketAddr, message: &[u8]) -> Rcode {
    let response = wait_for("a response", || {
        let response =
            if case.is_tcp { over_tcp(case.source, to, message) } else { over_udp(case.source, to, message) };
        response.ok()
    });
    Rcode(u16::from(response[3] & 15))
}

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn over_udp(source: Ipv4Addr, to: SocketAddr, message: &[u8]) -> std::io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((source, 0))?;
    socket.set_read_timeout(PATIENCE)?;
    socket.connect(to)?;
    socket.send(message)?;
    let mut bytes = vec![0; 65_535];
    let len = socket.recv(&mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

fn over_tcp(source: Ipv4Addr, to: SocketAddr, message: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = tcp_from(source, to)?;
    stream.set_read_timeout(PATIENCE)?;
    stream.write_all(&framed(message))?;
    read_message(&mut stream)
}

const SECRET: &[u8; 32] = b"of all keys of this test alike..";

/// The settings of `named`, with the zones, keys and rules of all sets.
fn setup(sets: &[Set], scratch: &Scratch) -> Setup {
    let mut names: Vec<&String> = sets.iter().flat_map(|set| &set.keys).collect();
    names.sort();
    names.dedup();
    let keys = names.into_iter().map(|name| UpdateKey { name: name.clone(), secret: SECRET.to_vec() });
    let zone = |set: &Set| ServedZone {
        update_policy: set.rules.clone(),
        ..ServedZone::new(&*set.apex, scratch.file(&set.apex, &set.zone_file()))
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_ports(1)));
    let zones = sets.iter().map(zone).collect();
    Setup { keys: keys.collect(), ..Setup::new(scratch.path().join("named"), address, zones) }
}

/// `named` and the cluster, with the same zones, keys and rules.
pub(super) struct Servers {
    pub(super) cluster: Cluster,
    named: Peer,
    _scratch: Scratch,
}

impl Servers {
    pub(super) fn start(test: &str, sets: &[Set]) -> Self {
        let scratch = Scratch::new(test);
        let named = start(Kind::Bind, &setup(sets, &scratch)).unwrap();
        let config = named.folder().join("named.conf");
        let zones: Vec<String> = sets
            .iter()
            .flat_map(|set| ["--zone".to_owned(), format!("{0}={1}/{0}", set.apex, scratch.path().display())])
            .collect();
        let cluster = Cluster::start(test, 1, &zones.iter().map(String::as_str).collect::<Vec<_>>());
        let secret = data_encoding::BASE64.encode(SECRET);
        for key in sets.iter().flat_map(|set| &set.keys) {
            let body = format!("{{\"name\": \"{key}\", \"algorithm\": \"hmac-sha256\", \"secret\": \"{secret}\"}}");
            let done = http::request(cluster.api(1), "POST", "/v1/keys", Some(&cluster.token()), body.as_bytes());
            let done = done.unwrap();
            assert!([200, 201].contains(&done.status), "{}", done.text());
        }
        let imported = cluster.done(&["policy", "import", config.to_str().unwrap()]);
        assert_eq!(imported.lines().count(), sets.len(), "{imported}");
        Self { cluster, named, _scratch: scratch }
    }

    /// The verdicts of `named` and of the cluster on the same message.
    pub(super) fn ask(&self, set: &Set, case: &Case) -> (Rcode, Rcode) {
        let key = name(&set.keys[case.key]);
        let key = ClientKey::new(key.as_ref(), KeyAlgorithm::HmacSha256, SECRET).unwrap();
        let message = key.sign(case.message.clone(), now_s()).unwrap();
        let theirs = ask(case, self.named.address, &message);
        // SERVFAIL during an election means that the update was not executed. The client sends it again.
        let ours = wait_for("the outcome of an update", || {
            let ours = ask(case, self.cluster.dns(1), &message);
            (ours != Rcode::SERVFAIL || theirs == Rcode::SERVFAIL).then_some(ours)
        });
        (theirs, ours)
    }

    /// The verdict of `policy check`, through the request that the command sends.
    fn check(&self, set: &Set, case: &Case, owner: &str, rtype: &str) -> bool {
        let path = format!(
            "/v1/policy/check?key={}&name={owner}&type={rtype}&source={}&tcp={}",
            set.keys[case.key],
            case.source,
            u8::from(case.is_tcp)
        );
        let said = http::request(self.cluster.api(1), "GET", &path, Some(&self.cluster.token()), b"").unwrap();
        said.json().unwrap_or_else(|| panic!("{}", said.text()))["granted"].as_bool().unwrap()
    }
}

#[test]
fn named_and_we_say_the_same_of_a_thousand_updates() {
    if !has("named") {
        return;
    }
    let mut draw = Draw(2136);
    let sets: Vec<Set> = (0..SETS).map(|number| Set::make(number, &mut draw)).collect();
    let servers = Servers::start("policy-named", &sets);
    let mut counts = BTreeMap::<u16, usize>::new();
    let (mut differ, mut checked) = (Vec::new(), 0);
    for (number, set) in sets.iter().enumerate() {
        for at in 0..CASES {
            let case = case(set, (number * CASES + at) as u16, &mut draw);
            let (theirs, ours) = servers.ask(set, &case);
            *counts.entry(theirs.0).or_default() += 1;
            let (key, rules) = (&set.keys[case.key], set.rules.join(" "));
            let what = format!("{key} from {} tcp {}: {}under {rules}", case.source, case.is_tcp, case.words);
            if theirs != ours {
                differ.push(format!("named {theirs:?}, we {ours:?}: {what}"));
            }
            if let Some((owner, rtype)) = &case.only {
                checked += 1;
                let is_granted = servers.check(set, &case, owner, rtype);
                assert_eq!(is_granted, theirs != Rcode::REFUSED, "named {theirs:?}, we {ours:?}, policy check: {what}");
            }
        }
    }
    assert!(differ.is_empty(), "{} differ, the first: {:#?}", differ.len(), &differ[..differ.len().min(5)]);
    // Both verdicts must be frequent: rules that always give the same one would prove nothing.
    let of = |rcode: Rcode| counts.get(&rcode.0).copied().unwrap_or(0);
    println!("verdicts: {counts:?}, {checked} of them asked of `policy check`");
    assert_eq!(counts.values().sum::<usize>(), 1_000);
    assert!(of(Rcode::NOERROR) >= 200 && of(Rcode::REFUSED) >= 200 && of(Rcode::NXDOMAIN) >= 5, "{counts:?}");
    assert!(checked >= 200, "{checked}");
}

#[test]
fn more_than_a_rule_lets_a_name_have_is_refused_here_and_left_out_by_named() {
    if !has("named") {
        return;
    }
    let apex = "limited.test".to_owned();
    let set = Set {
        names: vec![format!("new.{apex}")],
        keys: vec!["alpha".to_owned()],
        sources: sources(0),
        rules: vec!["grant alpha zonesub A(2);".to_owned()],
        apex,
    };
    let sets = [set];
    let servers = Servers::start("policy-limited", &sets);
    let owner = name(&sets[0].names[0]);
    for (last, theirs, ours) in
        [(1, Rcode::NOERROR, Rcode::NOERROR), (2, Rcode::NOERROR, Rcode::NOERROR), (3, Rcode::NOERROR, Rcode::REFUSED)]
    {
        let builder = MessageBuilder::update(last, name(&sets[0].apex).as_ref());
        let message = builder.add(owner.as_ref(), Rtype::A, 300, &[192, 0, 2, last as u8]).build();
        let source = sets[0].sources[0];
        let case = Case { key: 0, source, is_tcp: false, message, words: String::new(), only: None };
        assert_eq!(servers.ask(&sets[0], &case), (theirs, ours), "{last}");
    }
    // In the end, both have the same records.
    for server in [servers.named.address, servers.cluster.dns(1)] {
        let query = MessageBuilder::query(1, owner.as_ref(), Rtype::A).build();
        let response = over_udp(Ipv4Addr::LOCALHOST, server, &query).unwrap();
        assert_eq!(response[6..8], [0, 2], "{server}");
    }
}

#[test]
fn an_unsupported_rule_stops_an_import_before_it_changes_anything() {
    let scratch = Scratch::new("policy-import");
    let cluster = Cluster::start("policy-import", 1, &[]);
    let config = scratch.file(
        "named.conf",
        "zone \"example.test\" { type primary; update-policy { grant dhcp zonesub A; }; };\n\
         zone \"other.test\" { type primary; update-policy {\n  grant EXAMPLE.ORG krb5-self . A; }; };\n",
    );
    let refused = cluster.run(&["policy", "import", &config]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused).contains(&format!("{config}:3:21")), "{}", text(&refused));
    assert!(cluster.done(&["policy", "show"]).contains("there are no rules"));
    let shown = cluster.done(&["policy", "import", &config, "--zone", "example.test", "--dry-run"]);
    assert!(shown.ends_with("grant \"dhcp.\" zonesub A;\n"), "{shown}");
    assert!(cluster.done(&["policy", "show"]).contains("there are no rules"));
    assert_eq!(
        cluster.done(&["policy", "import", &config, "--zone", "example.test"]),
        "replaced the rules of zone example.test.\n"
    );
    assert!(cluster.done(&["policy", "show", "example.test"]).contains("grant \"dhcp.\" zonesub A;"));
}
