//! `catlab trace anonymize`: removes identifying data from a trace.

use super::reading::{print_lost, read};
use super::writing::{WriteArguments, create, finish};
use crate::arguments::parse_name;
use crate::arguments::{ReadArguments, open};
use crate::key_file;
use clap::{Args, ValueEnum};
use load::limits::RULES_BYTES_MAX;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use trace::anonymize::{Anonymization, Anonymizer, Key, LabelLengths, Options};
use wire::name::Name;

/// Advice for a newly created key.
const ADVICE: &str = "keep it secret, and reuse it for traces that need the same pseudonyms";

pub(crate) const EXAMPLES: &str = "Examples:
  catlab trace anonymize day.pcap --key trace.key --out shown.pcap
  catlab trace anonymize day.pcap --key trace.key --keep-suffix com --keep-suffix net --options drop --out shown.pcap
  catlab trace anonymize next.pcap --key trace.key --keep-suffixes tlds.txt --lengths hide --out shown.txt.gz

Pseudonyms of addresses keep common prefixes (Crypto-PAn), and those of names keep the labels. With the same key, an
address or name has the same pseudonym in every trace. Keep the key secret: it can reverse the pseudonyms. Times, ports
and IDs are not changed. docs/catlab/anonymize.md lists what is kept and what is blanked.

Exit code 0: read to the end; 1: the trace is damaged, and messages before the damage were written; 2: nothing was
written.";

#[derive(Args)]
pub(crate) struct AnonymizeArguments {
    /// Trace. `-` is standard input.
    trace: PathBuf,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    write: WriteArguments,
    /// File with the key: 64 hex digits. A missing file is created.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Keep this suffix of names. May be given several times.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    keep_suffix: Vec<Name>,
    /// File of suffixes to keep, one per line. `#` begins a comment.
    #[arg(long, value_name = "FILE")]
    keep_suffixes: Option<PathBuf>,
    /// Lengths of labels: `keep`, or `hide` to make all labels 13 bytes long.
    #[arg(long, value_name = "HOW", default_value = "keep")]
    lengths: LengthsArgument,
    /// EDNS options: `blank`, `drop` or `keep`. The address of a client subnet is always replaced.
    #[arg(long, value_name = "HOW", default_value = "blank")]
    options: OptionsArgument,
}

#[derive(Clone, Copy, ValueEnum)]
enum LengthsArgument {
    Keep,
    Hide,
}

#[derive(Clone, Copy, ValueEnum)]
enum OptionsArgument {
    Blank,
    Drop,
    Keep,
}

pub(super) fn anonymize(arguments: &AnonymizeArguments) -> Result<bool, Box<dyn Error>> {
    let path = &arguments.trace;
    let how = Anonymization {
        kept_suffixes: suffixes(arguments)?,
        lengths: match arguments.lengths {
            LengthsArgument::Keep => LabelLengths::Keep,
            LengthsArgument::Hide => LabelLengths::Hide,
        },
        options: match arguments.options {
            OptionsArgument::Blank => Options::Blank,
            OptionsArgument::Drop => Options::Drop,
            OptionsArgument::Keep => Options::Keep,
        },
    };
    let mut reader = open(path, &arguments.read)?;
    let mut anonymizer = Anonymizer::new(&Key::new(key_file::read_or_make(&arguments.key, ADVICE)?), how);
    let inputs: Vec<&Path> =
        [path, &arguments.key].into_iter().chain(&arguments.keep_suffixes).map(PathBuf::as_path).collect();
    let mut writer = create(&arguments.write, &inputs)?;
    let is_whole = read(path, &mut reader, |message| {
        if let Some(message) = anonymizer.apply(message) {
            writer.write(&message)?;
        }
        Ok(true)
    })?;
    finish(writer, &arguments.write)?;
    print_lost(path, &reader);
    let (path, tally) = (path.display(), anonymizer.tally());
    eprintln!("{path}: {} of {} messages kept", tally.given, tally.messages);
    for (count, what) in [
        (tally.malformed, "messages are left out: they are malformed"),
        (tally.too_long, "messages are left out: a name or the message would be too long"),
        (tally.records_dropped, "records are left out: their type is unknown"),
        (tally.records_blank, "records are blank: their data is malformed"),
        (tally.options_dropped, "EDNS options are left out"),
        (tally.extra_dropped, "messages had bytes behind their last record or TLV, which are left out"),
    ] {
        if count > 0 {
            eprintln!("{path}: {count} {what}");
        }
    }
    Ok(is_whole)
}

fn text(path: &Path, most: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > most => Err(format!("{}: larger than {most} bytes", path.display())),
        Ok(_) => Ok(text),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn suffixes(arguments: &AnonymizeArguments) -> Result<BTreeSet<Name>, String> {
    let mut suffixes: BTreeSet<Name> = arguments.keep_suffix.iter().cloned().collect();
    let Some(path) = &arguments.keep_suffixes else { return Ok(suffixes) };
    for (index, line) in text(path, RULES_BYTES_MAX)?.lines().enumerate() {
        let word = line.split('#').next().unwrap_or_default().trim();
        if !word.is_empty() {
            let name = parse_name(word).map_err(|error| format!("{}:{}: {error}", path.display(), index + 1))?;
            suffixes.insert(name);
        }
    }
    Ok(suffixes)
}
