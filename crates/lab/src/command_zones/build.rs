//! `catlab zones build`: traces in, a folder of zones out.

use super::{fetch, told};
use crate::command_trace::{ReadArguments, open, read, tell_lost};
use clap::{Args, ValueEnum};
use hierarchy::construct::{Assembly, Built, BuiltZone, Dnssec, LabKey, Survey};
use hierarchy::{Folder, ZoneEntry, file_name};
use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use zone::Record;

/// Ends `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  catlab zones build upstream.pcap.xz --out zones
  catlab zones build monday.pcap tuesday.dnstap --out zones --dnssec off
  catlab zones build upstream.pcap.xz --out zones --resign
  catlab zones build root-server.pcap.xz --out zones && named-checkzone . zones/zones/root.zone

The folder holds zones/NAME.zone for each zone, hierarchy.json (which address serves which zones) and report.json (what
was made up, left out, or answered in two ways). What nobody sent and a zone needs is made, and marked in its file.
Several traces make one hierarchy, in the order in which they are named: the first answer wins. docs/zones.md says how
zones are told apart, and what a rebuilt zone cannot know.
Exit code 0: all was read; 1: a trace is damaged, and what came before that is used; 2: nothing was built.";

/// What stands behind a record that was made up.
pub(super) const MADE_MARK: &str = " ; made: ";

#[derive(Args)]
pub(crate) struct BuildArguments {
    /// Traces with responses, as `catlab trace` reads them.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The folder for zones and report; it is made, and must not hold a hierarchy.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What becomes of signatures: keep leaves them as they were captured (valid then, not now), off leaves out all
    /// that only signed zones have, resign signs every zone with a new key, whose trust anchor is in anchors.key.
    #[arg(long, value_name = "MODE", default_value = "keep")]
    dnssec: Mode,
    /// As --dnssec resign.
    #[arg(long, conflicts_with = "dnssec")]
    resign: bool,
    /// Asks this resolver, once each, for name servers that nobody named and for their addresses. Nothing is asked
    /// otherwise.
    #[arg(long, value_name = "ADDRESS:PORT")]
    fetch_from: Option<SocketAddr>,
    #[command(flatten)]
    read: ReadArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Keep,
    Off,
    Resign,
}

/// Builds them; false when a trace was damaged.
pub(super) fn build(arguments: &BuildArguments) -> Result<bool, Box<dyn Error>> {
    let BuildArguments { traces, out, read, .. } = arguments;
    if traces.iter().any(|trace| trace.as_os_str() == "-") {
        return Err("standard input cannot be read twice, which this takes; write it to a file first".into());
    }
    refuse_hierarchy(out)?;
    let mut survey = Survey::default();
    let is_whole = each_message(traces, read, true, |server, octets| survey.add(server, octets))?;
    let mode = if arguments.resign { Mode::Resign } else { arguments.dnssec };
    let dnssec = match mode {
        Mode::Keep => Dnssec::Keep,
        Mode::Off | Mode::Resign => Dnssec::Off,
    };
    let mut assembly = Assembly::new(survey.finish(), dnssec);
    each_message(traces, read, false, |server, octets| assembly.add(server, octets))?;
    if let Some(resolver) = arguments.fetch_from {
        fetch::fetch(&mut assembly, resolver)?;
    }
    let mut built = assembly.finish();
    if built.zones.is_empty() {
        told::print(&built.report, true);
        return Err("no zone: none of the responses tells of one (see above what became of them)".into());
    }
    let anchors = if matches!(mode, Mode::Resign) { sign(&mut built)? } else { Vec::new() };
    write_folder(out, &built, &anchors)?;
    told::print(&built.report, true);
    Ok(is_whole)
}

/// A folder that holds a hierarchy is nobody's to write over.
pub(super) fn refuse_hierarchy(out: &Path) -> Result<(), String> {
    if out.join("hierarchy.json").exists() {
        return Err(format!("{}: there is a hierarchy already; name another folder, or remove it", out.display()));
    }
    Ok(())
}

/// Shows the sender and the octets of every message; false when a trace is damaged. What is wrong with a trace is told
/// in the first of two passes.
fn each_message(
    traces: &[PathBuf],
    arguments: &ReadArguments,
    is_first: bool,
    mut each: impl FnMut(IpAddr, &[u8]),
) -> Result<bool, Box<dyn Error>> {
    let mut are_whole = true;
    for path in traces {
        let mut reader = open(path, arguments)?;
        let mut show = |message: &trace::Message<'_>| each(message.source.ip(), message.octets);
        if is_first {
            are_whole &= read(path, &mut reader, |message| {
                show(message);
                Ok(true)
            })?;
            tell_lost(path, &reader);
        } else {
            // The first pass has told of an error, which ends this one at the same place.
            while let Ok(Some(message)) = reader.next() {
                show(&message);
            }
        }
    }
    Ok(are_whole)
}

/// Signs every zone with a new key; gives the trust anchors.
pub(super) fn sign(built: &mut Built) -> Result<Vec<Record>, Box<dyn Error>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let no_random = |_| "the system gives no random octets, which a key is made of";
    let key = LabKey::generate().map_err(no_random)?;
    // RFC 4034 3.1.5: times of signatures count modulo 2^32.
    Ok(built.resign(&key, now as u32).map_err(no_random)?)
}

/// Writes zone files and report, and the index when they are there.
pub(super) fn write_folder(out: &Path, built: &Built, anchors: &[Record]) -> Result<(), Box<dyn Error>> {
    let named = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(out.join("zones")).map_err(|error| named(out, error))?;
    let mut entries = Vec::new();
    for (number, zone) in built.zones.iter().enumerate() {
        let name = zone.apex.to_string();
        let file = file_name(&name, number);
        let path = out.join(&file);
        write_zone(&path, zone).map_err(|error| named(&path, error))?;
        entries.push(ZoneEntry { name, file, servers: zone.servers.clone() });
    }
    if !anchors.is_empty() {
        let mut text = String::new();
        for anchor in anchors {
            zone::text::print_record(anchor, &mut text);
            text.push('\n');
        }
        let path = out.join("anchors.key");
        fs::write(&path, text).map_err(|error| named(&path, error))?;
    }
    let report = out.join("report.json");
    let text = serde_json::to_string_pretty(&built.report)? + "\n";
    fs::write(&report, text).map_err(|error| named(&report, error))?;
    Ok(Folder::new(entries).write(out).map_err(|error| named(out, error))?)
}

fn write_zone(path: &Path, zone: &BuiltZone) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let made = zone.records.iter().filter(|record| record.made.is_some()).count();
    let head = format!("; {}, rebuilt from traffic by catlab", zone.apex);
    writeln!(file, "{head}: {} records, {made} of them made up and marked", zone.records.len())?;
    let mut line = String::new();
    for built in &zone.records {
        line.clear();
        zone::text::print_record(&built.record, &mut line);
        if let Some(why) = built.made {
            // A comment, so that any server reads the file.
            let _written = write!(line, "{MADE_MARK}{why}");
        }
        writeln!(file, "{line}")?;
    }
    file.flush()
}
