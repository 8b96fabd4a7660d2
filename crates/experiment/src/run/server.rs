//! A running server of a cell: performs its events, and reads its CPU time and memory.

use super::cell::Context;
use super::hosts::Hosts;
use super::peers::Peers;
use super::process::{self, Identity, Process};
use super::zones::Zones;
use crate::definition::{Action, Node, Resolved};
use crate::results::ServerResult;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;
use testbed::{Nodes, Peer, ZoneChange, spawn_into};

/// Time limit for a signal to take effect.
const EVENT_MAX: Duration = Duration::from_secs(2);
/// Part of the line with which servers report that they read their configuration again.
const RELOAD_WORD: &str = "reload";
/// Time limit for that line.
const RELOAD_MAX: Duration = Duration::from_secs(10);
/// Time limit for a killed process to be gone.
const KILL_MAX: Duration = Duration::from_secs(10);
/// Time limit for a cluster to have a leader.
const LEADER_MAX: Duration = Duration::from_secs(20);

/// A running server. It is stopped on drop.
pub(super) struct Server {
    pub(super) result: ServerResult,
    /// Its variables, such as `address`.
    pub(super) variables: BTreeMap<&'static str, String>,
    /// The command line of each node.
    pub(super) commands: Vec<Vec<String>>,
    program: Program,
    zones: Zones,
    mark: String,
    nodes: Vec<NodeProcess>,
    /// The machine of a net on which each node runs or will run.
    machines: Vec<Option<usize>>,
    /// The node that the last event with `leader` or `follower` was aimed at.
    last: Option<usize>,
    /// CPU seconds of its killed processes.
    cpu_killed: f64,
    /// CPU seconds before the loads started.
    cpu_before: f64,
    memory_bytes: u64,
}

/// The process of a node.
#[derive(Clone, Copy)]
struct NodeProcess {
    root: Identity,
    is_killed: bool,
}

/// The nodes at which an event is aimed, from 0.
pub(super) enum Target {
    /// All nodes.
    All(Vec<usize>),
    /// This one.
    One([usize; 1]),
}

impl Target {
    fn indices(&self) -> &[usize] {
        match self {
            Self::All(indices) => indices,
            Self::One(index) => index,
        }
    }

    /// The node from 1, if the event is aimed at one.
    pub(super) fn node(&self) -> Option<usize> {
        match self {
            Self::All(_) => None,
            Self::One([index]) => Some(index + 1),
        }
    }
}

/// The program of a server.
pub(super) enum Program {
    /// Another server. With several nodes, the first one is the primary of the others.
    Peers(Peers),
    /// Catamaran, with a process for each node.
    Nodes(Box<Nodes>),
    /// The echo server of `catlab`.
    Echo(Echo),
}

/// The echo server of `catlab`.
pub(super) struct Echo {
    pub(super) child: Child,
    pub(super) command: Box<Command>,
    pub(super) output: PathBuf,
}

