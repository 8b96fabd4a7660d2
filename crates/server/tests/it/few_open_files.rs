//! A node that may open no more files keeps running and answering, and takes updates again once it may.

use crate::support::cluster::{Cluster, PATIENCE, wait_for};
use crate::support::dns::{Transport, exchange, framed, read_message};
use crate::support::message::{name, sign};
use crate::support::nodes::{Nodes, log_of};
use crate::support::open_files::{forbid_more_files, limit_open_files};
use crate::updates::{add, rcode};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// Number of large updates that certainly need another segment of the log.
const LARGE_UPDATES_MAX: u16 = 1_000;

#[test]
fn a_node_with_too_many_open_files_answers_queries_and_takes_updates_again() {
    let mut cluster = Cluster::start("few-files", 1, &[]);
    cluster.configure_all("[log]\nscrub_interval_s = 1\n");
    let mut nodes = Nodes::default();
    cluster.end("TERM");
    nodes.start(&cluster, 1);
    cluster.settle();
    let mut stream = TcpStream::connect(cluster.dns(1)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The node closes the connection if the outcome is unknown: the update waits for its log.
    let mut update = |message: &[u8]| {
        stream.write_all(&framed(message)).ok()?;
        Some(rcode(message, &read_message(&mut stream).ok()?))
    };
    let key = cluster.client_key();
    assert_eq!(update(&add(&key, "first.example.test.")), Some(0));

    forbid_more_files(nodes.pid(1));
    let text = [&[250][..], &[b'x'; 250]].concat().repeat(200);
    let complaint = || log_of(&cluster, 1).contains("the node cannot open its files, but keeps answering queries");
    for number in 0..LARGE_UPDATES_MAX {
        let large = MessageBuilder::update(number, name("example.test.").as_ref())
            .add(name(&format!("large-{number}.example.test.")).as_ref(), Rtype::TXT, 60, &text)
            .build();
        let outcome = update(&sign(&key, large, 0));
        assert!(matches!(outcome, Some(0 | 2) | None), "{outcome:?}");
        if outcome != Some(0) || complaint() {
            break;
        }
    }
    wait_for("the node to complain", || complaint().then_some(()));
    assert_eq!(nodes.has_ended(1), None, "{}", log_of(&cluster, 1));
    let query = MessageBuilder::query(1, name("first.example.test.").as_ref(), Rtype::A).build();
    let response = exchange(Transport::Udp, cluster.dns(1), &query, Duration::from_secs(20));
    let response = response.unwrap_or_else(|| panic!("no answer; the log:\n{}", log_of(&cluster, 1)));
    assert_eq!(rcode(&query, &response), 0);

    // Several scrubs cannot open a file either. This is no damage.
    std::thread::sleep(Duration::from_secs(6));
    assert!(!log_of(&cluster, 1).contains("has damaged"), "{}", log_of(&cluster, 1));
    limit_open_files(nodes.pid(1), 4_096);
    let again = add(&key, "again.example.test.");
    wait_for("an update to be done", || {
        let response = exchange(Transport::Udp, cluster.dns(1), &again, PATIENCE)?;
        (rcode(&again, &response) == 0).then_some(())
    });
    wait_for("the log", || log_of(&cluster, 1).contains("writes to the disk succeed again").then_some(()));
    cluster.settle();
    assert_eq!(cluster.metric(1, "catamaran_scrub_damaged_places"), 0);
    nodes.stop(1);
}
