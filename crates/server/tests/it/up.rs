//! `up`: its contract, and its guarantees when nodes die.

use crate::support::cluster::{CATAMARAN, Cluster, PATIENCE, Scratch, kill, wait_for};
use crate::support::dns::{Transport, exchange, exchange_once};
use crate::support::message::name;
use crate::support::tools::{dig, has, nsupdate};
use crate::updates::Stream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wire::Rtype;
use wire::builder::MessageBuilder;

#[test]
fn up_keeps_its_contract() {
    let mut cluster = Cluster::start("contract", 3, &[]);
    let ready = cluster.wait_for_line("ready: ");
    let leader = cluster.leader();
    assert_eq!(ready, format!("ready: 3 nodes, leader {leader}"));
    assert!(cluster.lines().iter().any(|line| line.contains("dig @127.0.0.1 -p")));
    assert!(cluster.lines().iter().any(|line| line.contains("| nsupdate -k ")));

    let json = cluster.cluster_json();
    assert_eq!(json["nodes"].as_array().unwrap().len(), 3);
    for id in cluster.ids() {
        let node = &json["nodes"][id as usize - 1];
        assert_eq!(node["id"], id);
        assert_eq!(node["dns"], cluster.dns(id).to_string());
        assert_eq!(node["api"], cluster.api(id).to_string());
        assert!(std::path::Path::new(&format!("/proc/{}", node["pid"])).exists(), "each node is a process of its own");
        assert_eq!(cluster.status(id).unwrap()["leader"], leader);
    }
    for secret in ["update.key", "api.token"] {
        let mode = std::fs::metadata(cluster.dir.join(secret)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
    }
    if has("dig") && has("nsupdate") {
        contract_with_tools(&cluster);
    }
    let pids: Vec<u32> = cluster.ids().filter_map(|id| cluster.pid(id)).collect();
    assert_eq!(cluster.end("INT"), Some(0), "Ctrl-C is a clean end");
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "no node outlives `up`");
    }
    assert!(cluster.cluster_json()["leader"].is_null());
}

#[test]
fn a_cluster_resumes_without_a_node_that_has_lost_its_data() {
    let mut cluster = Cluster::start("less", 3, &[]);
    cluster.settle();
    assert_eq!(cluster.end("INT"), Some(0));
    let data = cluster.dir.join("node-3/data");
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::create_dir(&data).unwrap();
    cluster.resume(&[]);
    cluster.wait_for_line("ready: 2 nodes");
    // `up` prints which node exited, and why.
    cluster.wait_for_line("node 3 exited");
    cluster.wait_for_line("this node has had data and has voted");
}

/// Every node answers over UDP and TCP, IPv4 and IPv6, on its own port and on the shared one. An update through each
/// node is visible on every node.
fn contract_with_tools(cluster: &Cluster) {
    let shared = std::net::SocketAddr::from(([127, 0, 0, 1], cluster.port));
    let mut addresses: Vec<_> = cluster.ids().map(|id| cluster.dns(id)).chain([shared]).collect();
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        let v6: Vec<std::net::SocketAddr> =
            addresses.iter().map(|address| (std::net::Ipv6Addr::LOCALHOST, address.port()).into()).collect();
        addresses.extend(v6);
    }
    for address in addresses {
        for tcp in ["+notcp", "+tcp"] {
            assert_eq!(dig(address, &["www.example.test", "A", "+short", tcp]).trim(), "192.0.2.80", "{address} {tcp}");
        }
    }
    for through in cluster.ids() {
        let line = format!("zone example.test.\nupdate add through-{through}.example.test. 60 A 192.0.2.{through}");
        nsupdate(cluster.dns(through), &cluster.update_key(), &line).unwrap();
        // The node that acknowledged the update shows it at once, and the others soon.
        let qname = format!("through-{through}.example.test");
        let want = format!("192.0.2.{through}");
        assert_eq!(dig(cluster.dns(through), &[&qname, "A", "+short"]).trim(), want);
        for id in cluster.ids() {
            wait_for("the update on each node", || {
                (dig(cluster.dns(id), &[&qname, "A", "+short"]).trim() == want).then_some(())
            });
        }
    }
    let key = cluster.update_key();
    let transfer = dig(cluster.dns(2), &["-k", key.to_str().unwrap(), "example.test", "AXFR"]);
    assert!(transfer.contains("through-3.example.test.") && transfer.contains("XFR size: 17 records"), "{transfer}");
    assert!(!transfer.contains("Couldn't verify signature"), "{transfer}");
    let refused = dig(cluster.dns(2), &["example.test", "AXFR"]);
    assert!(refused.contains("Transfer failed"), "{refused}");
}

