//! A resolver in the client namespace.

use super::profile::Profile;
use crate::commands::net::program::{RunningProgram, listens_on};
use links::Namespace;
use std::error::Error;
use std::fs::File;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::resolver::PORT;

/// Interval of the check whether it listens.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long it may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(60);

/// A running resolver. It is killed on drop.
pub(super) struct RunningResolver {
    program: RunningProgram,
    log: PathBuf,
}

impl RunningResolver {
    /// Starts it and waits until it listens. Its output goes to a file.
    pub(super) fn start(
        namespace: &Namespace,
        profile: &Profile,
        log: PathBuf,
        stops: &dyn Fn() -> u8,
    ) -> Result<Self, Box<dyn Error>> {
        profile.write()?;
        let words = profile.command();
        let output = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        // As for servers, a program in the folder that CATAMARAN_PEERS names comes first.
        let program = testbed::installed(&words[0]).unwrap_or_else(|| PathBuf::from(&words[0]));
        let mut command = namespace.command(&program.display().to_string());
        command.args(&words[1..]).stdout(output.try_clone()?).stderr(output);
        let mut resolver = Self { program: RunningProgram::start(command)?, log };
        let until = Instant::now() + LISTEN_TIMEOUT;
        while stops() == 0 && !listens_on(namespace, PORT)? {
            resolver.check()?;
            if Instant::now() > until {
                return Err(format!("{} does not listen after {} s", words[0], LISTEN_TIMEOUT.as_secs()).into());
            }
            sleep(POLL_INTERVAL);
        }
        Ok(resolver)
    }

    /// Fails if it has exited.
    pub(super) fn check(&mut self) -> Result<(), String> {
        match self.program.ended() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the resolver exited ({status}): {}", self.last_lines())),
            Err(error) => Err(format!("the resolver: {error}")),
        }
    }

    /// The last lines of its output.
    fn last_lines(&self) -> String {
        let output = std::fs::read(&self.log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }
}
