//! `catlab net`: namespaces with links of a given delay between them.

mod plan;
pub(crate) mod program;
mod stay;

use clap::{Args, Subcommand};
use links::check::{CheckPlan, Checked, check};
use links::{LinkStatistics, Net, Recorded};
pub(crate) use plan::name_of;
use plan::{Asked, Simple};
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

A net is a hub, where the server is (10.53.0.1 and fd53:ca7::1), and groups of clients, each behind a link of its own:
group 0 has 10.100.0.0/16 and fd53:ca7:1::/64, group 1 10.101.0.0/16 and fd53:ca7:2::/64, and so on. Each direction of a
link takes half of the round trip, and no packet comes sooner than asked. docs/catlab/net.md has all that a file can
say.

Whatever a run, or a crash of one, has left behind is removed when the next one starts, or by `catlab net clean`.
It takes root, iproute2, and /dev/net/tun where the kernel has no netem.";

const FILE_EXAMPLE: &str = "A file of two groups:
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
    /// Makes a net, measures its links shortly, runs a program in it, removes it.
    #[command(after_help = EXAMPLES)]
    Run(RunArguments),
    /// Makes a net that stays until `catlab net down`.
    #[command(after_help = FILE_EXAMPLE)]
    Up(FileArguments),
    /// Removes a net, and tells what its links did.
    Down {
        /// Its name.
        name: String,
    },
    /// The nets of this machine.
    List,
    /// Makes a net, measures whether its links do what was asked, removes it.
    #[command(after_help = "Exit code 0: all is as asked; 1: something is not; 2: nothing was measured.")]
    Check(CheckArguments),
    /// Removes nets whose processes are gone.
    Clean,
    /// Holds a net until it is told to end: what `up` starts.
    #[command(hide = true)]
    Keep(FileArguments),
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// The net, in TOML; without it one group as the options say.
    #[arg(conflicts_with = "Simple")]
    net: Option<PathBuf>,
    #[command(flatten)]
    simple: Simple,
    /// The group whose machine the program runs on, or `hub`; the first group otherwise.
    #[arg(long = "in", value_name = "GROUP")]
    place: Option<String>,
    /// A command line that runs on the hub meanwhile; the program starts when it listens.
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
    /// Does not measure the links first.
    #[arg(long)]
    no_check: bool,
    /// Writes what was measured and what the links did as JSON, `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The program and its arguments; CATLAB_HUB and CATLAB_HUB6 are the hub's addresses to it.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Args)]
pub(crate) struct FileArguments {
    /// The net, in TOML.
    #[arg(value_name = "NET.toml")]
    net: PathBuf,
}

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// The net, in TOML; without it one group as the options say.
    #[arg(conflicts_with = "Simple")]
    net: Option<PathBuf>,
    #[command(flatten)]
    simple: Simple,
    /// Writes what was measured as JSON, `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What JSON holds.
#[derive(Serialize)]
struct Told<'t> {
    checked: &'t [Checked],
    links: &'t [LinkStatistics],
}

/// Does what was asked; the exit code of `run` is its program's.
pub(crate) fn main(command: &NetCommand, stops: &dyn Fn() -> u8) -> ExitCode {
    let done = match command {
        NetCommand::Run(arguments) => run(arguments, stops),
        NetCommand::Up(arguments) => stay::up(&arguments.net, stops),
        NetCommand::Down { name } => stay::down(name),
        NetCommand::List => list(),
        NetCommand::Check(arguments) => check_net(arguments, stops),
        NetCommand::Clean => removed().map(|()| ExitCode::SUCCESS),
        NetCommand::Keep(arguments) => stay::keep(&arguments.net, stops),
    };
    done.unwrap_or_else(|error| {
        eprintln!("catlab net: {error}");
        ExitCode::from(2)
    })
}

/// Removes what others have left behind, and says so.
pub(crate) fn removed() -> Result<(), Box<dyn Error>> {
    for name in links::clean()? {
        eprintln!("catlab net: removed {name}, whose process is gone");
    }
    Ok(())
}

fn run(arguments: &RunArguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let plan = Asked { file: arguments.net.as_deref(), simple: &arguments.simple }.plan()?;
    let place = arguments.place.as_deref().unwrap_or(&plan.groups[0].name);
    let index = plan.groups.iter().position(|group| group.name == place);
    if index.is_none() && place != "hub" {
        return Err(format!("{place}: the net has no such group").into());
    }
    program::check(&arguments.command[0])?;
    removed()?;
    let net = Net::make(&plan)?;
    let checked = if arguments.no_check { Vec::new() } else { measure(&net, &CheckPlan::SHORT, stops)? };
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
    tell(arguments.json.as_ref(), &checked, &links)?;
    code
}

fn check_net(arguments: &CheckArguments, stops: &dyn Fn() -> u8) -> Result<ExitCode, Box<dyn Error>> {
    let plan = Asked { file: arguments.net.as_deref(), simple: &arguments.simple }.plan()?;
    removed()?;
    let net = Net::make(&plan)?;
    let checked = measure(&net, &CheckPlan::WHOLE, stops)?;
    let links = net.finish()?;
    for checked in &checked {
        eprintln!("{checked}");
    }
    tell(arguments.json.as_ref(), &checked, &links)?;
    if checked.len() < plan.groups.len() {
        return Err("stopped".into());
    }
    let is_as_asked = checked.iter().all(|checked| checked.complaints.is_empty());
    Ok(ExitCode::from(u8::from(!is_as_asked)))
}

/// Measures each link, one after another.
fn measure(net: &Net, plan: &CheckPlan, stops: &dyn Fn() -> u8) -> Result<Vec<Checked>, Box<dyn Error>> {
    let mut checked = Vec::new();
    for index in 0..net.groups().len() {
        if stops() > 0 {
            break;
        }
        checked.push(check(net, index, plan)?);
    }
    Ok(checked)
}

/// Writes JSON where it is wanted, and what the links did.
fn tell(json: Option<&PathBuf>, checked: &[Checked], links: &[LinkStatistics]) -> Result<(), Box<dyn Error>> {
    for link in links {
        eprintln!("{link}");
    }
    let Some(path) = json else { return Ok(()) };
    let text = serde_json::to_string_pretty(&Told { checked, links })? + "\n";
    if path.as_os_str() == "-" {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn list() -> Result<ExitCode, Box<dyn Error>> {
    for net in Recorded::all()? {
        let state = match (net.is_held(), net.is_ready) {
            (false, _) => "left behind",
            (true, false) => "being made",
            (true, true) => "up",
        };
        println!("{}\t{state}\tprocess {}\t{}", net.name, net.pid, net.namespaces.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}