impl Server {
    /// A server that has started. `roots` has the process of each node that runs, and `machines` the machine of each.
    pub(super) fn new(
        result: ServerResult,
        variables: BTreeMap<&'static str, String>,
        commands: Vec<Vec<String>>,
        (program, zones): (Program, Zones),
        mark: String,
        (roots, machines): (Vec<Identity>, Vec<Option<usize>>),
    ) -> Self {
        let nodes = roots.into_iter().map(|root| NodeProcess { root, is_killed: false }).collect();
        let (last, cpu_killed, cpu_before, memory_bytes) = (None, 0.0, 0.0, 0);
        Self {
            result,
            variables,
            commands,
            program,
            zones,
            mark,
            nodes,
            machines,
            last,
            cpu_killed,
            cpu_before,
            memory_bytes,
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.result.name
    }

    fn roots(&self) -> Vec<Identity> {
        self.nodes.iter().map(|node| node.root).collect()
    }

    fn family(&self) -> Vec<Process> {
        process::family(Some(&self.mark), &self.roots())
    }

    fn cpu(&self) -> f64 {
        self.cpu_killed + cpu_of(&self.family())
    }

    /// Called when the loads start.
    pub(super) fn begin(&mut self) {
        self.cpu_before = self.cpu();
    }

    /// CPU seconds since the loads started, and peak memory in bytes.
    pub(super) fn used(&self) -> (f64, u64) {
        let memory = self.family().iter().map(Process::memory_bytes).sum();
        (self.cpu() - self.cpu_before, self.memory_bytes.max(memory))
    }

    /// The error if a process exited without a kill event.
    pub(super) fn exited(&mut self) -> Option<String> {
        let is_gone = |index: &usize| !self.nodes[*index].is_killed && !self.program.is_running(*index);
        let index = (0..self.nodes.len()).find(is_gone)?;
        let (name, output) = (self.name(), self.program.output_end(index));
        Some(format!("the server {name} exited while the loads ran; its output ends:\n{output}"))
    }

    /// The nodes at which an event is aimed. `None` if there is no such node now.
    pub(super) fn target(&mut self, node: Option<Node>) -> Option<Target> {
        let Some(node) = node else { return Some(Target::All((0..self.nodes.len()).collect())) };
        let index = self.find(node)?;
        if matches!(node, Node::Leader | Node::Follower) {
            self.last = Some(index);
        }
        Some(Target::One([index]))
    }

    /// Performs an event, and observes its effect.
    ///
    /// # Errors
    /// It had no effect. The text says why.
    pub(super) fn act(
        &mut self,
        event: &Resolved,
        target: &Target,
        context: &Context<'_>,
        hosts: &Hosts,
    ) -> Result<(), String> {
        let (indices, zones) = (target.indices(), event.zones.unwrap_or(0));
        let is_stopped = || context.options.is_stopped();
        let is_observed = match event.action {
            Action::RemoveZones => return self.zones.change(&self.program, ZoneChange::Remove, zones, &is_stopped),
            Action::AddZones => return self.zones.change(&self.program, ZoneChange::Add, zones, &is_stopped),
            Action::TransferZones => return self.zones.transfer(&self.program, zones, &is_stopped),
            Action::Join => return self.join(context),
            Action::Reload => return self.reload(indices),
            Action::Kill => self.kill(indices),
            Action::Pause => {
                let before = self.processes(indices);
                let were_running = before.iter().any(|process| process.state != 'T');
                process::send(&before, Signal::SIGSTOP);
                were_running && self.all_are(indices, |state| state == 'T')
            }
            Action::Resume => {
                let before = self.processes(indices);
                let were_paused = !before.is_empty() && before.iter().all(|process| process.state == 'T');
                process::send(&before, Signal::SIGCONT);
                were_paused && self.all_are(indices, |state| state != 'T')
            }
            Action::Restart => indices.iter().all(|index| self.start_again(*index, context)),
            Action::Cut | Action::CutIn | Action::CutOut | Action::Heal => {
                let machines: Option<Vec<usize>> = indices.iter().map(|index| self.machines[*index]).collect();
                machines.is_some_and(|machines| hosts.act(&machines, event.action))
            }
        };
        is_observed.then_some(()).ok_or_else(|| "it had no effect".to_owned())
    }

    /// The index of a node.
    fn find(&self, node: Node) -> Option<usize> {
        let leader = || match &self.program {
            Program::Nodes(nodes) => {
                let mut found = None;
                process::wait_until(LEADER_MAX, || {
                    let is_there = |index: &usize| self.nodes.get(*index).is_some_and(|node| !node.is_killed);
                    found = nodes.leader().filter(is_there);
                    found.is_some()
                });
                found
            }
            _ => Some(0),
        };
        match node {
            Node::Leader => leader(),
            Node::Follower => {
                let leader = leader()?;
                (0..self.nodes.len()).find(|index| *index != leader && !self.nodes[*index].is_killed)
            }
            Node::Same => self.last,
            Node::Number(number) => (number as usize).checked_sub(1).filter(|index| *index < self.nodes.len()),
        }
    }

    /// The processes of these nodes.
    fn processes(&self, indices: &[usize]) -> Vec<Process> {
        if indices.len() == self.nodes.len() {
            return self.family();
        }
        let roots: Vec<_> = indices.iter().map(|index| self.nodes[*index].root).collect();
        process::family(None, &roots)
    }

    fn kill(&mut self, indices: &[usize]) -> bool {
        let before = self.processes(indices);
        (self.cpu_killed, self.memory_bytes) = (self.cpu_killed + cpu_of(&before), self.used().1);
        indices.iter().for_each(|index| self.nodes[*index].is_killed = true);
        let roots: Vec<_> = indices.iter().map(|index| self.nodes[*index].root).collect();
        let mark = (indices.len() == self.nodes.len()).then_some(self.mark.as_str());
        let has_ended = process::end(mark, &roots);
        // A thread in a system call can outlive the main thread for a moment, with the files and ports of the process.
        let are_gone = process::wait_until(KILL_MAX, || indices.iter().all(|index| !self.program.is_running(*index)));
        !before.is_empty() && has_ended && are_gone
    }

    /// Waits until all processes of these nodes are in such a state. Returns whether they are.
    fn all_are(&self, indices: &[usize], is_so: impl Fn(char) -> bool) -> bool {
        process::wait_until(EVENT_MAX, || {
            let processes = self.processes(indices);
            !processes.is_empty() && processes.iter().all(|process| is_so(process.state))
        })
    }

    fn start_again(&mut self, index: usize, context: &Context<'_>) -> bool {
        if self.program.start_again(index).is_err() {
            return false;
        }
        let Some(root) = Identity::of(self.program.pids()[index]) else { return false };
        let is_new = root != self.nodes[index].root;
        self.nodes[index] = NodeProcess { root, is_killed: false };
        is_new && context.record.add_process(root).is_ok()
    }

    /// Starts the next node of those that join later. Waits until it answers.
    fn join(&mut self, context: &Context<'_>) -> Result<(), String> {
        self.program.join()?;
        let started = self.program.pids().get(self.nodes.len()).copied();
        let root = started.and_then(Identity::of).ok_or("the node exited")?;
        self.nodes.push(NodeProcess { root, is_killed: false });
        context.record.add_process(root).map_err(|error| error.to_string())
    }

    /// Sends SIGHUP to the main process of each node, and waits until its output reports the reload.
    fn reload(&self, indices: &[usize]) -> Result<(), String> {
        // An echo has no configuration. It is measured beside the others.
        if matches!(self.program, Program::Echo(_)) {
            return Ok(());
        }
        let output = |index: &usize| fs::read(self.program.output(*index)).unwrap_or_default();
        let before: Vec<usize> = indices.iter().map(|index| output(index).len()).collect();
        let roots: Vec<Identity> = indices.iter().map(|index| self.nodes[*index].root).collect();
        let mut processes = self.processes(indices);
        processes.retain(|process| roots.contains(&process.identity));
        process::send(&processes, Signal::SIGHUP);
        let has_reported = |(index, before): (&usize, &usize)| {
            let output = output(index);
            let new = String::from_utf8_lossy(output.get(*before..).unwrap_or_default());
            new.contains(RELOAD_WORD)
        };
        let seconds = RELOAD_MAX.as_secs();
        process::wait_until(RELOAD_MAX, || indices.iter().zip(&before).all(has_reported))
            .then_some(())
            .ok_or_else(|| format!("the output of a node did not report it within {seconds} s of SIGHUP"))
    }
}

fn cpu_of(processes: &[Process]) -> f64 {
    processes.iter().map(Process::cpu_seconds).sum()
}

impl Drop for Server {
    fn drop(&mut self) {
        // A paused process does not handle SIGTERM.
        process::send(&self.family(), Signal::SIGCONT);
    }
}

impl Program {
    /// The process ID of each node.
    pub(super) fn pids(&self) -> Vec<u32> {
        match self {
            Self::Peers(peers) => peers.running.iter().map(Peer::pid).collect(),
            Self::Nodes(nodes) => (0..nodes.count()).map(|index| nodes.pid(index)).collect(),
            Self::Echo(echo) => vec![echo.child.id()],
        }
    }

