//! A `catlab echo` in a process of its own: what it uses is its own, and so are its open files.

use lab::engine::Transport;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The program under test.
pub(crate) const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");

/// The process; it ends with this value.
pub(crate) struct EchoProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Where it answers.
    pub(crate) port: u16,
}

impl EchoProcess {
    /// Over one transport, on any port; its authority's certificate goes into a file.
    pub(crate) fn start(transport: Transport, ca: &Path) -> Self {
        let mut child = Command::new(CATLAB)
            .args(["echo", "--ports", &format!("{transport}=0"), "--ca-out", &ca.to_string_lossy()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines.next().unwrap().unwrap();
        let port = told.rsplit_once(':').unwrap().1.parse().unwrap();
        Self { child, lines, port }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Queries and connections that it counted until it was asked to end.
    pub(crate) fn end(mut self) -> (u64, u64) {
        let signalled = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        let told = self.lines.next().unwrap().unwrap();
        assert!(self.child.wait().unwrap().success());
        // `tcp: 40 queries, 4 connections`
        let numbers: Vec<u64> = told.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        (numbers[0], numbers[1])
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // After `end` there is none.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}
