//! `catlab agent`: makes this host one of many that execute a run. An agent executes its part of the runs that a
//! controller commands, one at a time.

// Receives commands and replies.
mod command_handler;
// A folder for one run, and the run itself.
mod run;

use clap::Args;
use command_handler::CommandHandler;
use fleet::{Access, AgentInfo, Bus, BusError};
use lab::limits::AGENT_NAME_BYTES_MAX;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  nats-server -js                                                    (once, somewhere)
  catlab agent --nats nats://192.168.1.5:4222 --name east            (on each host)
  catlab replay day.pcap.xz --server 192.168.1.6 --nats nats://192.168.1.5:4222 --agents 4 --out run

Takes part in one run after another. It only executes the plans of load and replay. Anyone who can publish on the NATS
server can command the agent, so restrict access to that server (docs/catlab/agents.md). The agent applies its own rules
for targets: without --i-own-this-target here, it only sends to loopback, private and link-local ranges and to
CATLAB_ALLOW.

Exit code 0: stopped by a signal, or done with --once; 2: no connection to the NATS server.";

/// Number of connection attempts at start, one per second.
const CONNECT_TRIES_MAX: u32 = 60;

#[derive(Args)]
pub(crate) struct Arguments {
    /// NATS server with JetStream: nats://HOST:PORT, nats://USER:PASSWORD@HOST:PORT, or tls://.
    #[arg(long, value_name = "URL")]
    nats: String,
    /// PEM file of CAs to trust for the NATS server, in addition to the system's.
    #[arg(long, value_name = "FILE")]
    nats_ca: Option<PathBuf>,
    /// Credentials for the NATS server: a .creds file, or a file with the seed of a user's key.
    #[arg(long, value_name = "FILE", alias = "creds")]
    nats_creds: Option<PathBuf>,
    /// Name of the agent in reports; it also decides which sources of a trace the agent replays. The default is the
    /// host name.
    #[arg(long, value_parser = parse_agent_name)]
    name: Option<String>,
    /// Folder for files during a run. The default is the temporary folder of the system.
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Exit after one run.
    #[arg(long)]
    once: bool,
    /// Allow targets outside loopback, private and link-local ranges. Only use this for servers that you own.
    #[arg(long)]
    i_own_this_target: bool,
}

/// Takes part in runs. `stops` counts how often the user asked to stop.
pub(crate) fn main(arguments: &Arguments, stops: &dyn Fn() -> u8) -> ExitCode {
    match serve(arguments, stops) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("catlab agent: {error}");
            ExitCode::from(2)
        }
    }
}

fn serve(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<(), Box<dyn Error>> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let name = arguments.name.clone().unwrap_or_else(|| host.clone());
    let id = format!("{:016x}", rand::random::<u64>());
    let info = AgentInfo { id, name: name.clone(), host, version: env!("CARGO_PKG_VERSION").to_owned() };
    let spool = arguments.spool.clone().unwrap_or_else(std::env::temp_dir);
    // The connection has its own thread, so that heartbeats continue during a run.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let bus = connect(arguments, stops).await?;
        let mut handler = CommandHandler::new(bus, info, spool, arguments.i_own_this_target);
        let ready = || lab::print(format_args!("agent {name} is waiting for runs\n"));
        handler.serve(arguments.once.then_some(1), stops, ready).await
    })?;
    // A stopped run ends by itself and removes its folder.
    runtime.shutdown_timeout(Duration::from_secs(5));
    Ok(())
}

/// Retries while the NATS server is not reachable, but not if it refuses the connection.
async fn connect(arguments: &Arguments, stops: &dyn Fn() -> u8) -> Result<Bus, BusError> {
    let access = Access {
        url: arguments.nats.clone(),
        authorities: arguments.nats_ca.clone(),
        credentials: arguments.nats_creds.clone(),
    };
    let mut tries = 0;
    loop {
        match Bus::connect(&access).await {
            Err(BusError::Connect(address, reason)) if tries < CONNECT_TRIES_MAX && stops() == 0 => {
                if tries == 0 {
                    eprintln!("NATS at {address}: {reason}; retrying every second");
                }
                tries += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            connected => return connected,
        }
    }
}

fn parse_agent_name(text: &str) -> Result<String, String> {
    let is_name = (1..=AGENT_NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_name { Ok(text.to_owned()) } else { Err(format!("{text} is not a name; write letters, digits, - and _")) }
}
