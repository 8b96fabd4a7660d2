//! A bench that Ctrl-C or SIGTERM ends leaves nothing behind: no server, no tool, no namespace, no folder.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long what was started may take to end by itself.
const GRACE: Duration = Duration::from_secs(20);
/// A tool that was told to stop waits for answers, until it is told again.
const AGAIN: Duration = Duration::from_secs(2);
/// Code of a program that an interrupt ended.
const EXIT_CODE: i32 = 130;

/// A file in the folder of the bench, each of whose lines is a command that takes away what is no process.
const CLEAN_UP: &str = "clean-up";

static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// From now on a signal ends all that this program has started, then it removes the folder and ends itself.
pub(super) fn prepare(folder: &Path) {
    let folder = folder.to_owned();
    // Where there can be no handler a signal ends this program as it would any other.
    if let Err(error) = ctrlc::set_handler(move || end(&folder)) {
        eprintln!("signals will end this program and not what it has started: {error}");
    }
}

/// Leaves the end of this program to the handler, if a signal has come: it may not be done yet.
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
    // The bench's own thread may have started one more meanwhile.
    end_processes();
    let _removed = std::fs::remove_dir_all(folder);
    std::process::exit(EXIT_CODE);
}

/// Tells all that descend from this program to end, and ends those that do not.
fn end_processes() {
    let begin = Instant::now();
    let mut told: Vec<(u32, Instant)> = Vec::new();
    loop {
        let running = descendants();
        if running.is_empty() {
            return;
        }
        let is_late = begin.elapsed() > GRACE;
        for pid in running {
            let before = told.iter_mut().find(|(known, _)| *known == pid);
            match before {
                Some((_, at)) if is_late || at.elapsed() > AGAIN => *at = Instant::now(),
                Some(_) => continue,
                None => told.push((pid, Instant::now())),
            }
            run(&["kill", if is_late { "-KILL" } else { "-TERM" }, &pid.to_string()]);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All that descend from this program and run; not those that have ended and that nobody has asked for yet.
fn descendants() -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, u32, bool)> = numbers
        .filter_map(|pid| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // State and parent stand behind the name, which may hold blanks.
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

/// Runs one to its end; that it fails, as when something is gone already, changes nothing.
fn run(words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _done = command.status();
}
