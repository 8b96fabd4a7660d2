//! `catlab net`: network namespaces connected by links with a given delay.

mod background;
mod plan;
pub(crate) mod program;

pub(crate) use background::remove_stale;
use clap::{Args, Subcommand};
use links::check::{CheckPlan, LinkCheck, check};
use links::{LinkStatistics, Net, RecordedNet};
pub(crate) use plan::name_of;
use plan::{LinkArguments, NetSource};
use serde::Serialize;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab net run --rtt 20ms --server 'catlab echo --address 10.53.0.1 --ports udp=53,tcp=53' -- \\
      catlab load --server 10.53.0.1 --name 'q{\x1b[0mn}.example' --rate 1000 --duration 10s
  catlab net run net.toml --in far -- dig @10.53.0.1 example
  catlab net up net.toml && ip netns exec lab.near ping -c 3 10.53.0.1; catlab net down lab
  catlab net check net.toml

A net has a hub for the server (10.53.0.1 and fd53:ca7::1) and groups of clients, each behind its own link. Group 0 has
10.100.0.0/16 and fd53:ca7:1::/64, group 1 has 10.101.0.0/16 and fd53:ca7:2::/64, and so on. Each direction of a link
adds half of the round-trip time, and no packet arrives early. docs/catlab/net.md describes the file.

Leftovers of a crashed run are removed when the next run starts, or with `catlab net clean`.
Needs root and iproute2, and /dev/net/tun if the kernel has no netem.";

