//! `catlab echo`: a server that answers each query with the query.

use crate::arguments::parse_port;
use clap::Args;
use measure::Transport;
use std::error::Error;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use testbed::echo::{Certificate, Echo, EchoPlan};

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab echo --ports udp=5300,tcp=5300
  catlab echo --ports dot=5853,doh=5443,doq=5853 --ca-out ca.pem &
  catlab load --server 127.0.0.1:5853 --transport dot --ca ca.pem --name 'q{\x1b[0mn}.example' --closed-loop";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Transports and ports to serve. Port 0 selects a free port.
    #[arg(long, value_delimiter = ',', default_value = "udp=0,tcp=0", value_parser = parse_port)]
    ports: Vec<(Transport, u16)>,
    /// Listen address.
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Number of threads. Each has its own sockets.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Names in the certificate, in addition to loopback addresses.
    #[arg(long, value_delimiter = ',', default_value = "localhost")]
    names: Vec<String>,
    /// Write the CA certificate to this file, for `catlab load --ca`.
    #[arg(long, value_name = "FILE")]
    ca_out: Option<PathBuf>,
}

/// Serves until the user asks to stop.
pub(crate) fn main(arguments: &Arguments, stops: &dyn Fn() -> u8) -> ExitCode {
    match run(arguments, stops) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("catlab echo: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<(), Box<dyn Error>> {
    let _limit = sockets::system::raise_open_files();
    let certificate = Certificate::for_names(&arguments.names)?;
    if let Some(path) = &arguments.ca_out {
        std::fs::write(path, certificate.authority_pem()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let plan = EchoPlan {
        address: arguments.address,
        ports: arguments.ports.iter().copied().collect(),
        certificate: Arc::new(certificate),
        thread_count: arguments.threads,
        ..EchoPlan::new(&[])?
    };
    let echo = Echo::start(&plan)?;
    for (transport, _) in &arguments.ports {
        println!("{transport} {}", echo.address(*transport));
    }
    while stops() == 0 {
        std::thread::sleep(Duration::from_millis(100));
    }
    for (transport, _) in &arguments.ports {
        let counts = echo.counts();
        let (queries, connections) = (counts.queries_of(*transport), counts.connections_of(*transport));
        println!("{transport}: {queries} queries, {connections} connections");
    }
    Ok(())
}
