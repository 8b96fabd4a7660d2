//! Output of `catlab trace`. An incomplete file never appears at the target path.

use crate::out_folder::{FileInMaking, Force, refuse_file, refuse_input};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use trace::{Format, Message, Writer};

/// An output format as written on the command line.
#[derive(Clone, Copy)]
struct OutputFormatArgument(Format);

impl ValueEnum for OutputFormatArgument {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                OutputFormatArgument(Format::Binary),
                OutputFormatArgument(Format::Text),
                OutputFormatArgument(Format::Capture),
                OutputFormatArgument(Format::Dnsperf),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.label()))
    }
}

#[derive(Args)]
pub(crate) struct WriteArguments {
    /// Output file; `-` is standard output. An existing file is only replaced with --force.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    /// Output format. The default depends on the file name: .catrace, .txt, .pcap or .dnsperf.
    #[arg(long, value_name = "FORMAT")]
    to: Option<OutputFormatArgument>,
}

/// A trace that is being written. [`finish`] moves it to its path.
pub(crate) struct TraceFile {
    writer: Writer,
    /// `None` for standard output.
    file: Option<FileInMaking>,
}

impl TraceFile {
    /// Writes a message.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&mut self, message: &Message<'_>) -> io::Result<()> {
        self.writer.write(message)
    }
}

/// Creates the output file. Without --to its name decides the format.
///
/// # Errors
/// The file is an input, exists and --force is not given, or cannot be created.
pub(crate) fn create(arguments: &WriteArguments, inputs: &[&Path]) -> Result<TraceFile, Box<dyn Error>> {
    let path = &arguments.out;
    let is_stdout = path.as_os_str() == "-";
    if !is_stdout {
        refuse_input(path, inputs)?;
        refuse_file(path, arguments.force)?;
    }
    let name = path.to_string_lossy();
    let name = name.trim_end_matches(".gz").trim_end_matches(".lz4");
    let by_name = || {
        let known = [
            (".catrace", Format::Binary),
            (".txt", Format::Text),
            (".pcap", Format::Capture),
            (".dnsperf", Format::Dnsperf),
        ];
        known.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| format)
    };
    let format = arguments.to.map(|named| named.0).or_else(by_name).ok_or_else(|| {
        format!(
            "cannot write to {}: its name has no known suffix; use --to binary, text, pcap or dnsperf",
            path.display()
        )
    })?;
    let file = (!is_stdout).then(|| FileInMaking::new(path));
    let writer = Writer::create(file.as_ref().map_or(path, FileInMaking::path), format)
        .map_err(|error| format!("cannot write to {}: {error}", path.display()))?;
    Ok(TraceFile { writer, file })
}

/// Finishes the file, moves it to its path, and prints how many messages were left out.
///
/// # Errors
/// The file cannot be written, or its format can hold none of the messages. Then an existing file is unchanged.
pub(crate) fn finish(trace: TraceFile, arguments: &WriteArguments) -> Result<(), Box<dyn Error>> {
    let TraceFile { writer, file } = trace;
    let path = arguments.out.display();
    let (written, left_out, format) = (writer.written(), writer.left_out(), writer.format());
    writer.finish().map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
    let holds = match format {
        Format::Capture => "a capture holds UDP and TCP only; write to a .catrace or .txt file",
        Format::Dnsperf => "a dnsperf file holds queries only; write to a .catrace or .txt file",
        _ => "this format cannot hold them",
    };
    if written == 0 && left_out > 0 {
        // An empty trace would look like a valid result.
        return Err(format!("cannot write {path}: all {left_out} messages would be left out: {holds}").into());
    }
    file.map_or(Ok(()), FileInMaking::commit)?;
    if left_out > 0 {
        eprintln!("{path}: {left_out} messages are left out: {holds}");
    }
    Ok(())
}
