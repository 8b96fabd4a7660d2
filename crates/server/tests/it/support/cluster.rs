//! A cluster in its own directory, on free ports. It ends with the test, also when the test fails.

use super::http;
use serde_json::Value;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;

/// Time limit of each wait before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Lines of the log of each node that a failed test prints.
const LOG_LINES: usize = 30;

/// The log of a node that the test itself runs, in the folder of the node.
pub(crate) const STDERR: &str = "stderr";

/// The program under test.
pub(crate) const CATAMARAN: &str = env!("CARGO_BIN_EXE_catamaran");

/// A running `up`.
pub(crate) struct Cluster {
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
    pub(crate) api_port: u16,
    pub(crate) nodes: u64,
    /// The program that `up` runs.
    program: PathBuf,
    up: Option<RunningCluster>,
}

struct RunningCluster {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    /// Starts a new cluster and waits until it is ready.
    pub(crate) fn start(name: &str, nodes: u64, arguments: &[&str]) -> Self {
        Self::start_within(PATIENCE, name, nodes, arguments)
    }

    /// Like [`Cluster::start`], with another build.
    pub(crate) fn start_program(name: &str, nodes: u64, program: &Path) -> Self {
        let mut cluster = Self::new(name, nodes);
        cluster.program = program.into();
        cluster.resume(&[]);
        cluster
    }

    /// Like [`Cluster::start`], with zones that take a while to load.
    pub(crate) fn start_within(timeout: Duration, name: &str, nodes: u64, arguments: &[&str]) -> Self {
        let mut cluster = Self::new(name, nodes);
        cluster.resume_within(timeout, arguments);
        cluster
    }

    /// Like [`Cluster::start`], also with DNS over TLS, HTTPS and QUIC.
    pub(crate) fn start_encrypted(name: &str, nodes: u64) -> Self {
        let mut cluster = Self::new(name, nodes);
        cluster.resume_encrypted();
        cluster
    }

