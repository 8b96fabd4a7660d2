//! A NATS server and agents, each a separate process.

use report::Run;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A time limit that no test exceeds, even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Creates a command on this machine or in a namespace.
pub(crate) type OnHost<'a> = &'a dyn Fn(&str) -> Command;

/// Creates a command on this machine.
pub(crate) fn here(program: &str) -> Command {
    Command::new(program)
}

/// Waits until `look` returns something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that is killed when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited.
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// `nats-server` with JetStream.
pub(crate) struct Nats {
    _process: Process,
    pub(crate) port: u16,
}

impl Nats {
    /// Starts one on any port; `None`, and a message, if it is not installed.
    pub(crate) fn start(on_host: OnHost<'_>, address: &str, folder: &Path, more: &[&str]) -> Option<Self> {
        if Command::new("nats-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            skip::peer("nats-server");
            return None;
        }
        let mut command = on_host("nats-server");
        command.args(["-js", "-a", address, "-p", "-1", "-sd"]).arg(folder.join("jetstream"));
        command
            .arg("--ports_file_dir")
            .arg(folder)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Process(command.spawn().unwrap());
        let port = until("a port of nats-server", || {
            let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let file = files.find(|path| path.extension().is_some_and(|extension| extension == "ports"))?;
            let ports: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
            ports["nats"][0].as_str()?.rsplit_once(':')?.1.parse().ok()
        });
        Some(Self { _process: process, port })
    }
}

/// `catlab agent`.
pub(crate) struct Agent {
    pub(crate) process: Process,
    lines: Receiver<String>,
}

impl Agent {
    /// Starts one and waits until it is ready for runs.
    pub(crate) fn start(on_host: OnHost<'_>, url: &str, name: &str, spool: &Path, more: &[&str]) -> Self {
        let mut command = on_host(env!("CARGO_BIN_EXE_catlab"));
        command.args(["agent", "--nats", url, "--name", name, "--spool"]).arg(spool).args(more);
        command.env_remove("CATLAB_ALLOW").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let (sender, lines) = channel();
        let out = process.0.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // The receiver may be gone.
                let _sent = sender.send(line);
            }
        });
        let agent = Self { process, lines };
        assert!(agent.line().ends_with("is waiting for runs"));
        agent
    }

    /// The next line that it prints.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).unwrap()
    }
}

/// The run folders that agents sent back, by name.
pub(crate) fn own_runs(out: &Path, names: &[&str]) -> Vec<Run> {
    names.iter().map(|name| Run::read(&out.join("agents").join(name)).unwrap()).collect()
}

/// `summary.json`.
pub(crate) fn summary(out: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(out.join("summary.json")).unwrap()).unwrap()
}

/// Creates a folder inside another one.
pub(crate) fn below(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}
