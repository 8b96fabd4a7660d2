//! Repeats of an update by real clients and by hand, to any node and across the death of the leader: one result, one
//! execution.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{SILENCE, Transport, exchange};
use crate::support::message::{name, sign};
use crate::support::nodes::cluster_of_nodes;
use crate::support::relay::Relay;
use crate::support::tools::{has, update};
use crate::updates::{is_there, rcode, socket};
use std::net::SocketAddr;
use wire::Rtype;
use wire::builder::MessageBuilder;

const SERVFAIL: u8 = 2;

/// Sends these bytes until the result is known. SERVFAIL means that a copy was not accepted, and no response means
/// nothing.
fn outcome(to: SocketAddr, message: &[u8]) -> u8 {
    wait_for("the result of an update", || {
        let result = exchange(Transport::Udp, to, message, SILENCE).map(|response| rcode(message, &response));
        result.filter(|&rcode| rcode != SERVFAIL)
    })
}

fn serial(cluster: &Cluster, id: u64) -> u64 {
    wait_for("a serial", || cluster.status(id)?["zones"][0]["serial"].as_u64())
}

#[test]
fn updates_of_real_clients_have_one_outcome_when_the_leader_dies() {
    const TOOLS: [&str; 2] = ["nsupdate", "knsupdate"];
    if !TOOLS.into_iter().all(has) {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("clients");
    let mut leader = nodes.leader(&cluster);
    for tool in TOOLS {
        let survivors: Vec<u64> = cluster.ids().filter(|&id| id != leader).collect();
        let before = serial(&cluster, survivors[0]);
        let owner = format!("{tool}.example.test.");
        // The leader dies while the client waits for the response of one node. The client's repeat goes to the other.
        let relay = Relay::start(survivors.iter().map(|&id| cluster.dns(id)).collect(), 1);
        let (to, key) = (relay.address, cluster.update_key());
        let script = format!("zone example.test.\nprereq nxdomain {owner}\nupdate add {owner} 60 A 192.0.2.1");
        let client = std::thread::spawn(move || update(tool, to, &key, &script));
        wait_for("the first copy", || is_there(&socket(), cluster.dns(survivors[0]), &owner).then_some(()));
        nodes.kill(leader);
        let result = client.join().unwrap();
        assert!(result.is_ok(), "{tool}: {result:?}");
        let sent = relay.finish();
        assert!(sent.len() >= 2 && sent.iter().all(|(bytes, _)| *bytes == sent[0].0), "{tool} sends the same bytes");

        // The record is deleted through one node, and the old add is repeated to all nodes, including the returned one.
        let delete = format!("zone example.test.\nupdate delete {owner} A");
        let result = update(tool, cluster.dns(survivors[1]), &cluster.update_key(), &delete);
        assert!(result.is_ok(), "{tool}: {result:?}");
        nodes.start(&cluster, leader);
        leader = nodes.leader(&cluster);
        cluster.settle();
        for id in cluster.ids() {
            assert_eq!(outcome(cluster.dns(id), &sent[0].0), 0, "{tool}, node {id}");
            assert!(!is_there(&socket(), cluster.dns(id), &owner), "{tool}, node {id}: it stays deleted");
            assert_eq!(serial(&cluster, id), before + 2, "{tool}, node {id}");
        }
    }
}

#[test]
fn the_same_bytes_to_two_nodes_have_one_outcome_while_the_leader_dies() {
    const COUNT: usize = 200;
    const KILLED_AT: usize = 80;
    let (cluster, mut nodes) = cluster_of_nodes("pairs");
    let leader = nodes.leader(&cluster);
    let survivors: Vec<u64> = cluster.ids().filter(|&id| id != leader).collect();
    let before = serial(&cluster, survivors[0]);
    let key = cluster.client_key();
    let (mut done, socket) = (0, socket());
    for number in 0..COUNT {
        // Every fifth update must fail, because its name is in use. Any other would fail only if executed twice.
        let owner = name(&format!("pair-{}.example.test.", number - usize::from(number % 5 == 4)));
        let message = MessageBuilder::update(number as u16 + 1, name("example.test.").as_ref())
            .name_not_in_use(owner.as_ref())
            .add(owner.as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
            .build();
        let message = sign(&key, message, 0);
        // Until the leader dies, it is sometimes one of the two nodes.
        let mut pair = [survivors[number % 2], survivors[1 - number % 2]];
        if number < KILLED_AT && number % 3 == 0 {
            pair[number % 2] = leader;
        }
        if number == KILLED_AT {
            for id in pair {
                socket.send_to(&message, cluster.dns(id)).unwrap();
            }
            nodes.kill(leader);
        }
        let outcomes = pair.map(|id| outcome(cluster.dns(id), &message));
        assert_eq!(outcomes[0], outcomes[1], "update {number} through {pair:?}");
        let expected = if number % 5 == 4 { 6 } else { 0 };
        assert_eq!(outcomes[0], expected, "update {number}: done twice, or not at all");
        done += u64::from(outcomes[0] == 0);
    }
    nodes.start(&cluster, leader);
    cluster.settle();
    cluster.ids().for_each(|id| assert_eq!(serial(&cluster, id), before + done, "node {id}"));
}
