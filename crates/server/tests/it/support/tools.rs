//! Debian's clients. If one is missing, a test that needs it reports that and is skipped. With `CI=true`, and with
//! `cargo xtask test --full`, it fails.

use super::cluster::{PATIENCE, kill, text};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testbed::UpdateKey;

/// Whether `tool` is installed.
pub(crate) fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    found || missing(tool, &format!("apt-get install {}", package(tool)))
}

/// Skips because a program is missing, and prints how to install it. Returns false.
pub(crate) fn missing(tool: &str, install: &str) -> bool {
    skip::peer(format!("{tool} (install it with: {install})"));
    false
}

/// Skips because this machine does not permit something. Returns false.
pub(crate) fn forbidden(what: &str) -> bool {
    skip::permission(what);
    false
}

/// Whether `strace` is installed and may trace one of our processes.
pub(crate) fn may_watch() -> bool {
    if !has("strace") {
        return false;
    }
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let strace = Command::new("strace")
        .args(["-o", "/dev/null", "-p", &sleeper.id().to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut strace = strace.unwrap();
    let mut line = String::new();
    BufReader::new(strace.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let may_watch = line.contains("attached");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    strace.wait().unwrap();
    may_watch || forbidden("watching a process")
}

/// The Debian package of a tool.
fn package(tool: &str) -> &'static str {
    match tool {
        "strace" => "strace",
        "systemd-analyze" => "systemd",
        _ if tool.starts_with("dnssec-") => "bind9-utils",
        _ if tool.starts_with('k') => "knot-dnsutils",
        _ => "bind9-dnsutils",
    }
}

/// Runs `dig` with a server and more arguments.
pub(crate) fn dig(server: SocketAddr, arguments: &[&str]) -> String {
    let output = Command::new("dig")
        .args([format!("@{}", server.ip()), "-p".to_owned(), server.port().to_string()])
        .args(["+tries=3", "+time=2"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `nsupdate`. Returns its output, `Ok` if the update was done. After SERVFAIL it is run again.
pub(crate) fn nsupdate(server: SocketAddr, key: &Path, lines: &str) -> Result<String, String> {
    update_again("nsupdate", server, key, lines)
}

/// Like [`update`], but after SERVFAIL the client is run again: the update was not executed (RFC 2136 3.4.2), because
/// there was no leader for a while. The update must be one that may be executed again, because the client itself may
/// have sent its message more than once.
pub(crate) fn update_again(tool: &str, server: SocketAddr, key: &Path, lines: &str) -> Result<String, String> {
    let start = Instant::now();
    loop {
        match update(tool, server, key, lines) {
            Err(printed) if printed.contains("SERVFAIL") && start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(100));
            }
            outcome => return outcome,
        }
    }
}

/// Runs `nsupdate` or `knsupdate`, with or without arguments. Returns its output, `Ok` if the update was done. The key
/// is passed by the `-k` or `-y` among the arguments. By default nsupdate uses `-k`, and knsupdate `-y`.
pub(crate) fn update(tool: &str, server: SocketAddr, key: &Path, lines: &str) -> Result<String, String> {
    use std::io::Write;
    let mut words: Vec<&str> = tool.split(' ').collect();
    let program = words.remove(0);
    let own = words.iter().position(|word| ["-k", "-y"].contains(word)).map(|index| words.remove(index));
    let way = own.unwrap_or(if program == "knsupdate" { "-y" } else { "-k" });
    let mut command = Command::new(program);
    command.args(words).arg(way);
    match (program, way) {
        (_, "-y") => command.arg(TsigText::of(key).joined()),
        // A key file of knsupdate has the text that other programs take as an argument.
        ("knsupdate", _) => {
            let file = key.with_extension("knot");
            std::fs::write(&file, TsigText::of(key).joined()).unwrap();
            command.arg(file)
        }
        _ => command.arg(key),
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let script = format!("server {} {}\n{lines}\nsend\n", server.ip(), server.port());
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    outcome(child.wait_with_output().unwrap())
}

/// The output of a client, `Ok` if its exit code is 0.
pub(crate) fn outcome(output: Output) -> Result<String, String> {
    let printed = text(&output);
    if output.status.success() { Ok(printed) } else { Err(format!("{}: {printed}", output.status)) }
}

/// A TSIG key as text, for the arguments or configurations of programs.
pub(crate) struct TsigText {
    /// For example `hmac-sha256`.
    pub(crate) algorithm: String,
    pub(crate) name: String,
    /// In base64.
    pub(crate) secret: String,
}

impl TsigText {
    /// Reads a file in the format of `nsupdate -k`.
    pub(crate) fn of(key: &Path) -> Self {
        let text = std::fs::read_to_string(key).unwrap();
        let words: Vec<&str> = text.split('"').collect();
        let algorithm = words[2].split_once("algorithm").unwrap().1.split(';').next().unwrap().trim().to_owned();
        Self { algorithm, name: words[1].to_owned(), secret: words[3].to_owned() }
    }

    /// The key, for the servers of the testbed.
    pub(crate) fn update_key(&self) -> UpdateKey {
        let secret = data_encoding::BASE64.decode(self.secret.as_bytes()).unwrap();
        UpdateKey { name: self.name.clone(), secret }
    }

    pub(crate) fn joined(&self) -> String {
        format!("{}:{}:{}", self.algorithm, self.name, self.secret)
    }
}

/// The path of a program, in its system folder or on PATH. If it is missing, the test reports that and is skipped.
pub(crate) fn daemon(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let found = folders.map(|folder| Path::new(folder).join(program)).find(|file| file.is_file());
    if found.is_none() {
        missing(program, &format!("apt-get install {package}"));
    }
    found
}

/// Whether clients that are slow to fetch and to run are tested: with `cargo xtask test --full`.
pub(crate) fn is_full(who: &str) -> bool {
    let is_full = skip::is_full_run();
    if !is_full {
        skip::full(who);
    }
    is_full
}

/// The path of such a client. Only tests that use it ask for it.
pub(crate) fn fetched(variable: &str, install: &str) -> Option<String> {
    let path = std::env::var(variable).ok();
    if path.is_none() {
        missing(&format!("what {variable} names"), install);
    }
    path
}

/// The records that `dig` gets by AXFR, sorted, each with single spaces and without its class.
pub(crate) fn transfer(server: SocketAddr, key: Option<&Path>, zone: &str) -> Vec<String> {
    let key = key.map(|path| path.to_str().unwrap());
    let arguments: Vec<&str> = key.iter().flat_map(|path| ["-k", path]).chain([zone, "AXFR"]).collect();
    let printed = dig(server, &arguments);
    assert!(printed.contains(";; XFR size:") && !printed.contains("Couldn't verify"), "{printed}");
    let mut lines: Vec<String> = printed
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(';') && !line.contains("\tTSIG\t"))
        .map(|line| line.split_whitespace().filter(|word| *word != "IN").collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort();
    lines
}

/// Traces a process with `strace`: all of its threads, from the return of `start` on.
pub(crate) struct Watched {
    strace: Child,
    notes: PathBuf,
    /// Reads the standard error of `strace`. Otherwise `strace` would end at its next message.
    heard: std::thread::JoinHandle<()>,
}

impl Watched {
    /// Records the system calls that `arguments` select in files of `dir`.
    pub(crate) fn start(dir: &Path, pid: u32, arguments: &[&str]) -> Self {
        let notes = dir.join("strace");
        std::fs::create_dir(&notes).unwrap();
        // One file per thread. In a common file, a call is split in two when another thread's call comes between.
        let mut strace = Command::new("strace")
            .args(["-ff", "-o", notes.join("of").to_str().unwrap(), "-p", &pid.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(strace.stderr.take().unwrap()).lines();
        assert!(printed.any(|line| line.unwrap().contains("attached")));
        let heard = std::thread::spawn(move || printed.for_each(drop));
        Self { strace, notes, heard }
    }

    /// The recorded calls: one per line, after the thread's ID. Calls of one thread are in order.
    pub(crate) fn stop(mut self) -> String {
        kill("INT", self.strace.id());
        self.strace.wait().unwrap();
        self.heard.join().unwrap();
        let mut text = String::new();
        for file in std::fs::read_dir(&self.notes).unwrap() {
            let path = file.unwrap().path();
            let thread = path.extension().unwrap().to_str().unwrap();
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                text.push_str(&format!("{thread} {line}\n"));
            }
        }
        text
    }
}
