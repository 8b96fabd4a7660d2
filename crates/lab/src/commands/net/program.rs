//! Programs in namespaces. They are stopped on drop.

use links::plan::{HUB_V4, HUB_V6};
use links::{Namespace, Net, end_with_this_thread};
use std::error::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a server may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a program may take to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// TCP_LISTEN in /proc/net/tcp.
const LISTENING: &str = "0A";

/// A running program. It is killed on drop.
pub(crate) struct RunningProgram(Child);

impl RunningProgram {
    /// Starts a command of the form `ip netns exec NAME PROGRAM`.
    pub(crate) fn start(mut command: Command) -> Result<Self, Box<dyn Error>> {
        end_with_this_thread(&mut command);
        Ok(Self(command.spawn().map_err(|error| format!("cannot run ip (iproute2): {error}"))?))
    }

    /// Its exit status, if it has exited.
    pub(crate) fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Waits for its end and returns the exit code. Returns early if the user asks to stop, or if `check` fails; the
    /// caller then drops it.
    pub(crate) fn wait(
        &mut self,
        stops: &dyn Fn() -> u8,
        check: &dyn Fn() -> Result<(), String>,
    ) -> Result<ExitCode, Box<dyn Error>> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(ExitCode::from(status.code().map_or(130, |code| code as u8)));
            }
            if stops() > 0 {
                return Ok(ExitCode::from(130));
            }
            check()?;
            sleep(POLL_INTERVAL);
        }
    }

    /// Sends SIGTERM.
    fn ask_to_end(&self) {
        let pid = self.0.id().to_string();
        let _asked = Command::new("kill").args(["-TERM", &pid]).status();
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        self.ask_to_end();
        let until = Instant::now() + EXIT_TIMEOUT;
        while Instant::now() < until && matches!(self.0.try_wait(), Ok(None)) {
            sleep(POLL_INTERVAL);
        }
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Fails if the program is missing or not executable. `ip netns exec` would hide this behind an exit code.
pub(crate) fn check(program: &str) -> Result<(), String> {
    let is_one = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    // The search order of execvp(3).
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let is_there = match program.contains('/') {
        true => is_one(Path::new(program)),
        false => std::env::split_paths(&folders).any(|folder| is_one(&folder.join(program))),
    };
    if is_there { Ok(()) } else { Err(format!("cannot run {program}: no such program, or not executable")) }
}

/// Starts a command line on the hub, and waits until something listens there.
pub(super) fn serve(net: &Net, line: &str, stops: &dyn Fn() -> u8) -> Result<RunningProgram, Box<dyn Error>> {
    let mut command = net.hub().command("sh");
    // The shell runs the line. For a simple command, `exec` replaces the shell.
    command.args(["-c", &format!("exec {line}")]);
    set_hub_addresses(&mut command);
    let mut server = RunningProgram::start(command)?;
    let until = Instant::now() + LISTEN_TIMEOUT;
    while stops() == 0 {
        if let Some(status) = server.ended()? {
            return Err(format!("the server exited before it listened: {status}").into());
        }
        if listens(net.hub())? {
            break;
        }
        if Instant::now() > until {
            return Err(format!("the server does not listen after {} s", LISTEN_TIMEOUT.as_secs()).into());
        }
        sleep(POLL_INTERVAL);
    }
    Ok(server)
}

/// Whether a namespace has a UDP socket or a listening TCP socket.
fn listens(namespace: &Namespace) -> Result<bool, Box<dyn Error>> {
    let [udp, tcp] = waiting_sockets(namespace)?;
    Ok(!udp.is_empty() || !tcp.is_empty())
}

/// Whether a namespace has a UDP socket and a listening TCP socket at this port.
pub(crate) fn listens_on(namespace: &Namespace, port: u16) -> Result<bool, Box<dyn Error>> {
    let ending = format!(":{port:04X}");
    let all = waiting_sockets(namespace)?;
    Ok(all.iter().all(|rows| rows.iter().any(|address| address.ends_with(&ending))))
}

/// Local addresses of UDP sockets and of listening TCP sockets, in the format of the kernel.
fn waiting_sockets(namespace: &Namespace) -> Result<[Vec<String>; 2], Box<dyn Error>> {
    let [udp, udp6, tcp, tcp6] = namespace.inside(|| {
        let read = |table| std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        Ok(["udp", "udp6", "tcp", "tcp6"].map(read))
    })?;
    let rows = |tables: [String; 2], is_waiting: fn(&str) -> bool| -> Vec<String> {
        let rows = tables.iter().flat_map(|table| table.lines().skip(1)).filter(|row| is_waiting(row));
        rows.filter_map(|row| row.split_whitespace().nth(1).map(str::to_owned)).collect()
    };
    let is_listening = |row: &str| row.split_whitespace().nth(3) == Some(LISTENING);
    Ok([rows([udp, udp6], |_| true), rows([tcp, tcp6], is_listening)])
}

/// Runs a program until it exits, the user asks to stop, or a link fails.
pub(super) fn run(
    net: &Net,
    namespace: &Namespace,
    words: &[String],
    stops: &dyn Fn() -> u8,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut command = namespace.command(&words[0]);
    command.args(&words[1..]).stdin(std::process::Stdio::inherit());
    set_hub_addresses(&mut command);
    let is_well = || -> Result<(), String> {
        if net.is_alive() { Ok(()) } else { Err("a link failed; the program was stopped".into()) }
    };
    RunningProgram::start(command)?.wait(stops, &is_well)
}

/// Sets environment variables with the addresses of the hub.
fn set_hub_addresses(command: &mut Command) {
    command.env("CATLAB_HUB", HUB_V4.to_string()).env("CATLAB_HUB6", HUB_V6.to_string());
}
