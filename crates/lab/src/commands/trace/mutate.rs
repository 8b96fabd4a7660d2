//! `catlab trace mutate`: changes transports, names, flags, clients or times of a trace.

use super::reading::{print_lost, read};
use super::writing::{TraceFile, WriteArguments, create, finish};
use crate::arguments::FileMutationArguments;
use crate::arguments::{ReadArguments, open};
use clap::Args;
use load::mutation::{FilterCommand, FilterError, FilterExit, Pipe};
use std::error::Error;
use std::path::{Path, PathBuf};
use trace::mutate::Mutator;
use trace::{Message, Reader};

pub(crate) const EXAMPLES: &str = "Examples:
  catlab trace mutate day.pcap --queries --do 1 --out signed.pcap
  catlab trace mutate day.pcap --transport tcp=0.03 --clients 1000 --seed 7 --out some-tcp.txt
  catlab trace mutate day.pcap --unique --suffix example.com=lab.test --server 127.0.0.1:5300 --out lab.txt.gz
  catlab trace mutate day.pcap --only-type AAAA --sample 0.1 --speed 10 --out fast.pcap
  catlab trace mutate day.pcap --rules rules.toml --out other.pcap
  catlab trace mutate day.txt --filter-command \"awk '\\$13 != \\\"ANY\\\"'\" --out without.txt

docs/catlab/mutate.md describes rules, options and the text format. Transport, client and server change in queries and
responses; everything else changes in queries only. Shares count clients, so a client keeps its transport. With
--by query they count queries.

Exit code 0: read to the end; 1: the trace is damaged or the command of --filter-command failed, and messages before
that were written; 2: nothing was written.";

#[derive(Args)]
pub(crate) struct MutateArguments {
    /// Trace. `-` is standard input.
    trace: PathBuf,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    write: WriteArguments,
    #[command(flatten)]
    mutation: FileMutationArguments,
    /// Pipe all messages through this shell command as the last step, as lines of text (docs/catlab/mutate.md).
    #[arg(long, value_name = "COMMAND")]
    filter_command: Option<String>,
}

pub(super) fn mutate(arguments: &MutateArguments) -> Result<bool, Box<dyn Error>> {
    let path = &arguments.trace;
    let mut mutator = arguments.mutation.mutator()?;
    let mut reader = open(path, &arguments.read)?;
    let inputs: Vec<&Path> = arguments.mutation.rules().into_iter().chain([path.as_path()]).collect();
    let mut writer = create(&arguments.write, &inputs)?;
    let is_whole = match &arguments.filter_command {
        None => read(path, &mut reader, |message| {
            if let Some(message) = mutator.apply(message) {
                writer.write(&message)?;
            }
            Ok(true)
        })?,
        Some(command) => through(command, path, &mut reader, &mut mutator, &mut writer)?,
    };
    finish(writer, &arguments.write)?;
    print_lost(path, &reader);
    print_tally(path, &mutator);
    Ok(is_whole)
}

/// Pipes the messages through the filter command. Returns false if the trace is damaged or the command failed.
fn through(
    command: &str,
    path: &Path,
    reader: &mut Reader,
    mutator: &mut Mutator,
    writer: &mut TraceFile,
) -> Result<bool, Box<dyn Error>> {
    let mut is_whole = true;
    let feed = |pipe: &mut Pipe| {
        let mut failed = None;
        let write = |message: &Message<'_>| match mutator.apply(message).map(|message| pipe.write(&message)) {
            Some(Ok(goes_on)) => Ok(goes_on),
            Some(Err(error)) => {
                failed = Some(error);
                Ok(false)
            }
            None => Ok(true),
        };
        is_whole = read(path, reader, write).unwrap_or(false);
        failed.map_or(Ok(()), Err)
    };
    let started = FilterCommand::start(command).map_err(|error| format!("sh: {error}"))?;
    let (FilterExit { status, command }, reader) =
        started.run(feed, |message| writer.write(message).map_err(FilterError::Writer))?;
    print_lost(Path::new(&command), &reader);
    if !status.success() {
        // There is no exit code if a signal ended the command.
        match status.code() {
            Some(code) => eprintln!("{command}: exit code {code}"),
            None => eprintln!("{command}: {status}"),
        }
    }
    Ok(is_whole && status.success())
}

/// Prints what was left out, and which changes were not possible.
fn print_tally(path: &Path, mutator: &Mutator) {
    let (path, tally) = (path.display(), mutator.tally());
    eprintln!("{path}: {} of {} messages kept", tally.given, tally.messages);
    for (index, count) in tally.left_out.iter().enumerate().filter(|(_, count)| **count > 0) {
        eprintln!("{path}: rule {} left out {count}", index + 1);
    }
    if tally.unreadable > 0 {
        eprintln!("{path}: {} changes skipped: the query is malformed or has no question", tally.unreadable);
    }
    if tally.too_long > 0 {
        eprintln!("{path}: {} changes skipped: a name or the message would be too long", tally.too_long);
    }
}
