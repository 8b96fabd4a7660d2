//! Whom to load, and from where.

use super::parse::{parse_duration, parse_rcode, parse_server};
use clap::Args;
use lab::engine::{Pace, Plan, Transport};
use lab::workload::Workload;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[derive(Args)]
pub(crate) struct Target {
    /// Whom to ask, with or without a port; queries take turns.
    #[arg(long, required = true, value_delimiter = ',', value_parser = parse_server)]
    server: Vec<SocketAddr>,
    /// How: udp, tcp, dot, doh or doq.
    #[arg(long, default_value = "udp")]
    transport: Transport,
    /// After how long a query counts as unanswered.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    timeout: Duration,
    /// Sending threads; one for every second core otherwise.
    #[arg(long)]
    workers: Option<usize>,
    /// Client ports of each thread and server.
    #[arg(long, default_value_t = 8)]
    sockets: usize,
    /// Source address.
    #[arg(long)]
    source: Option<IpAddr>,
    /// RCODEs that are right; others are no capacity.
    #[arg(long, value_delimiter = ',', value_parser = parse_rcode)]
    expect_rcode: Vec<u8>,
    /// Send lag at p99 beyond which the run is not valid.
    #[arg(long, default_value = "1ms", value_parser = parse_duration)]
    pub(crate) lag_limit: Duration,
    /// The target is mine, though it is neither on loopback nor in a private range.
    #[arg(long)]
    i_own_this_target: bool,
}

impl Target {
    /// The plan that sends this at that pace.
    ///
    /// # Errors
    /// When the target is a stranger's.
    pub(crate) fn plan(&self, workload: Workload, pace: Pace) -> Result<Plan, String> {
        self.allow(self.server.iter().copied())?;
        if self.transport != Transport::Udp {
            return Err(format!("{} is not among the transports of this build; there is udp", self.transport));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Plan {
            transport: self.transport,
            servers: self.server.clone(),
            workload,
            pace,
            timeout: self.timeout,
            worker_count: self.workers.unwrap_or(cores.div_ceil(2)).max(1),
            socket_count: self.sockets.max(1),
            source: self.source,
            expected_rcodes: self.expect_rcode.clone(),
        })
    }

    /// A load generator is a weapon: strangers' servers need a word more.
    ///
    /// # Errors
    /// A sentence that names the first of them that is a stranger's.
    pub(crate) fn allow(&self, mut servers: impl Iterator<Item = SocketAddr>) -> Result<(), String> {
        let is_own = |address: IpAddr| match address {
            IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
            IpAddr::V6(address) => {
                address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
            }
        };
        match servers.find(|server| !is_own(server.ip())) {
            Some(server) if !self.i_own_this_target => Err(format!(
                "{server} is neither on loopback nor in a private range; add --i-own-this-target if it is yours to load"
            )),
            _ => Ok(()),
        }
    }
}
