//! The options of a run on agents.

use crate::arguments::parse_duration;
use clap::Args;
use fleet::Access;
use lab::limits::AGENTS_MAX;
use std::path::PathBuf;
use std::time::Duration;

/// Which agents execute the run instead of this process.
#[derive(Args)]
#[command(next_help_heading = "Many hosts (docs/catlab/agents.md)")]
pub(crate) struct FleetArguments {
    /// Run on the agents at this NATS server: nats://HOST:PORT, nats://USER:PASSWORD@HOST:PORT, or tls://.
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// Number of agents. The rate, the queries in flight, or the sources of the trace are divided among them.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "nats", value_parser = parse_agents)]
    pub(super) agents: usize,
    /// Wait this long for enough agents.
    #[arg(long, value_name = "DURATION", default_value = "30s", requires = "nats", value_parser = parse_duration)]
    pub(super) agents_wait: Duration,
    /// Treat an agent as lost after this time without a heartbeat; an agent treats the controller the same way.
    #[arg(long, value_name = "DURATION", default_value = "10s", requires = "nats", value_parser = parse_silence)]
    pub(super) agent_silence: Duration,
    /// Trust these CAs for the NATS server, in addition to the system's (PEM).
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_ca: Option<PathBuf>,
    /// Log in to the NATS server with this credentials file (.creds) or user key seed.
    #[arg(long, value_name = "FILE", requires = "nats", alias = "creds")]
    nats_creds: Option<PathBuf>,
}

impl FleetArguments {
    /// Whether agents execute the run.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.nats.is_some()
    }

    pub(super) fn access(&self) -> Access {
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

/// Parses the silence limit. With two heartbeats per second, a limit below two seconds would count late ones as lost.
fn parse_silence(text: &str) -> Result<Duration, String> {
    let silence = parse_duration(text)?;
    let is_some = (Duration::from_secs(2)..=Duration::from_secs(600)).contains(&silence);
    if is_some { Ok(silence) } else { Err(format!("{text} is out of range; write 2s to 10m")) }
}
