//! Effects of signals on a node and on `up`.

use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::nodes::{Nodes, config, log_of};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

/// Whether the node keeps a connection open for a while.
fn is_kept(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    match stream.peek(&mut [0]) {
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        Ok(_) => false,
    }
}

#[test]
fn a_node_ignores_user_signals_and_reloads_on_hangup() {
    let mut cluster = Cluster::start("signals", 1, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let mut nodes = Nodes::default();
    nodes.start(&cluster, 1);
    cluster.settle();
    let pid = nodes.pid(1);
    // SIGXFSZ, at the file size limit, must not end the node either: the write returns an error.
    ["USR1", "USR2", "XFSZ", "HUP"].iter().for_each(|signal| kill(signal, pid));
    wait_for("the first reload", || log_of(&cluster, 1).contains("the configuration was reloaded").then_some(()));
    assert_eq!(cluster.status(1).unwrap()["pid"], pid);

    // Limits and the log level change at once. The log names the settings that need a restart.
    let connect = || TcpStream::connect(cluster.dns(1)).unwrap();
    let (first, second) = (connect(), connect());
    assert!(is_kept(&first) && is_kept(&second));
    drop((first, second));
    let text = std::fs::read_to_string(config(&cluster, 1)).unwrap();
    let changed = format!("log_level = \"debug\"\n{text}")
        .replace("connections_per_client_max = ", "#")
        .replace("[dns.tcp]\n", "[dns.tcp]\nconnections_per_client_max = 1\n")
        .replace("idle_ms = 10000", "idle_ms = 10001");
    assert!(changed.contains("connections_per_client_max = 1\n") && changed.contains("idle_ms = 10001"), "{changed}");
    std::fs::write(config(&cluster, 1), &changed).unwrap();
    kill("HUP", pid);
    let expected = "changed=\"dns.tcp.connections_per_client_max, log_level\"";
    wait_for("the second reload", || log_of(&cluster, 1).contains(expected).then_some(()));
    wait_for("what needs a restart", || log_of(&cluster, 1).contains("settings=\"dns.tcp.idle_ms\"").then_some(()));
    wait_for("one connection alone", || {
        let (first, second) = (connect(), connect());
        (is_kept(&first) && !is_kept(&second)).then_some(())
    });

    // A wrong configuration changes nothing.
    std::fs::write(config(&cluster, 1), changed.replace("id = 1", "idd = 1")).unwrap();
    kill("HUP", pid);
    wait_for("the refusal", || log_of(&cluster, 1).contains("cannot reload the configuration").then_some(()));
    assert!(log_of(&cluster, 1).contains("unknown key `idd`"));
    assert_eq!(cluster.status(1).unwrap()["serving"], "yes");
    nodes.stop(1);
}

/// Whether this process ignores SIGHUP, as `nohup` makes it. Programs that it starts ignore it too.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

#[test]
fn up_ignores_user_signals_and_stops_its_nodes_when_its_terminal_is_gone() {
    if is_hangup_ignored() {
        return skip::platform("SIGHUP: this process ignores it (nohup)");
    }
    let mut cluster = Cluster::start("up-signals", 1, &[]);
    let up = cluster.up_pid();
    ["USR1", "USR2"].iter().for_each(|signal| kill(signal, up));
    let node = cluster.pid(1).unwrap();
    assert_eq!(cluster.status(1).unwrap()["pid"], node);
    assert_eq!(cluster.end("HUP"), Some(0));
    assert!(cluster.status(1).is_none());
}
