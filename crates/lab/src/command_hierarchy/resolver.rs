//! A resolver that runs on the near machine of a pair.

use super::profile::{PORT, Profile};
use crate::command_net::program::{Running, listens_on};
use links::Namespace;
use std::error::Error;
use std::fs::File;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it is looked whether it listens.
const LOOK: Duration = Duration::from_millis(20);
/// How long it may take until it does.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

/// It. When this goes, it is gone.
pub(super) struct RunningResolver {
    program: Running,
    log: PathBuf,
}

impl RunningResolver {
    /// Starts it, and waits until it listens. What it says goes into a file.
    pub(super) fn start(
        namespace: &Namespace,
        profile: &Profile,
        log: PathBuf,
        stops: &dyn Fn() -> u8,
    ) -> Result<Self, Box<dyn Error>> {
        profile.write()?;
        let words = profile.command();
        let said = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = namespace.command(&words[0]);
        command.args(&words[1..]).stdout(said.try_clone()?).stderr(said);
        let mut resolver = Self { program: Running::start(command)?, log };
        let until = Instant::now() + LISTENS_WITHIN;
        while stops() == 0 && !listens_on(namespace, PORT)? {
            resolver.check()?;
            if Instant::now() > until {
                return Err(format!("{} does not listen after {} s", words[0], LISTENS_WITHIN.as_secs()).into());
            }
            sleep(LOOK);
        }
        Ok(resolver)
    }

    /// Whether it still runs.
    pub(super) fn check(&mut self) -> Result<(), String> {
        match self.program.ended() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the resolver exited ({status}): {}", self.last_lines())),
            Err(error) => Err(format!("the resolver: {error}")),
        }
    }

    /// The end of what it said.
    fn last_lines(&self) -> String {
        let said = std::fs::read(&self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }
}