#[test]
fn existing_zones_are_not_changed_and_errors_come_before_anything_is_made() {
    let scratch = Scratch::new("zones");
    let text = "$TTL 60\n@ IN SOA ns h 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\n";
    let file = scratch.file("db", text);
    let mut cluster = Cluster::start("existing", 1, &["--zone", &format!("zone.test={file}")]);
    let list = cluster.run(&["zone", "list"]);
    assert_eq!(String::from_utf8_lossy(&list.stdout), "zone zone.test.: serial 7, 3 records\n");
    assert_eq!(cluster.end("TERM"), Some(0));

    scratch.file("db", &text.replace("192.0.2.53", "192.0.2.54"));
    cluster.resume(&["--zone", &format!("zone.test={file}")]);
    let printed = cluster.wait_for_line("exists and was not changed");
    assert!(printed.contains("zone.test."), "{printed}");
    cluster.wait_for_line(&format!("catamaran zone replace zone.test={file}"));
    let query = MessageBuilder::query(1, name("ns.zone.test.").as_ref(), Rtype::A).build();
    let response = exchange(Transport::Udp, cluster.dns(1), &query, Duration::from_secs(5)).unwrap();
    assert!(response.ends_with(&[192, 0, 2, 53]));
    assert_eq!(cluster.end("TERM"), Some(0));

    let bad = scratch.file("bad", &text.replace("192.0.2.53", "192.0.2.530"));
    let dir = scratch.path().join("never-made");
    let output = Command::new(CATAMARAN)
        .args(["up", "--dir", dir.to_str().unwrap(), "--zone", &format!("zone.test={bad}")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains(&format!("{bad}:4:6: ")), "{printed}");
    assert!(!dir.exists());
}

#[test]
fn a_port_that_is_taken_is_named_and_nothing_is_left_behind() {
    let scratch = Scratch::new("taken");
    let port = crate::support::ports::free_ports(40);
    let taken = std::net::UdpSocket::bind(("127.0.0.1", port + 2)).unwrap();
    let output = Command::new(CATAMARAN)
        .args(["up", "--dir", scratch.path().join("d").to_str().unwrap()])
        .args(["--port", &port.to_string(), "--api-port", &(port + 20).to_string()])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{printed}");
    assert!(printed.contains(&taken.local_addr().unwrap().to_string()) && printed.contains("--port"), "{printed}");
}

#[test]
fn nodes_exit_when_up_exits_for_any_reason() {
    let mut cluster = Cluster::start("orphans", 3, &[]);
    let pids: Vec<u32> = cluster.ids().filter_map(|id| cluster.pid(id)).collect();
    cluster.end("KILL");
    for pid in pids {
        wait_for("the nodes to end", || (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
    }
    cluster.resume(&[]);
    cluster.settle();
}

#[test]
fn a_dead_node_is_reported_and_started_again_only_with_supervise() {
    let mut cluster = Cluster::start("dead", 3, &[]);
    let victim = cluster.leader() % 3 + 1;
    kill("KILL", cluster.pid(victim).unwrap());
    let printed = cluster.wait_for_line(&format!("node {victim} exited (killed by signal 9)"));
    assert!(printed.contains("catamaran serve --config"), "{printed}");
    wait_for("its absence in cluster.json", || cluster.pid(victim).is_none().then_some(()));
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(cluster.pid(victim), None, "the node was restarted");
    assert_eq!(cluster.end("TERM"), Some(0));
    cluster.resume(&["--supervise"]);
    let before = cluster.pid(victim).unwrap();
    kill("KILL", before);
    cluster.wait_for_line(&format!("node {victim} restarted"));
    wait_for("another process", || cluster.pid(victim).filter(|pid| *pid != before));
    cluster.settle();
}

#[test]
fn a_node_that_starts_again_fails_no_query_on_the_shared_port() {
    let cluster = Cluster::start("shared", 3, &["--supervise"]);
    let shared = std::net::SocketAddr::from(([127, 0, 0, 1], cluster.port));
    let query = MessageBuilder::query(1, name("www.example.test.").as_ref(), Rtype::A).build();
    let victim = cluster.leader();
    let before = cluster.pid(victim).unwrap();
    kill("KILL", before);
    let (mut answered, mut lost) = (0, 0);
    let start = Instant::now();
    // Each query uses a new source port, so the kernel may give it to any listening node.
    let mut is_back = false;
    while !is_back || answered < 2_000 {
        match exchange_once(Transport::Udp, shared, &query, Duration::from_secs(5)) {
            Some(response) => {
                assert_eq!(crate::support::message::describe(&query, &response), "NOERROR, question, answer 1");
                answered += 1;
            }
            None => lost += 1,
        }
        is_back = is_back
            || cluster.pid(victim).is_some_and(|pid| pid != before)
                && cluster.status(victim).is_some()
                && cluster.metric(victim, "catamaran_requests_total") > 20;
        assert!(start.elapsed() < PATIENCE, "the node was not restarted, or gets no queries");
    }
    println!("{answered} answered, {lost} lost");
    // These queries were in the dead node's sockets when it died.
    assert!(lost <= 3, "{lost} lost");
}

#[test]
fn kill_9_of_the_leader_under_a_stream_of_updates_loses_nothing() {
    let cluster = Cluster::start("leader", 3, &[]);
    let leader = cluster.leader();
    let survivors: Vec<u64> = cluster.ids().filter(|id| *id != leader).collect();
    let streams: Vec<Stream> = survivors.iter().map(|id| Stream::start(&cluster, *id, &format!("s{id}"))).collect();
    wait_for("acknowledged updates", || streams.iter().all(|stream| stream.acknowledged() >= 50).then_some(()));
    kill("KILL", cluster.pid(leader).unwrap());
    let killed = Instant::now();
    let before: Vec<usize> = streams.iter().map(Stream::acknowledged).collect();
    wait_for("writes to resume", || {
        streams.iter().zip(&before).all(|(stream, before)| stream.acknowledged() >= before + 50).then_some(())
    });
    println!("50 more updates through each survivor {:?} after the kill", killed.elapsed());
    wait_for("a new leader in cluster.json", || (cluster.leader() != leader).then_some(()));
    let names: Vec<String> = streams.into_iter().flat_map(Stream::finish).collect();
    // The dead node comes back and catches up.
    let config = cluster.dir.join(format!("node-{leader}/catamaran.toml"));
    let mut back = Command::new(CATAMARAN)
        .args(["serve", "--config", config.to_str().unwrap()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    cluster.settle();
    crate::updates::assert_on_every_node(&cluster, &names);
    kill("TERM", back.id());
    assert!(back.wait().unwrap().success());
}

#[test]
fn kill_9_of_all_nodes_loses_nothing_that_was_acknowledged() {
    let mut cluster = Cluster::start("all", 3, &[]);
    for round in 0..2 {
        let streams: Vec<Stream> =
            cluster.ids().map(|id| Stream::start(&cluster, id, &format!("r{round}n{id}"))).collect();
        wait_for("acknowledged updates", || streams.iter().all(|stream| stream.acknowledged() >= 50).then_some(()));
        for id in cluster.ids() {
            kill("KILL", cluster.pid(id).unwrap());
        }
        let names: Vec<String> = streams.into_iter().flat_map(Stream::finish).collect();
        cluster.wait_for_line("status: leader none");
        cluster.end("KILL");
        cluster.resume(&[]);
        cluster.settle();
        crate::updates::assert_on_every_node(&cluster, &names);
    }
}
