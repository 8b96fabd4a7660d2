//! A `catlab echo` as a separate process, with its own resources and open files.

use super::program::CATLAB;
use measure::Transport;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The process. It is killed when this is dropped.
pub(crate) struct EchoProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The port that it listens on.
    pub(crate) port: u16,
}

impl EchoProcess {
    /// Starts it over one transport on any port and writes its CA certificate to a file.
    pub(crate) fn start(transport: Transport, ca: &Path) -> Self {
        let mut child = Command::new(CATLAB)
            .args(["echo", "--ports", &format!("{transport}=0"), "--ca-out", &ca.to_string_lossy()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let port = line.rsplit_once(':').unwrap().1.parse().unwrap();
        Self { child, lines, port }
    }

    /// Its PID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops it and returns the queries and connections it counted.
    pub(crate) fn end(mut self) -> (u64, u64) {
        let signalled = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        let line = self.lines.next().unwrap().unwrap();
        assert!(self.child.wait().unwrap().success());
        // `tcp: 40 queries, 4 connections`
        let numbers: Vec<u64> = line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        (numbers[0], numbers[1])
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // After `end`, the process is gone.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}