    fn new(name: &str, nodes: u64) -> Self {
        let dir = std::env::temp_dir().join(format!("catamaran-it-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let port = super::ports::free_ports(40);
        Self { dir, port, api_port: port + 20, nodes, program: CATAMARAN.into(), up: None }
    }

    /// Starts `up` in the same directory, with DNS over TLS, HTTPS and QUIC.
    pub(crate) fn resume_encrypted(&mut self) {
        let [dot, doh] = [self.port + 10, self.port + 30].map(|port| port.to_string());
        self.resume(&["--dot-port", &dot, "--doh-port", &doh, "--doq-port", &dot]);
    }

    /// Changes the configuration of a stopped node.
    pub(crate) fn configure(&self, id: u64, from: &str, to: &str) {
        let file = self.dir.join(format!("node-{id}/catamaran.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&file, text.replace(from, to)).unwrap();
    }

    /// Adds a table to the configuration of each node. All nodes must be stopped.
    pub(crate) fn configure_all(&self, table: &str) {
        for id in self.ids() {
            let file = self.dir.join(format!("node-{id}/catamaran.toml"));
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, format!("{text}\n{table}")).unwrap();
        }
    }

    /// Starts `up` in the same directory.
    pub(crate) fn resume(&mut self, arguments: &[&str]) {
        self.resume_within(PATIENCE, arguments);
    }

    fn resume_within(&mut self, timeout: Duration, arguments: &[&str]) {
        assert!(self.up.is_none(), "it runs already");
        let mut child = Command::new(&self.program)
            .args(["up", "--dir", self.dir.to_str().unwrap(), "--nodes", &self.nodes.to_string()])
            .args(["--port", &self.port.to_string(), "--api-port", &self.api_port.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (out, theirs) = (child.stdout.take().unwrap(), lines.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                theirs.lock().unwrap().push(line);
            }
        });
        self.up = Some(RunningCluster { child, lines });
        let is_ready = || self.lines().iter().any(|line| line.contains("ready: ")).then_some(());
        wait_within(timeout, "ready: ", is_ready);
    }

    /// Lines that `up` printed so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.up.as_ref().map(|up| up.lines.lock().unwrap().clone()).unwrap_or_default()
    }

    /// Waits for a line that contains this.
    pub(crate) fn wait_for_line(&self, part: &str) -> String {
        wait_for(part, || self.lines().into_iter().find(|line| line.contains(part)))
    }

    /// Ends `up` with a signal and waits for it. Returns its exit code.
    pub(crate) fn end(&mut self, signal: &str) -> Option<i32> {
        let mut up = self.up.take().unwrap();
        kill(signal, up.child.id());
        let start = Instant::now();
        loop {
            if let Some(status) = up.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "`up` did not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process of `up`.
    pub(crate) fn up_pid(&self) -> u32 {
        self.up.as_ref().unwrap().child.id()
    }

    /// The address of node `id`, from 1.
    pub(crate) fn dns(&self, id: u64) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port + id as u16))
    }

    /// The address of node `id` for DNS over TLS, and the same port for DNS over QUIC.
    pub(crate) fn dot(&self, id: u64) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port + 10 + id as u16))
    }

    pub(crate) fn doh(&self, id: u64) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port + 30 + id as u16))
    }

    pub(crate) fn api(&self, id: u64) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.api_port + id as u16))
    }

    pub(crate) fn ids(&self) -> std::ops::RangeInclusive<u64> {
        1..=self.nodes
    }

    pub(crate) fn cluster_json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.dir.join("cluster.json")).unwrap()).unwrap()
    }

    pub(crate) fn leader(&self) -> u64 {
        wait_for("a leader in cluster.json", || self.cluster_json()["leader"].as_u64())
    }

    pub(crate) fn pid(&self, id: u64) -> Option<u32> {
        self.cluster_json()["nodes"][id as usize - 1]["pid"].as_u64().map(|pid| pid as u32)
    }

    /// The status of a node. `None` if it does not answer.
    pub(crate) fn status(&self, id: u64) -> Option<Value> {
        http::get(self.api(id), "/v1/status").ok().filter(|answer| answer.status == 200)?.json()
    }

    /// One number of a node's metrics: the sum of all series whose line begins like this.
    pub(crate) fn metric(&self, id: u64, series: &str) -> u64 {
        let page = http::get(self.api(id), "/metrics").unwrap();
        let values = page.text();
        values
            .lines()
            .filter(|line| line.starts_with(series))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum::<f64>() as u64
    }

    pub(crate) fn update_key(&self) -> PathBuf {
        self.dir.join("update.key")
    }

    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.dir.join("api.token")).unwrap().trim().to_owned()
    }

    /// The key in `update.key`.
    pub(crate) fn client_key(&self) -> ClientKey {
        key_of(&std::fs::read_to_string(self.update_key()).unwrap())
    }

    /// Waits until all nodes have applied the same index. Returns their common state hash.
    pub(crate) fn settle(&self) -> String {
        wait_for("all nodes to agree", || {
            let all: Option<Vec<Value>> = self.ids().map(|id| self.status(id)).collect();
            let all = all?;
            let first = (&all[0]["applied_index"], &all[0]["state_hash"]);
            let agree = all
                .iter()
                .all(|status| (&status["applied_index"], &status["state_hash"]) == first && status["serving"] == "yes");
            agree.then(|| all[0]["state_hash"].as_str().unwrap().to_owned())
        })
    }

    /// Starts one node again, in addition to `up`. The caller ends it.
    pub(crate) fn serve(&self, id: u64) -> Child {
        let config = self.dir.join(format!("node-{id}/catamaran.toml"));
        Command::new(CATAMARAN)
            .args(["serve", "--config", config.to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Runs a command of the program against this cluster.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new(CATAMARAN)
            .args(arguments)
            .args(["--dir", self.dir.to_str().unwrap()])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs a command that must succeed. Returns its standard output.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A process that is killed at the end of the test.
pub(crate) struct KillOnDrop(pub(crate) Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command printed: standard output, then standard error.
pub(crate) fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

impl Cluster {
    /// Prints the end of the log that a node wrote, run by the test or by `up`.
    fn print_end_of_log(&self, id: u64) {
        let log = [STDERR, "node.log"].map(|file| self.dir.join(format!("node-{id}/{file}")));
        let Some(log) = log.iter().find_map(|path| std::fs::read_to_string(path).ok()) else { return };
        let tail: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
        eprintln!("--- the end of the log of node {id}");
        tail.iter().rev().for_each(|line| eprintln!("{line}"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.up.is_some() {
            self.end("TERM");
        }
        if std::thread::panicking() {
            self.ids().for_each(|id| self.print_end_of_log(id));
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The key in the text of a key file.
pub(crate) fn key_of(text: &str) -> ClientKey {
    let quoted: Vec<&str> = text.split('"').collect();
    let name: wire::Name = quoted[1].parse().unwrap();
    let secret = data_encoding::BASE64.decode(quoted[3].as_bytes()).unwrap();
    ClientKey::new(name.as_ref(), KeyAlgorithm::HmacSha256, &secret).unwrap()
}

/// Sends a signal to one process. After STOP, all its threads have stopped when this returns.
pub(crate) fn kill(signal: &str, pid: u32) {
    let done = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
    assert!(done.success(), "kill -{signal} {pid}");
    if signal == "STOP" {
        // The other threads run until one thread has had a core to handle the signal.
        wait_for("all threads to stop", || stands_still(pid).then_some(()));
    }
}

/// Whether no thread of a process is running or runnable (proc_pid_stat(5)).
fn stands_still(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    stats.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't', 'Z', 'X'])))
}

/// Tries until there is a result.
pub(crate) fn wait_for<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, attempt)
}

fn wait_within<T>(timeout: Duration, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(start.elapsed() < timeout, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A directory for files of one test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        // Two tests may use the same name at the same time.
        static COUNT: AtomicU16 = AtomicU16::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("catamaran-it-scratch-{name}-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A file that only its owner can read, as for secrets.
    pub(crate) fn secret(&self, name: &str, text: &str) -> String {
        let path = self.file(name, text);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
