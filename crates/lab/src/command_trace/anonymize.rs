//! `catlab trace anonymize`: a trace that can be shown.

use super::{ReadArguments, WriteArguments, create, finish, open, read, tell_lost};
use crate::arguments::parse_name;
use crate::key_file;
use clap::{Args, ValueEnum};
use lab::limits::RULES_BYTES_MAX;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use trace::anonymize::{Anonymization, Anonymizer, Key, Lengths, Options};
use wire::name::Name;

/// What is said of a key that was made.
const ADVICE: &str = "keep it for traces whose pseudonyms are to be the same, and secret";

pub(crate) const EXAMPLES: &str = "Examples:
  catlab trace anonymize day.pcap --key trace.key --out shown.pcap
  catlab trace anonymize day.pcap --key trace.key --keep-suffix com --keep-suffix net --options drop --out shown.pcap
  catlab trace anonymize next.pcap --key trace.key --keep-suffixes tlds.txt --lengths hide --out shown.txt.gz

Addresses keep their prefixes (Crypto-PAn), names their labels; with the same key the same address or name has the same
pseudonym in every trace. A key file that is not there is made; who has it can undo the pseudonyms. What stays and what
is blank is in docs/catlab/anonymize.md. Times, ports and IDs stay.
Exit code 0: read to the end; 1: the trace is damaged, and what came before that stands; 2: it cannot be done at all.";

#[derive(Args)]
pub(crate) struct AnonymizeArguments {
    /// The trace; `-` is standard input.
    trace: PathBuf,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    write: WriteArguments,
    /// File with the key, 64 hexadecimal digits; one that is not there is made.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// A name that stays at the end of others; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    keep_suffix: Vec<Name>,
    /// A file of such names, one a line; # begins a comment.
    #[arg(long, value_name = "FILE")]
    keep_suffixes: Option<PathBuf>,
    /// Lengths of labels: keep, or hide, which makes all of them thirteen bytes long.
    #[arg(long, value_name = "HOW", default_value = "keep")]
    lengths: LengthsArgument,
    /// EDNS options: blank, drop, or keep; the address of a client subnet is a pseudonym always.
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
            LengthsArgument::Keep => Lengths::Keep,
            LengthsArgument::Hide => Lengths::Hide,
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
    tell_lost(path, &reader);
    let (path, tally) = (path.display(), anonymizer.tally());
    eprintln!("{path}: {} of {} messages stay", tally.given, tally.messages);
    for (count, what) in [
        (tally.malformed, "messages are left out: they are malformed"),
        (tally.too_long, "messages are left out: a name or the message would be too long"),
        (tally.records_dropped, "records are left out: nobody knows what is in them"),
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
        Ok(bytes) if bytes as u64 > most => Err(format!("{}: longer than {most} bytes", path.display())),
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
