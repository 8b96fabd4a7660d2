//! Options for the messages to send.

use super::parse::{Types, parse_edns_option, parse_name, parse_popularity, parse_subnet, parse_types};
use clap::{Args, ValueEnum};
use fleet::Content;
use load::population::Population;
use load::workload::{
    self, Dialect, Extras, Generator, NameDistribution, Popularity, Reading, Signer, TsigKey, Updates, Workload,
};
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::name::Name;

/// clap replaces `{n}` with a line break. An invisible terminal escape in between prevents it.
const NAME_HELP: &str = "Generate names: a pattern with {\x1b[0mn} for a number";

/// These options do not generate names, so they conflict with options for generated names.
const UNDRAWN: [&str; 2] = ["queries", "updates"];
/// These options do not generate queries, so they conflict with options for generated queries.
const UPDATING: [&str; 2] = ["updates", "update_zone"];

#[derive(Args)]
pub(crate) struct QueryArguments {
    /// Query file: dnsperf text and its dialects, or binary messages, each after its length in two bytes. .xz is
    /// supported. `catlab trace convert` makes one from a capture.
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// Dialect of the query file. Without this option it is detected from the content.
    #[arg(long, requires = "queries", conflicts_with_all = ["updates", "name"])]
    dialect: Option<DialectArgument>,
    /// Read the query file as binary, as `dnsperf -B` does: each message after its length in two bytes. Without this
    /// option the format is detected from the content.
    #[arg(long, requires = "queries", conflicts_with = "dialect")]
    binary: bool,
    /// Refuse a query file that has an invalid line or message. Without this option, invalid entries are skipped and
    /// counted. An invalid line in a file of --updates is always an error.
    #[arg(long, requires = "queries")]
    strict: bool,
    /// Send the UPDATEs of this file, in the format of `dnsperf -u`. .xz is supported.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["queries", "name"])]
    updates: Option<PathBuf>,
    /// Send generated UPDATEs to this zone. Each replaces the A, AAAA or TXT record of a name.
    #[arg(long, value_name = "ZONE", value_parser = parse_name, requires = "name")]
    update_zone: Option<Name>,
    /// Names in each generated UPDATE.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "update_zone")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    names_each: u16,
    #[arg(long, value_name = "KEY")]
    #[arg(help = "Sign each message with TSIG (RFC 8945): a key file, or [ALGORITHM:]NAME:SECRET")]
    tsig: Option<String>,
    #[arg(long, value_name = "PATTERN", help = NAME_HELP, conflicts_with = "queries")]
    name: Option<String>,
    /// Number of names.
    #[arg(long, default_value_t = 1_000, conflicts_with_all = UNDRAWN)]
    names: u64,
    /// How names are chosen: uniform, sequential, random (each name is new), or zipf:EXPONENT.
    #[arg(long, default_value = "uniform", value_parser = parse_popularity, conflicts_with_all = UNDRAWN)]
    popularity: Popularity,
    /// Types of generated queries and their weights, such as A:3,AAAA:1.
    #[arg(long, default_value = "A", value_parser = parse_types, conflicts_with_all = UNDRAWN)]
    types: Types,
    /// Share of generated queries for names that do not exist, 0 to 1.
    #[arg(long, default_value_t = 0.0, conflicts_with_all = UNDRAWN)]
    nxdomain: f64,
    /// Send EDNS with this UDP payload size.
    #[arg(long, value_name = "BYTES", conflicts_with_all = UPDATING)]
    edns: Option<u16>,
    /// Set DO, to request signatures.
    #[arg(long, conflicts_with_all = UPDATING)]
    dnssec_ok: bool,
    /// Send a client cookie with each query. Over UDP, also send the server's cookie once it is known.
    #[arg(long, conflicts_with_all = UPDATING)]
    cookie: bool,
    /// Send this EDNS client subnet with each query (RFC 7871).
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = parse_subnet, conflicts_with_all = UPDATING)]
    subnet: Option<(IpAddr, u8)>,
    /// Add this EDNS option to each query: its code, and its value in hex. May be given several times.
    #[arg(long, value_name = "CODE[:HEX]", value_parser = parse_edns_option, conflicts_with_all = UPDATING)]
    edns_option: Vec<(u16, Vec<u8>)>,
    /// Pad queries to a multiple of this many bytes.
    #[arg(long, value_name = "BYTES", conflicts_with_all = UPDATING)]
    padding: Option<usize>,
    /// Clear RD.
    #[arg(long, conflicts_with_all = UPDATING)]
    no_recurse: bool,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum DialectArgument {
    Dnsperf,
    Kxdpgun,
    Flamethrower,
    Calidns,
}

