//! A cluster of one node that `cluster restore` or `cluster recover` made.

use super::cluster::{CATAMARAN, Scratch, wait_for};
use super::http;
use super::ports::free_ports;
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};

/// A cluster of one node that `restore` or `recover` made.
pub(crate) struct Restored {
    pub(crate) dir: String,
    pub(crate) dns: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) api: SocketAddr,
    child: Option<Child>,
}

impl Restored {
    pub(crate) fn new(scratch: &Scratch, name: &str) -> Self {
        let port = free_ports(3);
        let [dns, peer, api] = [0, 1, 2].map(|offset| SocketAddr::from(([127, 0, 0, 1], port + offset)));
        let dir = scratch.path().join(name).to_str().unwrap().to_owned();
        Self { dir, dns, peer, api, child: None }
    }

    /// Makes the cluster by `restore` or `recover` with these arguments.
    pub(crate) fn make(&self, words: &[&str]) -> Output {
        Command::new(CATAMARAN)
            .arg("cluster")
            .args(words)
            .args(["--dir", &self.dir, "--dns", &self.dns.to_string()])
            .args(["--peer", &self.peer.to_string(), "--api", &self.api.to_string()])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs the node until it leads.
    pub(crate) fn start(&mut self) {
        let config = format!("{}/node-1/catamaran.toml", self.dir);
        let mut command = Command::new(CATAMARAN);
        command.args(["serve", "--config", &config]).stdin(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        wait_for("it to lead", || {
            let status = http::get(self.api, "/v1/status").ok()?.json()?;
            (status["leader"] == 1 && status["serving"] == "yes").then_some(())
        });
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
