//! BIND, Knot and NSD as secondaries: each transfers the zone from a node, and follows its changes.

use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::message::name;
use crate::support::peers::start_peer;
use crate::support::ports::free_ports;
use crate::support::tools::{TsigText, dig, has, nsupdate, transfer};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use testbed::{Kind, Peer, ServedZone, Setup, UpdateKey};
use wire::builder::MessageBuilder;
use wire::number::{Opcode, Rtype};

const KINDS: [Kind; 3] = [Kind::Bind, Kind::Knot, Kind::Nsd];

/// Starts a secondary if it is installed. BIND and Knot use IXFR over TCP, NSD over UDP first. NSD does not refresh
/// often enough by itself, so the test sends NOTIFY.
fn start(kind: Kind, scratch: &Scratch, primary: SocketAddr, key: UpdateKey, port: u16) -> Option<Peer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let zones = vec![ServedZone::new("example.test.", "")];
    let folder = scratch.path().join(kind.label());
    start_peer(kind, &Setup { primary: Some(primary), keys: vec![key], ..Setup::new(folder, address, zones) })
}

/// The serial of the zone on a server.
fn serial(server: SocketAddr) -> Option<u32> {
    dig(server, &["example.test", "SOA", "+short", "+time=1"]).split(' ').nth(2)?.parse().ok()
}

/// Sends NOTIFY (RFC 1996), as an operator's script does while nodes do not send it.
fn notify(server: SocketAddr) {
    let message = MessageBuilder::query(1, name("example.test.").as_ref(), Rtype::SOA)
        .header(|header| (header.opcode, header.aa) = (Opcode(4), true));
    exchange(Transport::Udp, server, &message.build(), Duration::from_millis(300));
}

/// Changes the zone `rounds` times, and checks after each change that the secondaries follow. Changes grow until they
/// are larger than a datagram. `before` is the number of earlier changes. Returns the new number.
fn change_and_follow(cluster: &Cluster, secondaries: &[Peer], before: u32, rounds: u32) -> u32 {
    for round in 0..rounds {
        let changes = before + round;
        if round > 0 {
            let lines: String = (0..round * round * 20)
                .map(|n| {
                    format!("update add n{n}.r{changes}.example.test. 60 TXT \"a text of some length, number {n}\"\n")
                })
                .collect();
            let through = u64::from(round - 1) % 3 + 1;
            let script = format!("zone example.test.\nupdate delete n0.r{}.example.test.\n{lines}", changes - 1);
            nsupdate(cluster.dns(through), &cluster.update_key(), &script).unwrap();
        }
        cluster.settle();
        let wanted = serial(cluster.dns(1)).unwrap();
        assert_eq!(wanted, 1 + changes);
        for Peer { kind, address, .. } in secondaries {
            wait_for(&format!("serial {wanted} on {}", kind.label()), || {
                notify(*address);
                (serial(*address) == Some(wanted)).then_some(())
            });
            let ours = transfer(cluster.dns(2), Some(&cluster.update_key()), "example.test");
            assert_eq!(transfer(*address, None, "example.test"), ours, "{}", kind.label());
        }
    }
    before + rounds - 1
}

#[test]
fn bind_knot_and_nsd_follow_as_secondaries_of_each_node() {
    if !has("dig") || !has("nsupdate") {
        return;
    }
    let cluster = Cluster::start("secondaries", 3, &[]);
    let key = TsigText::of(&cluster.update_key()).update_key();
    let mut changes = 0;
    // Each secondary uses another node in each run. It transfers the whole zone, then follows the changes.
    for (shift, rounds) in [(0, 4), (1, 2), (2, 2)] {
        let scratch = Scratch::new(&format!("secondaries-{shift}"));
        let port = free_ports(3);
        let secondaries: Vec<Peer> = (0..)
            .zip(KINDS)
            .filter_map(|(index, kind)| {
                let node = (u64::from(index) + shift) % cluster.nodes + 1;
                start(kind, &scratch, cluster.dns(node), key.clone(), port + index)
            })
            .collect();
        changes = change_and_follow(&cluster, &secondaries, changes, rounds);
    }
    assert_eq!(cluster.ids().map(|id| cluster.metric(id, "catamaran_panics_total")).sum::<u64>(), 0);
}