impl QueryArguments {
    /// The messages.
    ///
    /// # Errors
    /// If the file cannot be read, or if the options generate no query.
    pub(crate) fn workload(&self, population: Option<&Population>) -> Result<Workload, Box<dyn Error>> {
        let workload = if let Some(path) = &self.queries {
            let dialect = self.dialect.map(DialectArgument::dialect);
            let reading = Reading { dialect, is_binary: self.binary, is_strict: self.strict };
            let (messages, skipped) = workload::read(path, reading, &self.extras())?;
            if skipped.count() > 0 {
                eprintln!("{skipped}");
            }
            Workload::listed(Arc::new(messages))
        } else if let Some(path) = &self.updates {
            Workload::listed(Arc::new(workload::read_updates(path)?))
        } else if let Some(apex) = &self.update_zone {
            let questions = self.generator(Extras::default())?;
            Workload::updates(Updates::new(apex.clone(), questions, self.names_each)?)
        } else if let Some(population) = population {
            let drawn = population.generator(self.extras(), self.seed)?;
            Workload::generated(
                drawn
                    .ok_or("cannot use this population: it has no [queries]. Add it, or name a file with --queries")?,
            )
        } else {
            Workload::generated(self.generator(self.extras())?)
        };
        let workload = if self.cookie { workload.learning_cookies() } else { workload };
        Ok(match &self.tsig {
            Some(key) => workload.signed(Signer::new(read_key(key)?)),
            None => workload,
        })
    }

    /// The files of these options, for a process on another machine. A key from the command line is written to a file
    /// in `folder`.
    ///
    /// # Errors
    /// If the key is invalid or cannot be written.
    pub(crate) fn files(&self, folder: &Path) -> Result<Vec<(Content, PathBuf)>, Box<dyn Error>> {
        let named = [(Content::Queries, &self.queries), (Content::Updates, &self.updates)];
        let named = named.into_iter().filter_map(|(content, path)| Some((content, path.clone()?)));
        let mut files: Vec<_> = named.collect();
        if let Some(argument) = &self.tsig {
            read_key(argument)?;
            let path = PathBuf::from(argument);
            files.push((Content::Key, if path.exists() { path } else { write_key(argument, folder)? }));
        }
        Ok(files)
    }

    fn extras(&self) -> Extras {
        Extras {
            recursion_desired: !self.no_recurse,
            payload_bytes: self.edns,
            dnssec_ok: self.dnssec_ok,
            cookie: self.cookie.then(|| self.seed.to_be_bytes()),
            subnet: self.subnet,
            padding_block: self.padding.filter(|&block| block > 0),
            options: self.edns_option.clone(),
        }
    }

    fn generator(&self, extras: Extras) -> Result<Generator, String> {
        let names = NameDistribution {
            pattern: self.name.clone().unwrap_or_default(),
            count: self.names,
            popularity: self.popularity,
            nxdomain_share: self.nxdomain,
        };
        Generator::new(names, &self.types.0, extras, self.seed)
    }
}

/// Reads a key from a file, or from the argument itself if there is no such file.
pub(crate) fn read_key(argument: &str) -> Result<TsigKey, String> {
    let path = Path::new(argument);
    let key = if path.exists() || !argument.contains(':') { TsigKey::read(path) } else { TsigKey::parse(argument) };
    key.map_err(|error| format!("--tsig {}: {error}", report::without_secret(argument)))
}

fn write_key(argument: &str, folder: &Path) -> std::io::Result<PathBuf> {
    let path = folder.join("tsig.key");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(argument.as_bytes())?;
    Ok(path)
}

impl DialectArgument {
    fn dialect(self) -> Dialect {
        match self {
            Self::Dnsperf => Dialect::Dnsperf,
            Self::Kxdpgun => Dialect::Kxdpgun,
            Self::Flamethrower => Dialect::Flamethrower,
            Self::Calidns => Dialect::Calidns,
        }
    }
}
