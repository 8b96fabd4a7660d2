//! Cleans up after Ctrl-C or SIGTERM: stops all processes and removes namespaces and folders.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long child processes may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// A tool that was told to stop waits for answers until it gets a second signal, after this time.
const SIGNAL_INTERVAL: Duration = Duration::from_secs(2);
/// Exit code of a program stopped by Ctrl-C.
const EXIT_CODE: i32 = 130;

/// A file in the folder of the bench. Each line is a command that removes something other than a process.
const CLEAN_UP: &str = "clean-up";

static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Installs the signal handler. It stops all descendants of this program, removes the folder and exits.
pub(super) fn prepare(folder: &Path) {
    let folder = folder.to_owned();
    // Without a handler, a signal just kills this program.
    if let Err(error) = ctrlc::set_handler(move || end(&folder)) {
        eprintln!("signals will stop this program, but not its child processes: {error}");
    }
}

/// Waits for the signal handler to exit the program if a signal has arrived.
pub(super) fn wait_if_begun() {
    while HAS_BEGUN.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn end(folder: &Path) {
    if HAS_BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    eprintln!("ending what was started");
    end_processes();
    for line in std::fs::read_to_string(folder.join(CLEAN_UP)).unwrap_or_default().lines() {
        run(&line.split(' ').collect::<Vec<_>>());
    }
    // The bench's thread may have started another process in the meantime.
    end_processes();
    let _removed = std::fs::remove_dir_all(folder);
    std::process::exit(EXIT_CODE);
}

/// Tells all descendants of this program to exit, and kills those that do not.
fn end_processes() {
    let begin = Instant::now();
    let mut signalled: Vec<(u32, Instant)> = Vec::new();
    loop {
        let running = descendants();
        if running.is_empty() {
            return;
        }
        let is_late = begin.elapsed() > EXIT_TIMEOUT;
        for pid in running {
            let before = signalled.iter_mut().find(|(known, _)| *known == pid);
            match before {
                Some((_, at)) if is_late || at.elapsed() > SIGNAL_INTERVAL => *at = Instant::now(),
                Some(_) => continue,
                None => signalled.push((pid, Instant::now())),
            }
            run(&["kill", if is_late { "-KILL" } else { "-TERM" }, &pid.to_string()]);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All running descendants of this program. Zombies are left out.
fn descendants() -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, u32, bool)> = numbers
        .filter_map(|pid| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // State and parent follow the name, which may contain spaces.
            let mut fields = text.rsplit_once(") ")?.1.split(' ');
            let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
            Some((pid, parent, state != "Z"))
        })
        .collect();
    let mut found = vec![(std::process::id(), true)];
    let mut at = 0;
    while at < found.len() {
        let children = all.iter().filter(|(_, parent, _)| *parent == found[at].0);
        let children: Vec<(u32, bool)> = children.map(|&(pid, _, runs)| (pid, runs)).collect();
        found.extend(children);
        at += 1;
    }
    found.into_iter().skip(1).filter(|&(_, runs)| runs).map(|(pid, _)| pid).collect()
}

/// Runs one command. Failures are ignored: the target may be gone already.
fn run(words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _done = command.status();
}
