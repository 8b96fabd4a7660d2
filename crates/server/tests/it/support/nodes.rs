//! The nodes of a cluster that `up` made, each run by the test itself: with `serve`, one by one.

use super::cluster::{CATAMARAN, Cluster, kill, wait_for};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Nodes that run. Those that still do when it is dropped are killed.
#[derive(Default)]
pub(crate) struct Nodes(BTreeMap<u64, Child>);

/// A cluster of three whose nodes the test runs itself.
pub(crate) fn cluster_of_nodes(name: &str) -> (Cluster, Nodes) {
    let mut cluster = Cluster::start(name, 3, &[]);
    let nodes = Nodes::take_over(&mut cluster);
    (cluster, nodes)
}

impl Nodes {
    /// Ends `up`, and runs its nodes; all of them serve when this returns.
    pub(crate) fn take_over(cluster: &mut Cluster) -> Self {
        assert_eq!(cluster.end("TERM"), Some(0));
        let mut nodes = Self::default();
        cluster.ids().for_each(|id| nodes.start(cluster, id));
        cluster.settle();
        nodes
    }

    pub(crate) fn start(&mut self, cluster: &Cluster, id: u64) {
        self.start_with(id, &config(cluster, id));
    }

    pub(crate) fn start_with(&mut self, id: u64, config: &Path) {
        let child = serve(config).stderr(Stdio::null()).spawn().unwrap();
        assert!(self.0.insert(id, child).is_none(), "node {id} runs already");
    }

    /// As [`Nodes::start_with`], with the given standard error for its log.
    pub(crate) fn start_with_stderr(&mut self, id: u64, config: &Path, stderr: Stdio) {
        let child = serve(config).stderr(stderr).spawn().unwrap();
        assert!(self.0.insert(id, child).is_none(), "node {id} runs already");
    }

    /// As [`Nodes::start`], of another build.
    pub(crate) fn start_program(&mut self, cluster: &Cluster, id: u64, program: &Path) {
        let child = serve_program(program, &config(cluster, id)).stderr(Stdio::null()).spawn().unwrap();
        assert!(self.0.insert(id, child).is_none(), "node {id} runs already");
    }

    /// As [`Nodes::start`]; [`said`] has its log.
    pub(crate) fn start_heard(&mut self, cluster: &Cluster, id: u64) {
        self.start_command(cluster, id, serve(&config(cluster, id)));
    }

    /// As [`Nodes::start_heard`]; it panics when it applies an update that adds a record with this in the name of its
    /// owner.
    pub(crate) fn start_to_panic(&mut self, cluster: &Cluster, id: u64, label: &str) {
        let mut command = serve(&config(cluster, id));
        command.env(PANIC_AT, label);
        self.start_command(cluster, id, command);
    }

    /// As [`Nodes::start_heard`], with more arguments.
    pub(crate) fn start_told(&mut self, cluster: &Cluster, id: u64, arguments: &[String]) {
        let mut command = serve(&config(cluster, id));
        command.args(arguments);
        self.start_command(cluster, id, command);
    }

    /// As [`Nodes::start_heard`], with another file mounted over `/etc/hosts`. Needs root.
    pub(crate) fn start_with_hosts(&mut self, cluster: &Cluster, id: u64, hosts: &Path) {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$1\" /etc/hosts && exec \"$2\" serve --config \"$3\"";
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(hosts).arg(CATAMARAN).arg(config(cluster, id));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.start_command(cluster, id, command);
    }

    fn start_command(&mut self, cluster: &Cluster, id: u64, mut command: Command) {
        let child = command.stderr(File::create(file_of_said(cluster, id)).unwrap()).spawn().unwrap();
        assert!(self.0.insert(id, child).is_none(), "node {id} runs already");
    }

    /// Waits until a node has ended by itself; gives how, and what it said if it was to panic.
    pub(crate) fn ended(&mut self, cluster: &Cluster, id: u64) -> (ExitStatus, String) {
        let status = wait_for("the end of the node", || self.0.get_mut(&id).unwrap().try_wait().unwrap());
        self.0.remove(&id);
        (status, said(cluster, id))
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

    /// kill -9, and the process is gone.
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

    /// Who leads, when all that run agree.
    pub(crate) fn leader(&self, cluster: &Cluster) -> u64 {
        wait_for("a leader", || {
            let mut leaders = self.0.keys().map(|id| cluster.status(*id)?["leader"].as_u64());
            let first = leaders.next()??;
            leaders.all(|leader| leader == Some(first)).then_some(first)
        })
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

/// The resident memory of a process.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS:")
}

/// By how much the resident memory of a process has grown at most, at any moment since one.
pub(crate) struct Growth {
    pid: u32,
    pub(crate) before_kib: u64,
}

impl Growth {
    pub(crate) fn start(pid: u32) -> Self {
        // proc_pid_clear_refs(5): the peak begins anew. A kernel without that tells the one since the process began,
        // which is no less.
        let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Self { pid, before_kib: resident_kib(pid) }
    }

    pub(crate) fn peak_kib(&self) -> u64 {
        status_kib(self.pid, "VmHWM:").saturating_sub(self.before_kib)
    }
}

/// A number of bytes that the kernel tells of a process (proc_pid_status(5)).
fn status_kib(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Read by builds with debug assertions alone.
const PANIC_AT: &str = "CATAMARAN_TEST_PANIC_AT";

/// What a node said that is heard, or was to panic.
pub(crate) fn said(cluster: &Cluster, id: u64) -> String {
    std::fs::read_to_string(file_of_said(cluster, id)).unwrap_or_default()
}

fn file_of_said(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir.join(format!("node-{id}/said"))
}

fn serve(config: &Path) -> Command {
    serve_program(Path::new(CATAMARAN), config)
}

fn serve_program(program: &Path, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Starts a node that is to refuse; gives its exit code and what it said.
pub(crate) fn serve_in_vain(cluster: &Cluster, id: u64) -> (Option<i32>, String) {
    let mut child = serve(&config(cluster, id)).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

pub(crate) fn config(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir.join(format!("node-{id}/catamaran.toml"))
}

pub(crate) fn data(cluster: &Cluster, id: u64) -> PathBuf {
    cluster.dir.join(format!("node-{id}/data"))
}
