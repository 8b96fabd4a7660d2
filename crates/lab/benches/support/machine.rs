//! Programs pinned to cores, and their CPU use.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The core of the tool, and the core of its server.
pub(crate) const TOOL_CORE: usize = 0;
pub(crate) const SERVER_CORE: usize = 1;
/// Ticks of /proc per second (USER_HZ).
const TICKS: f64 = 100.0;
/// How long a program may take to exit.
const END_MAX: Duration = Duration::from_secs(20);
/// From this share of its core on, a process counts as saturated.
const SATURATED: f64 = 0.9;

/// A server that this program started.
pub(crate) struct Server {
    child: Child,
    /// The first line that it printed: its address.
    pub(crate) address: String,
}

impl Server {
    /// Starts it and waits for its first line.
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        let shown = format!("{command:?}");
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("{shown}: {error}"))?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is piped");
        let read = BufReader::new(stdout).read_line(&mut line);
        let address = line.split_whitespace().next_back().unwrap_or_default().to_owned();
        let server = Self { child, address };
        if read.is_err() || server.address.is_empty() { Err(format!("{shown} printed no address")) } else { Ok(server) }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes its standard input, which stops the roles of this program, and waits.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        wait(&mut self.child);
    }
}

/// Waits until a stopped process has exited, or until the time is up.
fn wait(child: &mut Child) {
    let until = Instant::now() + END_MAX;
    while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stops a process with SIGTERM, or with SIGKILL if that takes too long.
pub(crate) fn end(child: &mut Child) {
    // The process ID of a process that was waited for may belong to another one.
    if matches!(child.try_wait(), Ok(None)) {
        let _sent = Command::new("kill").arg(child.id().to_string()).status();
        wait(child);
        let _killed = child.kill();
        let _ended = child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both do nothing if the process has exited.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// A program pinned to a core.
pub(crate) fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(core.to_string()).arg(program);
    command
}

/// This program in a role, pinned to a core if one is given.
pub(crate) fn role(core: Option<usize>, words: &[&str]) -> Command {
    let own = std::env::current_exe().expect("the path of this program");
    let mut command = core.map_or_else(|| Command::new(&own), |core| pinned(core, &own));
    command.arg("role").args(words);
    command
}

/// CPU use of a run on both cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// CPU time of the tool as a share of a core, including kernel time.
    pub(crate) tool: f64,
    /// CPU time of the server.
    pub(crate) server: f64,
    /// Busy share of the tool's core, including other programs.
    pub(crate) tool_core: f64,
    /// Busy share of the server's core.
    pub(crate) server_core: f64,
    /// CPU time of everything else in cores: kernel threads, disk, other programs.
    pub(crate) others: f64,
    /// Idle time in cores.
    pub(crate) idle: f64,
}

impl Used {
    /// Which side was saturated.
    pub(crate) fn saturated(&self) -> &'static str {
        match (self.tool >= SATURATED, self.server >= SATURATED) {
            (true, true) => "both",
            (true, false) => "tool",
            (false, true) => "server",
            // Other programs used the rest, or each side waited for the other.
            (false, false) => "neither",
        }
    }

    /// CPU time by user. The four values add up to the number of cores.
    pub(crate) fn account(&self) -> String {
        format!("tool {:.2}, servers {:.2}, others {:.2}, idle {:.2}", self.tool, self.server, self.others, self.idle)
    }

    /// In words.
    pub(crate) fn describe(&self) -> String {
        let per_cent = |share: f64| format!("{:.0} %", share * 100.0);
        format!(
            "saturated: {}; tool {} of its core ({} busy), server {} ({} busy)",
            self.saturated(),
            per_cent(self.tool),
            per_cent(self.tool_core),
            per_cent(self.server),
            per_cent(self.server_core)
        )
    }
}

/// A starting point for measuring [`Used`].
pub(crate) struct Meter {
    server: Vec<u32>,
    start: Instant,
    tool_ticks: f64,
    server_ticks: f64,
    cores: [(f64, f64); 2],
    all: (f64, f64),
}

