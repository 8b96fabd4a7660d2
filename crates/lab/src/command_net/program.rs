//! Programs that run in a net, and end with it.

use links::plan::{HUB_V4, HUB_V6};
use links::{Namespace, Net, end_with_me};
use std::error::Error;
use std::process::{Child, Command, ExitCode};
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
pub(super) struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Result<Self, Box<dyn Error>> {
        command.env("CATLAB_HUB", HUB_V4.to_string()).env("CATLAB_HUB6", HUB_V6.to_string());
        end_with_me(&mut command);
        Ok(Self(command.spawn().map_err(|error| format!("ip, of iproute2, cannot be run: {error}"))?))
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

/// Starts a command line on the hub, and waits until something listens there.
pub(super) fn serve(net: &Net, line: &str, stops: &dyn Fn() -> u8) -> Result<Running, Box<dyn Error>> {
    let mut command = net.hub().command("sh");
    // What it asks the shell for is done by the shell; without such, the program is the shell's successor.
    command.args(["-c", &format!("exec {line}")]);
    let mut server = Running::start(command)?;
    let until = Instant::now() + LISTENS_WITHIN;
    while stops() == 0 {
        if let Some(status) = server.0.try_wait()? {
            return Err(format!("the server ended before it listened: {status}").into());
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
    let tables = namespace.inside(|| {
        let read = |table| std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        Ok(["udp", "udp6", "tcp", "tcp6"].map(read))
    })?;
    let rows = |table: &str| table.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let [udp, udp6, tcp, tcp6] = tables.each_ref().map(|table| rows(table));
    let is_listening = |row: &String| row.split_whitespace().nth(3) == Some(LISTENING);
    Ok(!udp.is_empty() || !udp6.is_empty() || tcp.iter().chain(&tcp6).any(is_listening))
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
    let mut program = Running::start(command)?;
    loop {
        if let Some(status) = program.0.try_wait()? {
            return Ok(ExitCode::from(status.code().map_or(130, |code| code as u8)));
        }
        if stops() > 0 {
            return Ok(ExitCode::from(130));
        }
        if !net.is_alive() {
            return Err("a link failed; the program was ended".into());
        }
        sleep(LOOK);
    }
}
