//! `zone`: add, replace, list, export, check, remove.

use super::client::{Client, query};
use super::difference::Difference;
use super::output::{self, print};
use crate::target::Target;
use clap::{Args, Subcommand};
use config::api_types::{DoneJson, ZoneJson};
use config::files::zone_load::{LoadedZone, load};
use config::files::zone_source::ZoneArgument;
use process::problem::{Exit, Problem};
use std::io::{IsTerminal, Write};
use wire::{Name, Serial};

/// Examples of `zone`.
pub(super) const EXAMPLES: &str = "\
Examples:
  catamaran zone check db.example
  catamaran zone add example.org=db.example
  catamaran zone replace example.org=db.example
  catamaran zone export example.org > db.example";

const ADD_EXAMPLES: &str = "\
Examples:
  catamaran zone add example.org.zone
  catamaran zone add example.org=db.example.gz";

const REPLACE_EXAMPLES: &str = "\
Examples:
  catamaran zone replace example.org.zone        show the difference, and ask for confirmation
  catamaran zone replace example.org=db --yes    do not ask";

const SET_EXAMPLES: &str = "\
Examples:
  catamaran zone set example.org --serial unixtime
  catamaran zone set example.org --stale expire
  catamaran zone set example.org --ack all-live";

const LIST_EXAMPLES: &str = "\
Examples:
  catamaran zone list
  catamaran zone list --consistent           include every change that any node has acknowledged";

const EXPORT_EXAMPLES: &str = "\
Examples:
  catamaran zone export example.org > example.org.zone
  catamaran zone export example.org --consistent > example.org.zone";

const CHECK_EXAMPLES: &str = "\
Examples:
  catamaran zone check example.org.zone
  catamaran zone check example.org=db.example.xz

Prints each finding as `file:line: reason`. Exits with 3 if the file cannot be served.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  catamaran zone remove example.org          ask for confirmation
  catamaran zone remove example.org --yes    do not ask";

/// Options of a zone.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ZoneOptionArgs {
    /// How an update sets the serial: add one (`increment`), seconds since 1970 (`unixtime`), or YYYYMMDD00 in UTC
    /// (`date`). The last two add one if the result would not be newer.
    #[arg(long = "serial", value_name = "POLICY", value_parser = ["increment", "unixtime", "date"])]
    pub(crate) serial_policy: Option<String>,
    /// What a node without a leader does: keep answering (`serve`), or stop after the SOA's EXPIRE (`expire`).
    #[arg(long, value_name = "OPTION", value_parser = ["serve", "expire"])]
    pub(crate) stale: Option<String>,
    /// When an update is acknowledged: when it is durable on a `majority`, or when in addition all nodes that answer
    /// queries serve it (`all-live`).
    #[arg(long, value_name = "OPTION", value_parser = ["majority", "all-live"])]
    pub(crate) ack: Option<String>,
    /// Maximum TTL in the zone; 0 removes the limit. The limit applies to zone files and to all updates. Existing
    /// records over the limit can stay or be deleted.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) ttl_max: Option<u32>,
    /// Maximum number of records of one type at a name; 0 removes the limit.
    #[arg(long, value_name = "COUNT")]
    pub(crate) rrset_records_max: Option<u32>,
    /// Maximum number of records in the zone; 0 removes the limit.
    #[arg(long, value_name = "COUNT")]
    pub(crate) records_max: Option<u32>,
}

/// Consistency of reads.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ReadArgs {
    /// Include every change that any node has acknowledged. Needs a majority.
    #[arg(long)]
    pub(crate) consistent: bool,
}

