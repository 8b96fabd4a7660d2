//! The controller of a run that agents on other hosts carry out: hires them, sends each its share, starts them
//! together, takes in what they measured and makes one run of it.

// What is said to agents of the command line.
mod words;
pub(crate) use words::{check, words};
// Who takes part, and how far each is.
mod hired;
// One run, step by step.
mod conduct;
pub(crate) use conduct::{Share, Task, conduct, leave};

use crate::arguments::parse_duration;
use clap::Args;
use lab::fleet::Access;
use lab::limits::AGENTS_MAX;
use std::path::PathBuf;
use std::time::Duration;

/// Who carries a run out instead of this process.
#[derive(Args)]
#[command(next_help_heading = "Many hosts (docs/catlab/agents.md)")]
pub(crate) struct FleetArguments {
    /// Run on agents at this NATS server: nats://HOST:PORT, nats://USER:PASSWORD@HOST:PORT, or tls://.
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Number of agents. They share the rate, the queries in flight, or the sources of the trace.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "nats", value_parser = parse_agents)]
    agents: usize,
    /// How long to wait for agents.
    #[arg(long, value_name = "DURATION", default_value = "30s", requires = "nats", value_parser = parse_duration)]
    agents_wait: Duration,
    /// Timeout of heartbeats: after it the controller gives up an agent, and an agent its controller.
    #[arg(long, value_name = "DURATION", default_value = "10s", requires = "nats", value_parser = parse_silence)]
    agent_silence: Duration,
    /// PEM file of CAs to trust for the NATS server, in addition to the system's.
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_ca: Option<PathBuf>,
    /// Credentials for the NATS server: a .creds file, or a file with the seed of a user's key.
    #[arg(long, value_name = "FILE", requires = "nats", alias = "creds")]
    nats_creds: Option<PathBuf>,
}

impl FleetArguments {
    /// Whether agents are to do it.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.nats.is_some()
    }

    fn access(&self) -> Access {
        Access {
            url: self.nats.clone().unwrap_or_default(),
            authorities: self.nats_ca.clone(),
            credentials: self.nats_creds.clone(),
        }
    }
}

fn parse_agents(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=AGENTS_MAX).contains(count));
    count.ok_or_else(|| format!("{text} is out of range; write 1 to {AGENTS_MAX}"))
}

/// Signs of life come twice a second: less than two seconds would take one that is merely late for lost.
fn parse_silence(text: &str) -> Result<Duration, String> {
    let silence = parse_duration(text)?;
    let is_some = (Duration::from_secs(2)..=Duration::from_secs(600)).contains(&silence);
    if is_some { Ok(silence) } else { Err(format!("{text} is out of range; write 2s to 10m")) }
}
