//! The processes of the nodes.

use super::plan::Plan;
use config::files::layout::NodeLayout;
use process::problem::{Exit, Problem};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Pause before a node is restarted. It doubles each time the node exits soon after its start.
const RESTART_MS: u64 = 500;
/// The longest pause.
const RESTART_MS_MAX: u64 = 8_000;
/// A node that ran for less than this exited early.
const SOON_MS: u64 = 5_000;
/// Bytes of a node's log that are shown when it exits early.
const LOG_TAIL_BYTES: u64 = 2_000;

/// All nodes' processes.
pub(crate) struct Children {
    nodes: Vec<Node>,
    supervise: bool,
    /// Nodes of the cluster, all on this machine.
    count: usize,
}

struct Node {
    id: u64,
    files: NodeLayout,
    child: Option<Child>,
    ended: Option<ExitStatus>,
    /// Whether it has ever exited: after a restart it may exit again.
    has_exited: bool,
    /// It was removed from the cluster, and is not restarted.
    is_removed: bool,
    restart_at: Option<Instant>,
    started_at: Instant,
    /// Pause before the next start.
    pause: Duration,
}

impl Children {
    /// Starts all nodes.
    pub(crate) fn start(plan: &Plan, supervise: bool) -> Result<Self, Problem> {
        let mut children = Self { nodes: Vec::new(), supervise, count: plan.nodes.len() };
        for planned in &plan.nodes {
            let files = plan.layout.node(planned.id);
            let child = spawn(&files, plan.nodes.len()).map_err(|error| {
                Problem::new(Exit::Failed, format!("cannot start node {}", planned.id), error).at(files.dir().display())
            })?;
            children.nodes.push(Node {
                id: planned.id,
                files,
                child: Some(child),
                ended: None,
                has_exited: false,
                is_removed: false,
                restart_at: None,
                started_at: Instant::now(),
                pause: Duration::from_millis(RESTART_MS),
            });
        }
        Ok(children)
    }

    /// Finds nodes that exited, and restarts nodes. Returns a line for each.
    pub(crate) fn poll(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for node in &mut self.nodes {
            let ended = node.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = ended {
                node.child = None;
                node.ended = Some(status);
                node.has_exited = true;
                if status.code() == Some(Exit::Removed as i32) {
                    node.is_removed = true;
                    lines.push(format!("node {} was removed from the cluster", node.id));
                    continue;
                }
                let may_start = self.supervise && !Exit::is_final(status.code());
                lines.push(format!(
                    "node {} exited ({}); {}",
                    node.id,
                    describe(status),
                    node.advice(may_start, status)
                ));
                node.pause = next_pause(node.pause, node.started_at.elapsed());
                node.restart_at = may_start.then(|| Instant::now() + node.pause);
            }
            if node.restart_at.is_some_and(|at| at <= Instant::now()) {
                match spawn(&node.files, self.count) {
                    Ok(child) => {
                        lines.push(format!("node {} restarted (pid {})", node.id, child.id()));
                        (node.child, node.ended, node.restart_at) = (Some(child), None, None);
                        node.started_at = Instant::now();
                    }
                    Err(error) => {
                        lines.push(format!("cannot start node {}: {error}", node.id));
                        node.pause = next_pause(node.pause, Duration::ZERO);
                        node.restart_at = Some(Instant::now() + node.pause);
                    }
                }
            }
        }
        lines
    }

    /// The process of a node, while it runs.
    pub(crate) fn pid(&self, id: u64) -> Option<u32> {
        self.nodes.iter().find(|node| node.id == id)?.child.as_ref().map(Child::id)
    }

    /// Whether a node's process has never exited so far.
    pub(crate) fn never_exited(&self, id: u64) -> bool {
        self.nodes.iter().any(|node| node.id == id && !node.has_exited)
    }

    /// Whether a node exited because it was removed from the cluster.
    pub(crate) fn is_removed(&self, id: u64) -> bool {
        self.nodes.iter().any(|node| node.id == id && node.is_removed)
    }

    /// Nodes that run, or are about to be restarted.
    pub(crate) fn running_count(&self) -> usize {
        self.nodes.iter().filter(|node| node.child.is_some() || node.restart_at.is_some()).count()
    }

    /// An error for a node that exited before the cluster was ready, with the end of its log.
    pub(crate) fn early_exit(&self, plan: &Plan) -> Option<Problem> {
        let node = self.nodes.iter().find(|node| node.ended.is_some() && !node.is_removed)?;
        let files = plan.layout.node(node.id);
        let status = node.ended.map(describe).unwrap_or_default();
        let tail = tail(&files).unwrap_or_default();
        let why = if tail.is_empty() { status } else { format!("{status}; end of its log:\n{tail}") };
        Some(
            Problem::new(Exit::Failed, format!("node {} exited before the cluster was ready", node.id), why)
                .at(files.log().display()),
        )
    }

    /// Stops all nodes. Kills nodes that still run after `limit`.
    pub(crate) fn stop(&mut self, limit: Duration) {
        for node in &mut self.nodes {
            node.restart_at = None;
            // A node stops when its standard input is closed.
            drop(node.child.as_mut().and_then(|child| child.stdin.take()));
        }
        let deadline = Instant::now() + limit;
        for node in &mut self.nodes {
            let Some(mut child) = node.child.take() else { continue };
            while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                if Instant::now() > deadline {
                    process::log::say(format_args!("node {} did not stop in time; killing it", node.id));
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.stop(Duration::from_millis(crate::limits::UP_STOP_MS));
    }
}

impl Node {
    fn advice(&self, supervise: bool, status: ExitStatus) -> String {
        if supervise {
            "restarting it".to_owned()
        } else if Exit::is_final(status.code()) {
            format!("its log says what to do: {}", self.files.log().display())
        } else {
            format!("restart it with: {} serve --config {}", cli::target::program(), self.files.config().display())
        }
    }
}

fn spawn(files: &NodeLayout, count: usize) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(files.log())?;
    Command::new(std::env::current_exe()?)
        .arg("serve")
        .arg("--config")
        .arg(files.config())
        .arg("--stop-with-stdin")
        .arg("--nodes-here")
        .arg(count.to_string())
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Ctrl-C in a terminal goes to the whole process group, but this process stops the nodes.
        .process_group(0)
        .spawn()
}

/// The pause before the next start of a node that ran for `ran`. It grows while the node keeps exiting early, for
/// example on a full disk.
fn next_pause(last: Duration, ran: Duration) -> Duration {
    match ran < Duration::from_millis(SOON_MS) {
        true => (last * 2).min(Duration::from_millis(RESTART_MS_MAX)),
        false => Duration::from_millis(RESTART_MS),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "exited".to_owned(),
    }
}

fn tail(files: &NodeLayout) -> io::Result<String> {
    let mut file = File::open(files.log())?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_while_a_node_exits_early() {
        let (first, soon) = (Duration::from_millis(RESTART_MS), Duration::from_millis(100));
        let mut pause = first;
        for wanted in [1_000, 2_000, 4_000, 8_000, 8_000] {
            pause = next_pause(pause, soon);
            assert_eq!(pause, Duration::from_millis(wanted));
        }
        assert_eq!(next_pause(pause, Duration::from_millis(SOON_MS)), first);
    }
}
