//! `catlab zones build`: rebuilds zones from traces.

use super::fetch::Fetcher;
use super::print_report;
use super::sign::{Signing, reason};
use crate::arguments::{Ownership, ReadArguments, open_all_sides};
use crate::commands::trace::{print_lost, read};
use crate::out_folder::{Force, HIERARCHY, OutFolder};
use clap::{Args, ValueEnum};
use hierarchy::construct::{Assembly, Built, BuiltRecord, Dnssec, Reason, Survey};
use hierarchy::sign::ZoneRecords;
use hierarchy::{Folder, ZoneEntry, file_name, refuse_stream, write_zone};
use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use zone::Record;

/// Ends `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  catlab zones build upstream.pcap.xz --out zones
  catlab zones build monday.pcap tuesday.dnstap --out zones --dnssec off
  catlab zones build upstream.pcap --out zones --resign --key lab.key
  catlab zones build root-server.pcap.xz --out zones && named-checkzone . zones/zones/root.zone

The folder has zones/NAME.zone for each zone, hierarchy.json (which address serves which zones), report.json (what was
synthesized, left out, or answered in different ways) and conflicts.jsonl (all conflicting answers). Records that a zone
needs and that no server sent are synthesized, and marked in the zone file.
Several traces make one hierarchy. The first answer wins, in the order of the traces. docs/catlab/zones.md describes how
zones are found and what a rebuilt zone cannot know.

Exit code 0: all traces were read; 1: a trace is damaged, and messages before the damage were used; 2: nothing was
built.";

#[derive(Args)]
pub(crate) struct BuildArguments {
    /// Traces with responses, in any format that `catlab trace` reads.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Output folder for zones and report. It is created. It may only hold a hierarchy if --force is given.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    /// DNSSEC records: `keep` leaves them as captured (expired by now), `off` removes them, `resign` signs all zones
    /// with a new key (see --key, --days and --now) and writes trust anchors to OUT/anchors.txt.
    #[arg(long, value_name = "MODE", default_value = "keep")]
    dnssec: Mode,
    /// Same as --dnssec resign.
    #[arg(long, conflicts_with = "dnssec")]
    resign: bool,
    /// Query this resolver for missing zone cuts, name servers and addresses, once each. Without this option nothing is
    /// queried.
    #[arg(long, value_name = "ADDRESS:PORT")]
    fetch_from: Option<SocketAddr>,
    #[command(flatten)]
    ownership: Ownership,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    read: ReadArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Keep,
    Off,
    Resign,
}

/// Builds the zones. Returns false if a trace was damaged.
pub(super) fn build(arguments: &BuildArguments) -> Result<bool, Box<dyn Error>> {
    let BuildArguments { traces, out, read, .. } = arguments;
    arguments.ownership.allow(arguments.fetch_from.into_iter())?;
    traces.iter().try_for_each(|trace| refuse_stream(trace))?;
    let out = OutFolder::begin(out, &HIERARCHY, arguments.force)?;
    let mut survey = Survey::default();
    let is_whole = each_message(traces, read, true, |server, bytes| survey.add(server, bytes))?;
    let mut fetcher = arguments.fetch_from.map(Fetcher::new).transpose()?;
    if let Some(fetcher) = &mut fetcher {
        fetcher.probe(&mut survey)?;
    }
    let mode = if arguments.resign { Mode::Resign } else { arguments.dnssec };
    let dnssec = match mode {
        Mode::Keep => Dnssec::Keep,
        Mode::Off | Mode::Resign => Dnssec::Off,
    };
    let mut assembly = Assembly::new(survey.finish(), dnssec);
    each_message(traces, read, false, |server, bytes| assembly.add(server, bytes))?;
    if let Some(fetcher) = fetcher {
        fetcher.fetch(&mut assembly)?;
    }
    let mut built = assembly.finish();
    if built.zones.is_empty() {
        print_report::print(&built.report, true);
        return Err("cannot build: no response names a zone (see the counts above)".into());
    }
    if matches!(mode, Mode::Resign) {
        sign_built(&mut built, &arguments.signing, &out)?;
    }
    write_folder(out, &built)?;
    print_report::print(&built.report, true);
    Ok(is_whole)
}

