//! Options and functions that open a trace.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use std::error::Error;
use std::path::Path;
use trace::{DnstapSide, Format, Options, Reader, TraceError};

#[derive(Args)]
pub(crate) struct ReadArguments {
    /// Input format. Without this option it is detected from the first bytes.
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatArgument>,
    /// Server port in captures and Zeek logs. May be given several times.
    #[arg(long = "port", value_name = "PORT", default_values_t = [53])]
    ports: Vec<u16>,
    #[command(flatten)]
    sides: SideArguments,
}

/// Selection of dnstap messages.
#[derive(Args)]
pub(crate) struct SideArguments {
    /// dnstap messages to read: client (CLIENT_QUERY and CLIENT_RESPONSE), auth, update, forwarder, resolver, stub,
    /// tool or all. `zones build` and `hierarchy run` read all by default. The default of other commands is the first
    /// of these types that the log has.
    #[arg(long = "dnstap-type", value_name = "TYPE", value_delimiter = ',', value_parser = parse_side)]
    types: Vec<SidesArgument>,
}

/// One dnstap side, or all sides.
#[derive(Clone)]
struct SidesArgument(Vec<DnstapSide>);

fn parse_side(text: &str) -> Result<SidesArgument, String> {
    if text == "all" {
        return Ok(SidesArgument(DnstapSide::ALL.into()));
    }
    let known = DnstapSide::ALL.into_iter().find(|side| side.label() == text);
    let labels = DnstapSide::ALL.map(DnstapSide::label).join(", ");
    known
        .map(|side| SidesArgument(vec![side]))
        .ok_or_else(|| format!("{text} is not a dnstap type; write {labels} or all"))
}

impl SideArguments {
    /// The selected sides. Empty without --dnstap-type.
    pub(crate) fn chosen(&self) -> Vec<DnstapSide> {
        self.types.iter().flat_map(|sides| sides.0.iter().copied()).collect()
    }
}

/// A format as written on the command line.
#[derive(Clone, Copy)]
pub(crate) struct FormatArgument(pub(crate) Format);

impl ValueEnum for FormatArgument {
    fn value_variants<'a>() -> &'a [Self] {
        const {
            &[
                FormatArgument(Format::Capture),
                FormatArgument(Format::Dnstap),
                FormatArgument(Format::Cdns),
                FormatArgument(Format::Text),
                FormatArgument(Format::Binary),
                FormatArgument(Format::Dnsperf),
                FormatArgument(Format::Zeek),
                FormatArgument(Format::Fsdb),
                FormatArgument(Format::Rpl),
                FormatArgument(Format::Dnsviz),
            ]
        }
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.label()))
    }
}

/// Opens a trace.
pub(crate) fn open(path: &Path, arguments: &ReadArguments) -> Result<Reader, Box<dyn Error>> {
    open_as(path, &arguments.options())
}

fn open_as(path: &Path, options: &Options) -> Result<Reader, Box<dyn Error>> {
    Ok(trace::open(path, options).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Opens a trace and reads all dnstap sides by default.
pub(crate) fn open_all_sides(path: &Path, arguments: &ReadArguments) -> Result<Reader, Box<dyn Error>> {
    let mut options = arguments.options();
    if options.dnstap.is_empty() {
        options.dnstap = DnstapSide::ALL.into();
    }
    open_as(path, &options)
}

/// Opens a trace or a query file. A query file has no signature, so its format cannot be detected.
pub(crate) fn open_or_queries(path: &Path, arguments: &ReadArguments) -> Result<Reader, Box<dyn Error>> {
    let options = arguments.options();
    match trace::open(path, &options) {
        Err(TraceError::Unknown) => open_as(path, &Options { format: Some(Format::Dnsperf), ..options }),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
        Ok(reader) => Ok(reader),
    }
}

impl ReadArguments {
    fn options(&self) -> Options {
        Options { format: self.format.map(|named| named.0), ports: self.ports.clone(), dnstap: self.sides.chosen() }
    }
}
