//! The servers of the root, a top-level domain and a leaf zone are queried directly.

use super::{TIMEOUT, can_make_namespaces, leaf, synthesized};
use crate::support::Folder;
use hierarchy::Folder as Hierarchy;
use hierarchy::serve::Emulation;
use hierarchy::synth::SynthPlan;
use lab::emulation::Emulated;
use links::Pair;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{Message, Section};
use wire::{Name, Rcode};

/// A pair of namespaces with a hierarchy.
struct Served {
    pair: Pair,
    emulated: Emulated,
    emulation: Emulation,
}

impl Served {
    fn new(tree: &Path, letter: char) -> Self {
        let emulation = Emulation::load(tree).unwrap();
        let pair = Pair::make(&format!("{letter}{:06}", std::process::id() % 1_000_000)).unwrap();
        let emulators = vec![emulation.emulator(true), emulation.emulator(true)];
        let has_ipv6 = pair.has_ipv6();
        let emulated = pair.all().inside(|| Emulated::start(emulators, has_ipv6)).unwrap();
        Self { pair, emulated, emulation }
    }

    /// Queries over UDP. Only answers from the queried address count.
    fn ask(&self, server: IpAddr, query: &[u8]) -> Vec<u8> {
        let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = self.pair.near().inside(|| {
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect((server, 53))?;
            Ok(socket)
        });
        let socket = socket.unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.send(query).unwrap();
        let mut bytes = vec![0; 65_535];
        let count = socket.recv(&mut bytes).unwrap();
        bytes.truncate(count);
        bytes
    }

    /// Sends the same query twice on one connection.
    fn ask_stream(&self, server: IpAddr, query: &[u8]) -> [Vec<u8>; 2] {
        let mut stream = self.pair.near().inside(|| TcpStream::connect(SocketAddr::new(server, 53))).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let framed = [&(query.len() as u16).to_be_bytes()[..], query].concat();
        // The second query is sent in two parts.
        stream.write_all(&[&framed[..], &framed[..5]].concat()).unwrap();
        let first = read_message(&mut stream);
        stream.write_all(&framed[5..]).unwrap();
        [first, read_message(&mut stream)]
    }
}

fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn query(name: &str, rtype: Rtype) -> Vec<u8> {
    let name: Name = name.parse().unwrap();
    MessageBuilder::query(77, name.as_ref(), rtype).edns(1232, false).build()
}

/// RCODE, AA, and the number of records in the answer and authority sections.
fn shape(bytes: &[u8]) -> (Rcode, bool, [usize; 2]) {
    let message = Message::parse(bytes).unwrap();
    let counts = [Section::Answer, Section::Authority].map(|section| message.records(section).count());
    (message.rcode(), message.header().aa, counts)
}

#[test]
fn root_top_level_domain_and_leaf_answer_like_separate_servers() {
    if !can_make_namespaces() {
        return;
    }
    let folder = Folder::new("hierarchy-apart");
    let tree = synthesized(&folder, SynthPlan { zone_count: 30, ..SynthPlan::default() });
    let served = Served::new(&tree, 'a');
    let (leaf, parent, address) = leaf(&tree);
    let zones = Hierarchy::read(&tree).unwrap().zones;
    let www_query = query(&format!("www.{leaf}"), Rtype::A);
    let referral = (Rcode::NOERROR, false, [0, 2]);
    let positive = (Rcode::NOERROR, true, [1, 0]);
    for (zone, expected) in [(".", referral), (&parent, referral), (&leaf, positive)] {
        let servers = &zones.iter().find(|entry| entry.name == zone).unwrap().servers;
        for &server in servers.iter().filter(|server| server.is_ipv4() || served.pair.has_ipv6()) {
            let answer = served.ask(server, &www_query);
            assert_eq!(shape(&answer), expected, "{zone} at {server}");
            assert_eq!(served.ask(server, &www_query), answer, "the same bytes give the same bytes");
            assert_eq!(served.ask_stream(server, &www_query), [answer.clone(), answer], "over TCP too");
        }
    }
    let positive = served.ask(zones.iter().find(|zone| zone.name == leaf).unwrap().servers[0], &www_query);
    let four: Ipv4Addr = address.parse().unwrap();
    assert!(positive.windows(4).any(|bytes| bytes == four.octets()), "the address of the zone file");
}

#[test]
fn queries_to_unnamed_addresses_are_refused_and_listed() {
    if !can_make_namespaces() {
        return;
    }
    let folder = Folder::new("hierarchy-stranger");
    let tree = synthesized(&folder, SynthPlan { zone_count: 5, ..SynthPlan::default() });
    let served = Served::new(&tree, 'b');
    let refused = (Rcode::REFUSED, false, [0, 0]);
    let mut unnamed_addresses: Vec<IpAddr> = vec!["192.0.2.99".parse().unwrap()];
    if served.pair.has_ipv6() {
        unnamed_addresses.push("2001:db8::99".parse().unwrap());
    }
    for &unnamed in &unnamed_addresses {
        assert_eq!(shape(&served.ask(unnamed, &query("www.t1", Rtype::A))), refused);
        assert_eq!(shape(&served.ask_stream(unnamed, &query("www.t1", Rtype::A))[0]), refused);
    }
    // A former root server address that the folder does not have still answers.
    assert_eq!(shape(&served.ask("128.9.0.107".parse().unwrap(), &query(".", Rtype::SOA))).2, [1, 0]);
    let tally = served.emulated.tally();
    assert_eq!(tally.unnamed_addresses.keys().copied().collect::<Vec<_>>(), unnamed_addresses);
    assert!(tally.unnamed_addresses.values().all(|unnamed| unnamed.count == 3 && unnamed.rtype == Rtype::A));
    assert_eq!(tally.stream_count, 2 * unnamed_addresses.len() as u64);
    assert!(served.emulation.directory().server_count() >= 26);
    assert_eq!(served.emulated.finish().unwrap().query_count(), 3 * unnamed_addresses.len() as u64 + 1);
}