impl Meter {
    /// Starts measuring, with these processes as the server.
    pub(crate) fn start(server: Vec<u32>) -> Self {
        Self {
            start: Instant::now(),
            tool_ticks: children_ticks(),
            server_ticks: server.iter().map(|&pid| ticks(pid)).sum(),
            cores: [TOOL_CORE, SERVER_CORE].map(core_ticks),
            all: ticks_of("cpu"),
            server,
        }
    }

    /// CPU use since the start. The tool's share is the time of child processes that were waited for.
    pub(crate) fn stop(self) -> Used {
        let seconds = self.start.elapsed().as_secs_f64() * TICKS;
        let busy = |index: usize, core: usize| {
            let ((busy, all), before) = (core_ticks(core), self.cores[index]);
            (busy - before.0) / (all - before.1).max(1.0)
        };
        let tool = (children_ticks() - self.tool_ticks) / seconds;
        let server = (self.server.iter().map(|&pid| ticks(pid)).sum::<f64>() - self.server_ticks) / seconds;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (all_busy, all) = ticks_of("cpu");
        let idle = cores * (1.0 - (all_busy - self.all.0) / (all - self.all.1).max(1.0));
        Used {
            tool,
            server,
            tool_core: busy(0, TOOL_CORE),
            server_core: busy(1, SERVER_CORE),
            // The kernel counts processes and cores differently, so the difference may be negative.
            others: (cores - idle - tool - server).max(0.0),
            idle,
        }
    }
}

/// User and system time of a process.
fn ticks(pid: u32) -> f64 {
    stat_fields(&format!("/proc/{pid}/stat"), 11)
}

/// User and system time of the children that this process has waited for.
fn children_ticks() -> f64 {
    stat_fields("/proc/self/stat", 13)
}

/// The sum of two fields after the program's name, which may contain spaces.
fn stat_fields(path: &str, first: usize) -> f64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let after = text.rsplit_once(") ").map_or("", |(_, after)| after);
    after.split(' ').skip(first).take(2).filter_map(|field| field.parse::<f64>().ok()).sum()
}

/// Busy ticks and all ticks of a core.
fn core_ticks(core: usize) -> (f64, f64) {
    ticks_of(&format!("cpu{core}"))
}

/// The same for a line of /proc/stat: one core, or all cores.
fn ticks_of(name: &str) -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name)).unwrap_or_default();
    // Two spaces follow the name of the line for all cores.
    let fields: Vec<f64> =
        line.split_ascii_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let all = fields.iter().sum::<f64>();
    // Idle and I/O wait.
    (all - fields.iter().skip(3).take(2).sum::<f64>(), all)
}

/// Runnable processes, averaged over the last minute.
pub(crate) fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// CPU and kernel, for the report.
pub(crate) fn description() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores, {}, Linux {}", model.trim_start_matches([' ', '\t', ':']), kernel.trim())
}

/// A process and all its descendants.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let children = |pid: u32| -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let texts = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
        texts.flat_map(|text| text.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
    };
    let mut pids = vec![pid];
    let mut at = 0;
    while at < pids.len() {
        pids.extend(children(pids[at]));
        at += 1;
    }
    pids
}

/// Runs `start` so that new processes stay on these cores.
pub(crate) fn on_cores<T>(cores: &[usize], start: impl FnOnce() -> T) -> T {
    let own = affinity();
    set_affinity(cores);
    let started = start();
    set_affinity(&own);
    started
}

/// Resident bytes of a process.
pub(crate) fn resident_bytes(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

/// The cores that this thread and its children may use.
pub(crate) fn affinity() -> Vec<usize> {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let number = |word: &str| word.trim().parse::<usize>().ok();
    line.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(number(first)?..=number(last)?)
        })
        .flatten()
        .collect()
}

/// Pins this thread and its children to these cores.
pub(crate) fn set_affinity(cores: &[usize]) {
    let list = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let thread = thread.file_name().unwrap_or_default().to_owned();
    let done = Command::new("taskset").args(["-p", "-c", &list]).arg(thread).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "taskset cannot bind this thread to core {list}");
}

/// Pins all threads of a process to a core, overriding their own choice.
pub(crate) fn bind_process(pid: u32, core: usize) {
    let words = ["-a", "-p", "-c", &core.to_string(), &pid.to_string()];
    let done = Command::new("taskset").args(words).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "taskset cannot bind process {pid} to core {core}");
}
