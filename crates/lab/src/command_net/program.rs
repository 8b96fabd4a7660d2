//! Programs that run in namespaces, and end with them.

use links::plan::{HUB_V4, HUB_V6};
use links::{Namespace, Net, end_with_me};
use std::error::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long a server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);
/// How long a program may take to end after it was asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// TCP_LISTEN in /proc/net/tcp.
const LISTENING: &str = "0A";

/// A program. When this goes, it is gone.
pub(crate) struct Running(Child);

impl Running {
    /// Starts it: `ip netns exec` with a program behind it.
    pub(crate) fn start(mut command: Command) -> Result<Self, Box<dyn Error>> {
        end_with_me(&mut command);
        Ok(Self(command.spawn().map_err(|error| format!("cannot run ip (iproute2): {error}"))?))
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Waits for its end and gives its exit code, unless the user wishes to stop, or `check` finds that it cannot go
    /// on: then the caller lets it go.
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
            sleep(LOOK);
        }
    }

    /// Asks it to end.
    fn ask_to_end(&self) {
        let pid = self.0.id().to_string();
        let _asked = Command::new("kill").args(["-TERM", &pid]).status();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        self.ask_to_end();
        let until = Instant::now() + ENDS_WITHIN;
        while Instant::now() < until && matches!(self.0.try_wait(), Ok(None)) {
            sleep(LOOK);
        }
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Refuses a program that is not there, or is none: `ip netns exec` would end as if that were how the program ended.
pub(crate) fn check(program: &str) -> Result<(), String> {
    let is_one = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    // As execvp(3) looks for it.
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let is_there = match program.contains('/') {
        true => is_one(Path::new(program)),
        false => std::env::split_paths(&folders).any(|folder| is_one(&folder.join(program))),
    };
    if is_there { Ok(()) } else { Err(format!("cannot run {program}: no such program, or not executable")) }
}

/// Starts a command line on the hub, and waits until something listens there.
pub(super) fn serve(net: &Net, line: &str, stops: &dyn Fn() -> u8) -> Result<Running, Box<dyn Error>> {
    let mut command = net.hub().command("sh");
    // What it asks the shell for is done by the shell; without such, the program is the shell's successor.
    command.args(["-c", &format!("exec {line}")]);
    set_hub_addresses(&mut command);
    let mut server = Running::start(command)?;
    let until = Instant::now() + LISTENS_WITHIN;
    while stops() == 0 {
        if let Some(status) = server.ended()? {
            return Err(format!("the server exited before it listened: {status}").into());
        }
        if listens(net.hub())? {
            break;
        }
        if Instant::now() > until {
            return Err(format!("the server does not listen after {} s", LISTENS_WITHIN.as_secs()).into());
        }
        sleep(LOOK);
    }
    Ok(server)
}

/// Whether a namespace has a socket that waits for others: of UDP any, of TCP one that listens.
fn listens(namespace: &Namespace) -> Result<bool, Box<dyn Error>> {
    let [udp, tcp] = waiting_sockets(namespace)?;
    Ok(!udp.is_empty() || !tcp.is_empty())
}

/// Whether a namespace has sockets of both protocols that wait at a port.
pub(crate) fn listens_on(namespace: &Namespace, port: u16) -> Result<bool, Box<dyn Error>> {
    let ending = format!(":{port:04X}");
    let all = waiting_sockets(namespace)?;
    Ok(all.iter().all(|rows| rows.iter().any(|address| address.ends_with(&ending))))
}

/// Local addresses of sockets that wait for others, as the kernel writes them: those of UDP, and those of TCP that
/// listen.
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

/// Runs a program to its end, or the user's wish, or that of a link.
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
    Running::start(command)?.wait(stops, &is_well)
}

/// Tells a program the addresses of the hub.
fn set_hub_addresses(command: &mut Command) {
    command.env("CATLAB_HUB", HUB_V4.to_string()).env("CATLAB_HUB6", HUB_V6.to_string());
}
