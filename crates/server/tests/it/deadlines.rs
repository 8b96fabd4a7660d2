//! Commands against stopped nodes end in time, and report what is known about the outcome.

use crate::support::cluster::{CATAMARAN, Cluster, kill, wait_for};
use crate::support::nodes::{Nodes, cluster_of_nodes};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Continues the stopped processes when dropped, so that they can be ended.
struct Stopped(Vec<u32>);

impl Stopped {
    fn stop(nodes: &Nodes, ids: impl IntoIterator<Item = u64>) -> Self {
        let pids: Vec<u32> = ids.into_iter().map(|id| nodes.pid(id)).collect();
        pids.iter().for_each(|pid| kill("STOP", *pid));
        Self(pids)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.iter().for_each(|pid| kill("CONT", *pid));
    }
}

/// Starts a command with a time limit in seconds.
fn start(cluster: &Cluster, node: u64, timeout: &str, words: &[&str]) -> Child {
    Command::new(CATAMARAN)
        .args(words)
        .args(["--timeout", timeout, "--api", &cluster.api(node).to_string(), "--dir", cluster.dir.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Whether a command has a socket, over TCP or of Unix (proc_pid_fd(5)).
fn has_socket(command: &Child) -> bool {
    let files = std::fs::read_dir(format!("/proc/{}/fd", command.id())).unwrap().flatten();
    let mut targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.any(|target| target.to_string_lossy().starts_with("socket:"))
}

/// Waits for a command; returns its exit code and standard error.
fn end(mut child: Child) -> (Option<i32>, String) {
    wait_for("the end of the command", || child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_change_that_no_majority_takes_has_an_unknown_outcome_in_time() {
    let (cluster, nodes) = cluster_of_nodes("deadlines");
    let queried = nodes.leader(&cluster);
    let others = Stopped::stop(&nodes, cluster.ids().filter(|id| *id != queried));
    let set = ["zone", "set", "example.test", "--serial", "unixtime"];
    // The node runs and receives the change, but cannot complete it.
    let begin = Instant::now();
    let (code, printed) = end(start(&cluster, queried, "15", &set));
    assert_eq!(code, Some(11), "{printed}");
    assert!(printed.contains("error: the outcome is unknown") && printed.contains("no answer in time"), "{printed}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    // The node is stopped after it received the change. It must lead again, because without a majority for a while a
    // node refuses changes at once.
    drop(others);
    cluster.settle();
    let queried = nodes.leader(&cluster);
    let others = Stopped::stop(&nodes, cluster.ids().filter(|id| *id != queried));
    // The first change may be done by now, and then repeating it needs no majority.
    let command = start(&cluster, queried, "15", &["zone", "set", "example.test", "--stale", "expire"]);
    wait_for("the connection of the command", || has_socket(&command).then_some(()));
    std::thread::sleep(Duration::from_millis(1_500));
    let own = Stopped::stop(&nodes, [queried]);
    let (code, printed) = end(command);
    assert_eq!(code, Some(11), "{printed}");
    // A node that is stopped before the command receives nothing.
    for words in [&set[..], &["cluster", "transfer-leader"], &["zone", "list"], &["key", "list"], &["status"]] {
        let begin = Instant::now();
        let mut child = start(&cluster, queried, "3", words);
        wait_for("the end of the command", || child.try_wait().unwrap());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{words:?}: {output:?}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{words:?}: {:?}", begin.elapsed());
    }
    drop((others, own));
    cluster.settle();
}