const FILE_EXAMPLE: &str = "Example of a net file with two groups:
  name = \"lab\"
  [[group]]
  name = \"near\"
  rtt = \"20ms\"
  jitter = \"1ms\"
  loss = \"0.1%\"
  rate = \"100mbit\"
  [[group]]
  name = \"far\"
  rtt = { lognormal = { median = \"80ms\", sigma = 0.5 } }
  networks = [\"10.0.0.0/8\"]";

#[derive(Subcommand)]
pub(crate) enum NetCommand {
    /// Create a net, check its links briefly, run a program in it, and remove it.
    #[command(after_help = EXAMPLES)]
    Run(RunArguments),
    /// Create a net that stays until `catlab net down`.
    #[command(after_help = FILE_EXAMPLE)]
    Up(FileArguments),
    /// Remove a net, and print statistics of its links.
    Down {
        /// Name of the net.
        name: String,
    },
    /// List the nets on this machine.
    List,
    /// Create a net, check that its links behave as configured, and remove it.
    #[command(after_help = "Exit code 0: all links behave as configured; 1: a link does not; 2: nothing was measured.")]
    Check(CheckArguments),
    /// Remove nets whose processes have exited.
    Clean,
    /// Keep a net until a signal arrives. `up` starts this.
    #[command(hide = true)]
    Keep(FileArguments),
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// Net file in TOML. Without it the options describe one group.
    #[arg(conflicts_with = "LinkArguments")]
    net: Option<PathBuf>,
    #[command(flatten)]
    link: LinkArguments,
    /// Run the program in this group, or in `hub`. The default is the first group.
    #[arg(long = "in", value_name = "GROUP")]
    group: Option<String>,
    /// Run this command line on the hub. The program starts when it listens.
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
    /// Do not check the links first.
    #[arg(long)]
    no_check: bool,
    /// Write measurements and link statistics as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Program and its arguments. The environment variables CATLAB_HUB and CATLAB_HUB6 have the addresses of the hub.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Args)]
pub(crate) struct FileArguments {
    /// Net file in TOML.
    #[arg(value_name = "NET.toml")]
    net: PathBuf,
}

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// Net file in TOML. Without it the options describe one group.
    #[arg(conflicts_with = "LinkArguments")]
    net: Option<PathBuf>,
    #[command(flatten)]
    link: LinkArguments,
    /// Write measurements as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The report as JSON.
#[derive(Serialize)]
struct JsonReport<'t> {
    checked: &'t [LinkCheck],
    links: &'t [LinkStatistics],
}

/// Runs the command. The exit code of `run` is that of its program.
pub(crate) fn main(command: &NetCommand, stops: &dyn Fn() -> u8) -> ExitCode {
    let done = match command {
        NetCommand::Run(arguments) => run(arguments, stops),
        NetCommand::Up(arguments) => background::up(&arguments.net, stops),
        NetCommand::Down { name } => background::down(name),
        NetCommand::List => list(),
        NetCommand::Check(arguments) => check_net(arguments, stops),
        NetCommand::Clean => remove_stale().map(|()| ExitCode::SUCCESS),
        NetCommand::Keep(arguments) => background::keep(&arguments.net, stops),
    };
    done.unwrap_or_else(|error| {
        eprintln!("catlab net: {error}");
        ExitCode::from(2)
    })
}

fn run(arguments: &RunArguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let plan = NetSource { file: arguments.net.as_deref(), link: &arguments.link }.plan()?;
    let wanted = arguments.group.as_deref().unwrap_or(&plan.groups[0].name);
    let index = plan.groups.iter().position(|group| group.name == wanted);
    if index.is_none() && wanted != "hub" {
        return Err(format!("cannot run in group {wanted}: the net has no such group").into());
    }
    program::check(&arguments.command[0])?;
    remove_stale()?;
    let net = Net::make(&plan)?;
    let checked = if arguments.no_check { Vec::new() } else { measure(&net, &CheckPlan::QUICK, stops)? };
    for checked in &checked {
        eprintln!("{checked}");
    }
    let namespace = index.map_or(net.hub(), |index| &net.groups()[index]);
    let server = arguments.server.as_ref().map(|line| program::serve(&net, line, stops)).transpose()?;
    let code = match stops() {
        0 => program::run(&net, namespace, &arguments.command, stops),
        _ => Ok(ExitCode::from(130)),
    };
    drop(server);
    let links = net.finish()?;
    report(arguments.json.as_ref(), &checked, &links)?;
    code
}

fn check_net(arguments: &CheckArguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let plan = NetSource { file: arguments.net.as_deref(), link: &arguments.link }.plan()?;
    remove_stale()?;
    let net = Net::make(&plan)?;
    let checked = measure(&net, &CheckPlan::FULL, stops)?;
    let links = net.finish()?;
    for checked in &checked {
        eprintln!("{checked}");
    }
    report(arguments.json.as_ref(), &checked, &links)?;
    if checked.len() < plan.groups.len() {
        return Err("stopped".into());
    }
    let is_as_asked = checked.iter().all(|checked| checked.complaints.is_empty());
    Ok(ExitCode::from(u8::from(!is_as_asked)))
}

/// Measures the links one by one.
fn measure(net: &Net, plan: &CheckPlan, stops: &dyn Fn() -> u8) -> Result<Vec<LinkCheck>, Box<dyn Error>> {
    let mut checked = Vec::new();
    for index in 0..net.groups().len() {
        if stops() > 0 {
            break;
        }
        checked.push(check(net, index, plan)?);
    }
    Ok(checked)
}

/// Writes JSON if requested, and prints the link statistics.
fn report(json: Option<&PathBuf>, checked: &[LinkCheck], links: &[LinkStatistics]) -> Result<(), Box<dyn Error>> {
    for link in links {
        eprintln!("{link}");
    }
    let Some(path) = json else { return Ok(()) };
    let text = serde_json::to_string_pretty(&JsonReport { checked, links })? + "\n";
    if path.as_os_str() == "-" {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn list() -> Result<ExitCode, Box<dyn Error>> {
    for net in RecordedNet::all()? {
        let state = match (net.is_running(), net.is_ready) {
            (false, _) => "left over",
            (true, false) => "starting",
            (true, true) => "up",
        };
        println!("{}\t{state}\tprocess {}\t{}", net.name, net.pid, net.namespaces.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}