/// `zone ...`
#[derive(Subcommand, Debug)]
pub(crate) enum ZoneCommand {
    /// Add a zone from a file.
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// Zone file: `FILE` or `ORIGIN=FILE`. A relative $INCLUDE is resolved from the including file's directory.
        #[arg(value_name = "[ORIGIN=]FILE")]
        file: String,
        #[command(flatten)]
        options: ZoneOptionArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Replace a zone with a file, in one step, after showing the difference.
    #[command(after_help = REPLACE_EXAMPLES)]
    Replace {
        /// Zone file: `FILE` or `ORIGIN=FILE`. A relative $INCLUDE is resolved from the including file's directory.
        #[arg(value_name = "[ORIGIN=]FILE")]
        file: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Change the options of a zone.
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// Name of the zone.
        zone: String,
        #[command(flatten)]
        options: ZoneOptionArgs,
        #[command(flatten)]
        target: Target,
    },
    /// List all zones with their serials.
    #[command(after_help = LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        read: ReadArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Print a zone in zone file format.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export {
        /// Name of the zone.
        zone: String,
        #[command(flatten)]
        read: ReadArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Check a zone file. Needs no cluster.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Zone file: `FILE` or `ORIGIN=FILE`. A relative $INCLUDE is resolved from the including file's directory.
        #[arg(value_name = "[ORIGIN=]FILE")]
        file: String,
    },
    /// Remove a zone, its options and its grants.
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove {
        /// Name of the zone.
        zone: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(command: &ZoneCommand) -> Result<(), Problem> {
    match command {
        ZoneCommand::Add { file, options, target } => add(file, options, target),
        ZoneCommand::Set { zone, options, target } => set(zone, options, target),
        ZoneCommand::Replace { file, yes, target } => replace(file, *yes, target),
        ZoneCommand::List { read, target } => list(*read, target),
        ZoneCommand::Export { zone, read, target } => export(zone, *read, target),
        ZoneCommand::Check { file } => check(file),
        ZoneCommand::Remove { zone, yes, target } => remove(zone, *yes, target),
    }
}

/// One line about a zone.
pub(crate) fn line(zone: &ZoneJson) -> String {
    let signed = if zone.presigned { ", presigned" } else { "" };
    let options: String = [
        ("serial", &zone.options.serial_policy, "increment"),
        ("stale", &zone.options.stale, "serve"),
        ("ack", &zone.options.ack, "majority"),
    ]
    .into_iter()
    .filter_map(|(key, value, default)| {
        value.as_ref().filter(|value| *value != default).map(|value| format!(", {key} {value}"))
    })
    .collect();
    let limits: String = [
        ("ttl-max", zone.options.ttl_max),
        ("rrset-records-max", zone.options.rrset_records_max),
        ("records-max", zone.options.records_max),
    ]
    .into_iter()
    .filter_map(|(key, limit)| limit.map(|limit| format!(", {key} {limit}")))
    .collect();
    format!("zone {}: serial {}, {} records{signed}{options}{limits}", zone.zone, zone.serial, zone.records)
}

fn add(file: &str, options: &ZoneOptionArgs, target: &Target) -> Result<(), Problem> {
    let zone = read(file)?;
    let client = Client::find(target)?;
    client.change_zone("POST", &(path(&zone.apex) + &option_query(options)), &zone.records).map_err(|problem| {
        let exists = problem.why.contains("exists");
        let problem = problem.of(format!("cannot add zone {}", zone.apex));
        if exists {
            problem.hint(format!("run `catamaran zone replace {file}` to show the difference and apply it"))
        } else {
            problem
        }
    })?;
    print(&format!("zone {} added, {} records{}", zone.apex, zone.records.len(), serial_words(&client, &zone.apex)))
}

/// The serial of the served zone. It may differ from the file, since serials never go back.
fn served_serial(client: &Client, apex: &Name) -> Option<Serial> {
    let zones: Vec<ZoneJson> = client.get_json("/v1/zones").ok()?;
    let zone = zones.iter().find(|zone| zone.zone.eq_ignore_ascii_case(&apex.to_string()))?;
    Some(Serial(zone.serial))
}

fn serial_words(client: &Client, apex: &Name) -> String {
    served_serial(client, apex).map(|serial| format!(", serial {}", serial.0)).unwrap_or_default()
}

fn set(zone: &str, options: &ZoneOptionArgs, target: &Target) -> Result<(), Problem> {
    let apex = apex(zone)?;
    let path = path(&apex) + &option_query(options);
    Client::find(target)?
        .change("PATCH", &path, &[])
        .map_err(|problem| problem.of(format!("cannot change the options of zone {apex}")))?;
    print(&format!("options of zone {apex} set"))
}

fn option_query(options: &ZoneOptionArgs) -> String {
    let named = [("serial_policy", &options.serial_policy), ("stale", &options.stale), ("ack", &options.ack)];
    let words = named.into_iter().filter_map(|(key, value)| Some(format!("&{}", query(key, value.as_deref()?))));
    let limits = [
        ("ttl_max", options.ttl_max),
        ("rrset_records_max", options.rrset_records_max),
        ("records_max", options.records_max),
    ];
    words.chain(limits.into_iter().filter_map(|(key, limit)| Some(format!("&{key}={}", limit?)))).collect()
}

fn replace(file: &str, yes: bool, target: &Target) -> Result<(), Problem> {
    let zone = read(file)?;
    let client = Client::find(target)?;
    let now = client.get(&path(&zone.apex))?;
    let base = now.version.clone().unwrap_or_default();
    let text = zone.text();
    let difference = Difference::between(&String::from_utf8_lossy(&now.body), &text);
    if difference.is_empty() {
        return print(&format!("zone {}: no difference, nothing changed", zone.apex));
    }
    output::done(difference.print(&mut std::io::stdout().lock()))?;
    if let Some(served) =
        served_serial(&client, &zone.apex).filter(|served| !Serial(zone.serial).is_newer_than(*served))
    {
        let (file, served) = (zone.serial, served.0);
        print(&format!(
            "note: serial {file} of the file is not newer than {served}; the zone will get the next serial"
        ))?;
    }
    if !yes && !confirmed(&format!("Replace zone {}?", zone.apex))? {
        return print("nothing changed");
    }
    let path = format!("{}&{}", path(&zone.apex), query("base", &base));
    let answer = client
        .change_zone("PUT", &path, &zone.records)
        .map_err(|problem| problem.of(format!("cannot replace zone {}", zone.apex)))?;
    match serde_json::from_slice(&answer.body) {
        Ok(DoneJson { changed: false }) => {
            print(&format!("zone {}: only the serial differs, and it is not newer; nothing changed", zone.apex))
        }
        _ => print(&format!("zone {} replaced{}", zone.apex, serial_words(&client, &zone.apex))),
    }
}

fn list(read: ReadArgs, target: &Target) -> Result<(), Problem> {
    let path = if read.consistent { "/v1/zones?consistent=1" } else { "/v1/zones" };
    let zones: Vec<ZoneJson> = Client::find(target)?.get_json(path)?;
    zones.iter().try_for_each(|zone| print(&line(zone)))
}

fn export(zone: &str, read: ReadArgs, target: &Target) -> Result<(), Problem> {
    let consistent = if read.consistent { "&consistent=1" } else { "" };
    let answer = Client::find(target)?.get(&(path(&apex(zone)?) + consistent))?;
    let mut out = std::io::stdout().lock();
    output::done(out.write_all(&answer.body).and_then(|()| out.flush()))
}

fn check(file: &str) -> Result<(), Problem> {
    let zone = read(file)?;
    for warning in &zone.warnings {
        print(warning)?;
    }
    print(&format!("zone {}: serial {}, {} records, can be served", zone.apex, zone.serial, zone.records.len()))
}

fn remove(zone: &str, yes: bool, target: &Target) -> Result<(), Problem> {
    let apex = apex(zone)?;
    let client = Client::find(target)?;
    if !yes && !confirmed(&format!("Remove zone {apex} with all its records, options and grants?"))? {
        return print("nothing changed");
    }
    client.change("DELETE", &path(&apex), &[]).map_err(|problem| problem.of(format!("cannot remove zone {apex}")))?;
    print(&format!("zone {apex} removed"))
}

fn read(file: &str) -> Result<LoadedZone, Problem> {
    load(&ZoneArgument::parse(file)?)
}

fn path(apex: &Name) -> String {
    format!("/v1/zone?{}", query("zone", &apex.to_string()))
}

fn apex(text: &str) -> Result<Name, Problem> {
    super::domain_name::domain_name(text)
}

/// Asks on the terminal. Without a terminal this is an error, so that a script never hangs.
fn confirmed(question: &str) -> Result<bool, Problem> {
    if !std::io::stdin().is_terminal() {
        return Err(
            Problem::new(Exit::Usage, "cannot ask for confirmation", "stdin is not a terminal").hint("add --yes")
        );
    }
    let mut answer = String::new();
    let mut out = std::io::stdout().lock();
    write!(out, "{question} [y/N] ")
        .and_then(|()| out.flush())
        .and_then(|()| std::io::stdin().read_line(&mut answer))
        .map_err(|error| Problem::new(Exit::Failed, "cannot read the confirmation", error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
