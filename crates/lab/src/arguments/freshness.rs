//! Options of the freshness probe.

use super::parse::{parse_name, parse_server};
use super::queries::read_key;
use clap::Args;
use lab::freshness::Probe;
use report::parse_duration;
use std::net::SocketAddr;
use std::time::Duration;
use wire::name::Name;

#[derive(Args)]
#[command(next_help_heading = "Freshness: time until an acknowledged update is visible")]
pub(crate) struct FreshnessArguments {
    /// Probe these servers for updates.
    #[arg(long, value_name = "SERVER", value_delimiter = ',', value_parser = parse_server, requires = "freshness_zone")]
    freshness: Vec<SocketAddr>,
    /// Zone that the probe updates. It changes the TXT record of _catlab-probe.
    #[arg(long, value_name = "ZONE", value_parser = parse_name, requires = "freshness")]
    freshness_zone: Option<Name>,
    /// Send updates to this server. The default is the first server of --freshness.
    #[arg(long, value_name = "SERVER", value_parser = parse_server, requires = "freshness")]
    freshness_via: Option<SocketAddr>,
    #[arg(long, value_name = "KEY", requires = "freshness")]
    #[arg(help = "Sign updates with TSIG: a key file, or [ALGORITHM:]NAME:SECRET")]
    freshness_tsig: Option<String>,
    /// Interval between updates of the probe.
    #[arg(long, value_name = "DURATION", default_value = "100ms")]
    #[arg(value_parser = parse_duration, requires = "freshness")]
    freshness_interval: Duration,
}

impl FreshnessArguments {
    /// The probe, if one is requested.
    ///
    /// # Errors
    /// If the key or a name is invalid.
    pub(crate) fn probe(&self) -> Result<Option<Probe>, String> {
        let (Some(zone), Some(&first)) = (&self.freshness_zone, self.freshness.first()) else { return Ok(None) };
        let owner = format!("_catlab-probe.{zone}");
        Ok(Some(Probe {
            server: self.freshness_via.unwrap_or(first),
            watched: self.freshness.clone(),
            zone: zone.clone(),
            owner: owner.parse().map_err(|error| format!("{owner} is not a name: {error}"))?,
            key: self.freshness_tsig.as_deref().map(read_key).transpose()?,
            interval: self.freshness_interval,
        }))
    }

    /// All servers that the probe uses.
    pub(crate) fn servers(&self) -> impl Iterator<Item = SocketAddr> {
        self.freshness.iter().copied().chain(self.freshness_via)
    }
}
