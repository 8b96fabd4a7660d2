//! Debian's clients. Where they are missing, a test that needs them says so and is skipped; with `CI=true`, and with
//! `cargo xtask test --full`, it fails.

use super::cluster::kill;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Whether `tool` is there.
pub(crate) fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    found || missing(tool, &format!("apt-get install {}", package(tool)))
}

/// Says that a test is skipped because a program is missing; where all is demanded it fails.
pub(crate) fn missing(tool: &str, install: &str) -> bool {
    println!("skipped: {tool} is not installed");
    assert!(!is_all_demanded(), "{tool} is missing: {install}");
    false
}

/// Whether nothing may be skipped for the machine's sake: with `CI=true`, and with `cargo xtask test --full`.
fn is_all_demanded() -> bool {
    std::env::var("CI").as_deref() == Ok("true") || is_full_run()
}

pub(crate) fn is_full_run() -> bool {
    std::env::var("CATAMARAN_TEST_FULL").is_ok_and(|value| value == "1")
}

/// The same because this machine does not let us do something.
pub(crate) fn forbidden(what: &str) -> bool {
    println!("skipped: {what} is not allowed here");
    assert!(!is_all_demanded(), "{what} is not allowed here");
    false
}

/// Whether `strace` is there and may watch a process of ours.
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

/// The Debian package that has it.
fn package(tool: &str) -> &'static str {
    match tool {
        "strace" => "strace",
        "systemd-analyze" => "systemd",
        _ if tool.starts_with("dnssec-") => "bind9-utils",
        _ if tool.starts_with('k') => "knot-dnsutils",
        _ => "bind9-dnsutils",
    }
}

/// Runs `dig` with a server and more.
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

/// Runs `nsupdate`; gives what it said, `Ok` when the update was done.
pub(crate) fn nsupdate(server: SocketAddr, key: &Path, lines: &str) -> Result<String, String> {
    update("nsupdate", server, key, lines)
}

/// Runs `nsupdate` or `knsupdate`, with arguments of its own or none; gives what it said, `Ok` when the update was
/// done. It is given the key as `-k` or `-y` among the arguments says, otherwise nsupdate by `-k`, knsupdate by `-y`.
pub(crate) fn update(tool: &str, server: SocketAddr, key: &Path, lines: &str) -> Result<String, String> {
    use std::io::Write;
    let mut words: Vec<&str> = tool.split(' ').collect();
    let program = words.remove(0);
    let own = words.iter().position(|word| ["-k", "-y"].contains(word)).map(|place| words.remove(place));
    let way = own.unwrap_or(if program == "knsupdate" { "-y" } else { "-k" });
    let mut command = Command::new(program);
    command.args(words).arg(way);
    match (program, way) {
        (_, "-y") => command.arg(TsigWords::of(key).joined()),
        // Its key files hold what others take as an argument.
        ("knsupdate", _) => {
            let file = key.with_extension("knot");
            std::fs::write(&file, TsigWords::of(key).joined()).unwrap();
            command.arg(file)
        }
        _ => command.arg(key),
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let script = format!("server {} {}\n{lines}\nsend\n", server.ip(), server.port());
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    outcome(child.wait_with_output().unwrap())
}

/// What a client said, `Ok` when its exit code is 0.
pub(crate) fn outcome(output: Output) -> Result<String, String> {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(format!("{}: {said}", output.status)) }
}

/// A TSIG key in words, as programs want it in their arguments or configurations.
pub(crate) struct TsigWords {
    /// As `hmac-sha256`.
    pub(crate) algorithm: String,
    pub(crate) name: String,
    /// In base64.
    pub(crate) secret: String,
}

impl TsigWords {
    /// Reads a file of the form that `nsupdate -k` takes.
    pub(crate) fn of(key: &Path) -> Self {
        let text = std::fs::read_to_string(key).unwrap();
        let words: Vec<&str> = text.split('"').collect();
        let algorithm = words[2].split_once("algorithm").unwrap().1.split(';').next().unwrap().trim().to_owned();
        Self { algorithm, name: words[1].to_owned(), secret: words[3].to_owned() }
    }

    pub(crate) fn joined(&self) -> String {
        format!("{}:{}:{}", self.algorithm, self.name, self.secret)
    }
}

/// Where a program is: in its folder of the system or on PATH; a test that misses it says so and is skipped.
pub(crate) fn daemon(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let found = folders.map(|folder| Path::new(folder).join(program)).find(|file| file.is_file());
    if found.is_none() {
        missing(program, &format!("apt-get install {package}"));
    }
    found
}

/// Whether the clients that take long to fetch and to run are wanted: with `cargo xtask test --full`.
pub(crate) fn is_full(who: &str) -> bool {
    let is_full = is_full_run();
    if !is_full {
        println!("skipped: {who} is driven by `cargo xtask test --full`");
    }
    is_full
}

/// One of the clients that take long to fetch, which are only asked for when they are wanted.
pub(crate) fn fetched(variable: &str, install: &str) -> Option<String> {
    let path = std::env::var(variable).ok();
    if path.is_none() {
        missing(&format!("what {variable} names"), install);
    }
    path
}

/// The records that `dig` gets by AXFR, sorted, each with single blanks and without its class.
pub(crate) fn transfer(server: SocketAddr, key: Option<&Path>, zone: &str) -> Vec<String> {
    let key = key.map(|path| path.to_str().unwrap());
    let arguments: Vec<&str> = key.iter().flat_map(|path| ["-k", path]).chain([zone, "AXFR"]).collect();
    let said = dig(server, &arguments);
    assert!(said.contains(";; XFR size:") && !said.contains("Couldn't verify"), "{said}");
    let mut lines: Vec<String> = said
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(';') && !line.contains("\tTSIG\t"))
        .map(|line| line.split_whitespace().filter(|word| *word != "IN").collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort();
    lines
}

/// Watches a process with `strace`: all of its threads, from when this returns on.
pub(crate) struct Watched {
    strace: Child,
    notes: PathBuf,
    /// Reads on: a watcher whose standard error nobody reads ends at its next word there.
    heard: std::thread::JoinHandle<()>,
}

impl Watched {
    /// Notes the calls that `arguments` choose in files of `dir`.
    pub(crate) fn start(dir: &Path, pid: u32, arguments: &[&str]) -> Self {
        let notes = dir.join("strace");
        std::fs::create_dir(&notes).unwrap();
        // A file for each thread: in a file for all, a call that another thread's comes between is cut in two.
        let mut strace = Command::new("strace")
            .args(["-ff", "-o", notes.join("of").to_str().unwrap(), "-p", &pid.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(strace.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("attached")));
        let heard = std::thread::spawn(move || said.for_each(drop));
        Self { strace, notes, heard }
    }

    /// What was noted: a line a call, the thread's ID before it, each thread's in their order.
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
