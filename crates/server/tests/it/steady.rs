//! What a packet worker asks of the kernel while it does nothing but answer.

use crate::support::cluster::Cluster;
use crate::support::message::name;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// How long the worker is watched.
const WATCHED: Duration = Duration::from_secs(2);

#[test]
fn a_packet_worker_receives_sends_and_waits_for_more_and_never_for_another_thread() {
    let has_strace = Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !has_strace.is_ok_and(|status| status.success()) {
        println!("skipped: strace is not installed");
        return;
    }
    let cluster = Cluster::start("steady", 1, &[]);
    let pid = cluster.pid(1).unwrap();
    let worker = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .flatten()
        .map(|task| task.path())
        .find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "udp-0"));
    let worker = worker.unwrap().file_name().unwrap().to_string_lossy().into_owned();
    // Several sockets, so that each worker gets some.
    let clients: Vec<UdpSocket> = (0..16).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let query = MessageBuilder::query(1, name("example.test.").as_ref(), Rtype::SOA).build();
    let ask = |lasting: Duration| {
        let until = Instant::now() + lasting;
        let mut answers = 0;
        while Instant::now() < until {
            for client in &clients {
                client.send_to(&query, cluster.dns(1)).unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
            for client in &clients {
                client.set_nonblocking(true).unwrap();
                answers += usize::from(client.recv(&mut [0; 512]).is_ok());
            }
        }
        answers
    };
    assert!(ask(Duration::from_millis(300)) > 0);
    let notes = cluster.dir.join("strace");
    let mut strace = Command::new("strace")
        .args(["-q", "-o", notes.to_str().unwrap(), "-p", &worker])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let answers = ask(WATCHED);
    crate::support::cluster::kill("INT", strace.id());
    let ended = strace.wait().unwrap();
    let text = std::fs::read_to_string(&notes).unwrap_or_default();
    if text.is_empty() {
        println!("skipped: strace may not watch a process here ({ended})");
        return;
    }
    assert!(answers > 100, "{answers}");
    let calls: BTreeSet<&str> = text.lines().filter_map(|line| line.split_once('(').map(|(call, _)| call)).collect();
    // What `poll` becomes when a signal of the watcher interrupts it, and the two that resume it in strace's words.
    let expected = ["poll", "recvmmsg", "sendmmsg", "restart_syscall"];
    let others: Vec<_> = calls.iter().filter(|call| !expected.contains(call)).collect();
    assert!(others.is_empty(), "{others:?} among {} calls", text.lines().count());
    assert!(calls.contains("recvmmsg") && calls.contains("sendmmsg"));
}