/// Signs the built zones. Synthesized records stay marked, and records from signing are marked too.
fn sign_built(built: &mut Built, signing: &Signing, out: &OutFolder) -> Result<(), Box<dyn Error>> {
    let (mut zones, mut made) = (Vec::new(), Vec::new());
    for zone in &mut built.zones {
        let records = std::mem::take(&mut zone.records);
        let marked =
            |built: &BuiltRecord| Some(((built.record.owner.clone(), built.record.rtype), built.made.clone()?));
        made.push(records.iter().filter_map(marked).collect::<HashMap<_, Reason>>());
        let records = records.into_iter().map(|built| built.record).collect();
        zones.push(ZoneRecords { apex: zone.apex.clone(), records });
    }
    signing.sign(&mut zones, out)?;
    for ((zone, signed), made) in built.zones.iter_mut().zip(zones).zip(made) {
        let marked = |record: Record| {
            let made = made.get(&(record.owner.clone(), record.rtype)).cloned();
            BuiltRecord { made: made.or_else(|| reason(&record).map(Reason::from)), record }
        };
        zone.records = signed.records.into_iter().map(marked).collect();
    }
    for (report, zone) in built.report.zones.iter_mut().zip(&built.zones) {
        (report.records, report.is_signed, report.missing_proofs) = (zone.records.len(), true, 0);
    }
    Ok(())
}

/// Passes the sender and the bytes of every message to `each`. Returns false if a trace is damaged. Traces are read
/// twice, and damage is reported the first time.
fn each_message(
    traces: &[PathBuf],
    arguments: &ReadArguments,
    is_first: bool,
    mut each: impl FnMut(IpAddr, &[u8]),
) -> Result<bool, Box<dyn Error>> {
    let mut are_whole = true;
    for path in traces {
        let mut reader = open_all_sides(path, arguments)?;
        let mut show = |message: &trace::Message<'_>| each(message.source.ip(), message.bytes);
        if is_first {
            are_whole &= read(path, &mut reader, |message| {
                show(message);
                Ok(true)
            })?;
            print_lost(path, &reader);
        } else {
            // The first pass has reported the error, and this one ends at the same place.
            while let Ok(Some(message)) = reader.next() {
                show(&message);
            }
        }
    }
    Ok(are_whole)
}

/// The file of conflicting RRsets, one JSON object per line.
const CONFLICTS: &str = "conflicts.jsonl";

/// Writes zone files, report and conflicts. The index is written last.
pub(super) fn write_folder(folder: OutFolder, built: &Built) -> Result<(), Box<dyn Error>> {
    let out = folder.path();
    let named = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut entries = Vec::new();
    for (number, zone) in built.zones.iter().enumerate() {
        let name = zone.apex.to_string();
        let file = file_name(&name, number);
        let made = zone.records.iter().filter(|record| record.made.is_some()).count();
        let count = zone.records.len();
        let head =
            format!("{name}, rebuilt from traffic by catlab: {count} records, {made} of them synthesized and marked");
        write_zone(&out.join(&file), &head, zone.records.iter().map(|built| (&built.record, built.made.as_deref())))?;
        entries.push(ZoneEntry { name, file, servers: zone.servers.clone() });
    }
    let conflicts = out.join(CONFLICTS);
    write_conflicts(&conflicts, built).map_err(|error| named(&conflicts, error))?;
    let report = out.join("report.json");
    let text = serde_json::to_string_pretty(&built.report)? + "\n";
    fs::write(&report, text).map_err(|error| named(&report, error))?;
    Folder::new(entries).with_behaviors(built.behaviors.clone()).write(out).map_err(|error| named(out, error))?;
    Ok(folder.commit()?)
}

fn write_conflicts(path: &Path, built: &Built) -> std::io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    for conflict in &built.conflicts {
        serde_json::to_writer(&mut file, conflict)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}
