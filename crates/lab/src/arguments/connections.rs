//! Options for connections and certificates.

use super::parse::{parse_connections, parse_share};
use clap::Args;
use load::engine::{ConnectionPolicy, HttpPlan, TlsPlan};
use load::limits::CONNECTION_IN_FLIGHT_DEFAULT;
use report::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
#[command(next_help_heading = "Connections: TCP, DoT, DoH, DoQ")]
pub(crate) struct Connections {
    /// Connections per thread. They are opened before the run.
    #[arg(long, default_value_t = 8, value_parser = parse_connections)]
    pub(crate) connections: usize,
    #[command(flatten)]
    pub(crate) usage: Usage,
}

/// How connections are used, however many there are.
#[derive(Args)]
#[command(next_help_heading = "Connections: TCP, DoT, DoH, DoQ")]
pub(crate) struct Usage {
    /// Queries in flight per connection.
    #[arg(long, default_value_t = CONNECTION_IN_FLIGHT_DEFAULT)]
    pipeline: usize,
    /// Close a connection after this many queries and open another one (at least 1). Without this option there is no
    /// limit.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    queries_per_connection: Option<u64>,
    /// Close a connection that is idle for this long.
    #[arg(long, value_parser = parse_duration)]
    idle_timeout: Option<Duration>,
    /// Timeout of a connection attempt including its handshake.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub(crate) handshake_timeout: Duration,
    /// Expected name in the server's certificate. The default is the host name or address of the server.
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
    /// PEM file of the CAs to trust instead of the system's, or of the server's self-signed certificate.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long)]
    insecure: bool,
    /// Share of new connections that resume an earlier TLS session, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    resumption: f64,
    /// Share of resumed connections that send queries as early data (0-RTT), 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    early_data: f64,
    /// Path of DNS over HTTPS.
    #[arg(long, default_value = "/dns-query")]
    doh_path: String,
    /// Send queries over HTTPS as GET instead of POST.
    #[arg(long)]
    doh_get: bool,
}

impl Usage {
    pub(crate) fn connection_policy(&self) -> ConnectionPolicy {
        ConnectionPolicy {
            idle_timeout: self.idle_timeout,
            queries_max: self.queries_per_connection,
            resumption: self.resumption,
            early_data: self.early_data,
            in_flight_max: self.pipeline.max(1),
            ..ConnectionPolicy::default()
        }
    }

    pub(crate) fn tls(&self) -> TlsPlan {
        TlsPlan { name: self.tls_name.clone(), authorities: self.ca.clone(), is_insecure: self.insecure }
    }

    pub(crate) fn http(&self) -> HttpPlan {
        HttpPlan { path: self.doh_path.clone(), is_get: self.doh_get }
    }
}
