//! `catlab zones sign`: signs a hierarchy with a new key.

use super::marks::read_marked;
use crate::key_file;
use crate::out_folder::{Force, HIERARCHY, OutFolder};
use clap::Args;
use hierarchy::sign::{Anchor, Validity, ZoneRecords, is_made_by_signing, sign};
use hierarchy::{Folder, write_zone};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use wire::Name;
use wire::number::Rtype;
use zone::{Record, text};

/// Ends `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  catlab zones synth --zones 1000 --out tree && catlab zones sign tree --out signed
  catlab zones sign tree --key lab.key --days 3650 --out signed
  catlab hierarchy run signed --resolver bind --anchor signed/anchors.txt -- dig @127.0.0.1 www.z35.t3 A +dnssec

Each zone gets a key (Ed25519), signatures, an NSEC chain, and DS records for the zones that it delegates. Existing
DNSSEC records are removed. Records that `catlab zones build` synthesized stay marked. OUT/anchors.txt has the DS
records of the trust anchors. Unbound reads it as trust-anchor-file, and `catlab hierarchy --anchor` for every resolver.

Exit code 0: all zones are signed; 2: failed.";

/// Seconds of a day.
const DAY: u64 = 86_400;
/// Signatures begin this many seconds before the signing time, because clocks differ.
const EARLIER: u64 = 3_600;

#[derive(Args)]
pub(crate) struct SignArguments {
    /// Folder from `catlab zones build` or `catlab zones synth`.
    folder: PathBuf,
    /// Output folder. It is created. It may only hold a hierarchy if --force is given.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    signing: Signing,
}

/// Options for signing.
#[derive(Args)]
pub(super) struct Signing {
    /// File with the secret from which all keys are derived: 64 hex digits. A missing file is created. The default is
    /// OUT/lab.key.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Validity of signatures in days, starting an hour before --now.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_650))]
    days: u64,
    /// Time of signing in seconds since 1970. The default is the current time.
    #[arg(long, value_name = "SECONDS")]
    now: Option<u32>,
}

/// Signs the folder.
pub(super) fn sign_folder(arguments: &SignArguments) -> Result<bool, Box<dyn Error>> {
    let out = OutFolder::begin(&arguments.out, &HIERARCHY, arguments.force)?;
    let folder = Folder::read(&arguments.folder)?;
    let (mut zones, mut marks) = (Vec::with_capacity(folder.zones.len()), Vec::new());
    for entry in &folder.zones {
        let apex = entry.name.parse().map_err(|_| format!("{} is not a name of a zone", entry.name))?;
        let (loaded, made) = read_marked(&arguments.folder.join(&entry.file), &apex)?;
        let records: Vec<Record> = loaded.records.iter().map(|record| record.to_record()).collect();
        marks.push(SynthesisReasons::new(&records, made));
        zones.push(ZoneRecords { apex: loaded.apex, records });
    }
    arguments.signing.sign(&mut zones, &out)?;
    for ((zone, marks), entry) in zones.iter().zip(&marks).zip(&folder.zones) {
        let head = format!("{}, signed by catlab: {} records", entry.name, zone.records.len());
        write_zone(&out.path().join(&entry.file), &head, zone.records.iter().map(|record| (record, marks.of(record))))?;
    }
    folder.write(out.path())?;
    out.commit()?;
    Ok(true)
}

/// Why RRsets were synthesized before they were signed.
struct SynthesisReasons(HashMap<(Name, Rtype), String>);

impl SynthesisReasons {
    fn new(records: &[Record], made: Vec<Option<String>>) -> Self {
        let key = |record: &Record| (record.owner.as_ref().to_canonical(), record.rtype);
        let marked = records.iter().zip(made).filter(|(record, _)| !is_made_by_signing(record.rtype));
        Self(marked.filter_map(|(record, why)| Some((key(record), why?))).collect())
    }

    /// The mark of a record.
    fn of(&self, record: &Record) -> Option<&str> {
        let known = || self.0.get(&(record.owner.as_ref().to_canonical(), record.rtype)).map(String::as_str);
        reason(record).or_else(known)
    }
}

/// The mark of a record that signing has added.
pub(super) fn reason(record: &Record) -> Option<&'static str> {
    is_made_by_signing(record.rtype).then_some("signed anew")
}

impl Signing {
    /// Signs zones and writes trust anchors to the output folder.
    pub(super) fn sign(&self, zones: &mut [ZoneRecords], out: &OutFolder) -> Result<(), Box<dyn Error>> {
        // The key of earlier results is reused.
        let own = |folder: &Path| folder.join("lab.key");
        let kept = Some(own(out.target())).filter(|path| path.exists());
        let path = self.key.clone().or(kept).unwrap_or_else(|| own(out.path()));
        let key = key_file::read_or_make(&path, "reuse it to get the same keys and signatures")?;
        let now = match self.now {
            Some(now) => now,
            // RRSIG times use serial arithmetic, so times after 2106 are fine (RFC 4034 3.1.5).
            None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as u32,
        };
        let inception = now.wrapping_sub(EARLIER as u32);
        let validity = Validity { inception, expiration: inception.wrapping_add((self.days * DAY) as u32) };
        let style = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} zones")?;
        let bar = ProgressBar::new(zones.len() as u64).with_style(style);
        let trust = sign(zones, &key, validity, |count| bar.set_position(count as u64));
        bar.finish_and_clear();
        write_anchors(out.path(), &trust.anchors)?;
        let records: usize = zones.iter().map(|zone| zone.records.len()).sum();
        println!("{} zones signed, {records} records; trust anchors: {}", zones.len(), names(&trust.anchors));
        for zone in &trust.undelegated {
            eprintln!("{zone}: its parent zone does not delegate it, so resolvers cannot find it");
        }
        Ok(())
    }
}

/// The first names, and the number of the others.
fn names(anchors: &[Anchor]) -> String {
    const SHOWN: usize = 5;
    let mut shown: Vec<String> = anchors.iter().take(SHOWN).map(|anchor| anchor.zone.to_string()).collect();
    if anchors.len() > SHOWN {
        shown.push(format!("{} more", anchors.len() - SHOWN));
    }
    shown.join(", ")
}

/// Writes the trust anchors as records of a zone file.
fn write_anchors(out: &Path, anchors: &[Anchor]) -> Result<(), Box<dyn Error>> {
    let mut records = String::new();
    for Anchor { zone, ds } in anchors {
        let mut digest = String::new();
        text::print_rdata(Rtype::DS, ds, &mut digest);
        writeln!(records, "{zone} 3600 IN DS {digest}")?;
    }
    let path = out.join("anchors.txt");
    Ok(fs::write(&path, records).map_err(|error| format!("{}: {error}", path.display()))?)
}
