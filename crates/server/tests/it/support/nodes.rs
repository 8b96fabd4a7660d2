//! The nodes of a cluster that `up` made, run by the test itself: with `serve`, one by one.

use super::cluster::{CATAMARAN, Cluster, KillOnDrop, STDERR, kill, wait_for};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Running nodes. They are killed when this is dropped.
#[derive(Default)]
pub(crate) struct Nodes(BTreeMap<u64, Child>);

/// A cluster of three whose nodes the test runs itself.
pub(crate) fn cluster_of_nodes(name: &str) -> (Cluster, Nodes) {
    let mut cluster = Cluster::start(name, 3, &[]);
    let nodes = Nodes::take_over(&mut cluster);
    (cluster, nodes)
}

impl Nodes {
    /// Ends `up`, and starts its nodes. All of them serve when this returns.
    pub(crate) fn take_over(cluster: &mut Cluster) -> Self {
        assert_eq!(cluster.end("TERM"), Some(0));
        let mut nodes = Self::default();
        cluster.ids().for_each(|id| nodes.start(cluster, id));
        cluster.settle();
        nodes
    }

    /// Starts a node. Its log is in [`log_of`].
    pub(crate) fn start(&mut self, cluster: &Cluster, id: u64) {
        self.start_command(cluster, id, serve(&config(cluster, id)));
    }

    pub(crate) fn start_with(&mut self, id: u64, config: &Path) {
        let child = serve(config).stderr(Stdio::null()).spawn().unwrap();
        assert!(self.0.insert(id, child).is_none(), "node {id} runs already");
    }

    /// Like [`Nodes::start_with`], with the given standard error for its log.
    pub(crate) fn start_with_stderr(&mut self, id: u64, config: &Path, stderr: Stdio) {
        let child = serve(config).stderr(stderr).spawn().unwrap();
        assert!(self.0.insert(id, child).is_none(), "node {id} runs already");
    }

    /// Like [`Nodes::start`], with another build.
    pub(crate) fn start_program(&mut self, cluster: &Cluster, id: u64, program: &Path) {
        self.start_command(cluster, id, serve_program(program, &config(cluster, id)));
    }

    /// Like [`Nodes::start`]. The node panics when it applies an update that adds a record with this text in its
    /// owner name.
    pub(crate) fn start_to_panic(&mut self, cluster: &Cluster, id: u64, label: &str) {
        let mut command = serve(&config(cluster, id));
        command.env(PANIC_AT, label);
        self.start_command(cluster, id, command);
    }

    /// Like [`Nodes::start`], with more arguments.
    pub(crate) fn start_with_arguments(&mut self, cluster: &Cluster, id: u64, arguments: &[String]) {
        let mut command = serve(&config(cluster, id));
        command.args(arguments);
        self.start_command(cluster, id, command);
    }

    /// Like [`Nodes::start`], with another file mounted over `/etc/hosts`. Needs root.
    pub(crate) fn start_with_hosts(&mut self, cluster: &Cluster, id: u64, hosts: &Path) {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$1\" /etc/hosts && exec \"$2\" serve --config \"$3\"";
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(hosts).arg(CATAMARAN).arg(config(cluster, id));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.start_command(cluster, id, command);
    }

    fn start_command(&mut self, cluster: &Cluster, id: u64, mut command: Command) {
        let child = command.stderr(File::create(log_file(cluster, id)).unwrap()).spawn().unwrap();
        assert!(self.0.insert(id, child).is_none(), "node {id} runs already");
    }

    /// Waits until a node has exited by itself. Returns its exit status, and its output if it was recorded.
    pub(crate) fn ended(&mut self, cluster: &Cluster, id: u64) -> (ExitStatus, String) {
        let status = wait_for("the end of the node", || self.0.get_mut(&id).unwrap().try_wait().unwrap());
        self.0.remove(&id);
        (status, log_of(cluster, id))
    }

    /// The exit status of a node, if it has ended.
    pub(crate) fn has_ended(&mut self, id: u64) -> Option<ExitStatus> {
        let status = self.0.get_mut(&id)?.try_wait().unwrap()?;
        self.0.remove(&id);
        Some(status)
    }

    /// The process of a node that runs.
    pub(crate) fn pid(&self, id: u64) -> u32 {
        self.0[&id].id()
    }

    /// Kills a node with `kill -9`, and waits for its end.
    pub(crate) fn kill(&mut self, id: u64) {
        let mut child = self.0.remove(&id).unwrap();
        kill("KILL", child.id());
        child.wait().unwrap();
    }

    pub(crate) fn stop(&mut self, id: u64) {
        let mut child = self.0.remove(&id).unwrap();
        kill("TERM", child.id());
        assert!(child.wait().unwrap().success());
    }

    /// The leader, once all running nodes agree.
    pub(crate) fn leader(&self, cluster: &Cluster) -> u64 {
        wait_for("a leader", || {
            let mut leaders = self.0.keys().map(|id| cluster.status(*id)?["leader"].as_u64());
            let first = leaders.next()??;
            leaders.all(|leader| leader == Some(first)).then_some(first)
        })
    }

    /// The leader, and its term.
    pub(crate) fn leader_and_term(&self, cluster: &Cluster) -> (u64, u64) {
        let leader = self.leader(cluster);
        (leader, wait_for("its term", || cluster.status(leader)?["term"].as_u64()))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in self.0.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Only builds with debug assertions read it.
const PANIC_AT: &str = "CATAMARAN_TEST_PANIC_AT";

/// The recorded output of a node.
pub(crate) fn log_of(cluster: &Cluster, id: u64) -> String {
    std::fs::read_to_string(log_file(cluster, id)).unwrap_or_default()
}

fn log_file(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir.join(format!("node-{id}/{STDERR}"))
}

fn serve(config: &Path) -> Command {
    serve_program(Path::new(CATAMARAN), config)
}

fn serve_program(program: &Path, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Starts a node that must refuse to run. Returns its exit code and output.
pub(crate) fn serve_refused(cluster: &Cluster, id: u64) -> (Option<i32>, String) {
    serve_refused_unless(cluster, id, || false).expect("the end of the node")
}

/// Like [`serve_refused`]. If `gives_up` returns true before the node has ended, it is killed, and there is no result.
pub(crate) fn serve_refused_unless(
    cluster: &Cluster,
    id: u64,
    mut gives_up: impl FnMut() -> bool,
) -> Option<(Option<i32>, String)> {
    let mut child = KillOnDrop(serve(&config(cluster, id)).stderr(Stdio::piped()).spawn().unwrap());
    let mut stderr = child.0.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut printed = String::new();
        stderr.read_to_string(&mut printed).map(|_| printed).unwrap()
    });
    let status = wait_for("the node to refuse to run", || match child.0.try_wait().unwrap() {
        Some(status) => Some(Some(status)),
        None => gives_up().then_some(None),
    })?;
    Some((status.code(), reader.join().unwrap()))
}

pub(crate) fn config(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir.join(format!("node-{id}/catamaran.toml"))
}

pub(crate) fn data(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir.join(format!("node-{id}/data"))
}