    /// The address of its last node, for UDP and TCP. An echo has no zones to ask for.
    pub(super) fn last_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Peers(peers) => peers.running.last().map(|peer| peer.address),
            Self::Nodes(nodes) => nodes.dns_address(nodes.count().checked_sub(1)?),
            Self::Echo(_) => None,
        }
    }

    fn is_running(&mut self, index: usize) -> bool {
        match self {
            Self::Peers(peers) => peers.running[index].is_running(),
            Self::Nodes(nodes) => nodes.is_running(index),
            Self::Echo(echo) => matches!(echo.child.try_wait(), Ok(None)),
        }
    }

    /// Starts the next node of those that join later.
    fn join(&mut self) -> Result<(), String> {
        match self {
            Self::Peers(peers) => peers.join().map_err(|error| error.to_string()),
            Self::Nodes(nodes) => nodes.join().map_err(|error| error.to_string()),
            Self::Echo(_) => Err("an echo has one node".into()),
        }
    }

    /// The file with the output of a node.
    fn output(&self, index: usize) -> PathBuf {
        match self {
            Self::Peers(peers) => peers.running[index].folder().join("output"),
            Self::Nodes(nodes) => nodes.output(index).to_owned(),
            Self::Echo(echo) => echo.output.clone(),
        }
    }

    fn output_end(&self, index: usize) -> String {
        match self {
            Self::Peers(peers) => peers.running[index].output_end(),
            Self::Nodes(nodes) => nodes.output_end(index),
            Self::Echo(echo) => testbed::output_end(&echo.output),
        }
    }

    fn start_again(&mut self, index: usize) -> io::Result<()> {
        match self {
            Self::Peers(peers) => peers.running[index].start_again().map_err(io::Error::other),
            Self::Nodes(nodes) => nodes.start_again(index),
            Self::Echo(echo) => {
                if matches!(echo.child.try_wait(), Ok(None)) {
                    return Err(io::Error::other("it is still running"));
                }
                echo.child = spawn_into(&mut echo.command, &echo.output)?;
                Ok(())
            }
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}
