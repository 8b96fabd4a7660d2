//! The zone of all servers, and the queries for it.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The zone's apex.
pub(crate) const APEX: &str = "example.";
/// Maximum number of queries in a file. The generator repeats the file.
const QUERIES_MAX: u32 = 1_000_000;
/// Seed for the order of the queries.
const SEED: u64 = 11;

/// How long the names are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lengths {
    /// All of one length, so that both sides can use segmentation offload.
    Equal,
    /// Sixteen different lengths, as in real traffic.
    Mixed,
}

impl Lengths {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Equal => "names of one length",
            Self::Mixed => "names of 16 lengths",
        }
    }
}

/// A zone of addresses, and two query files for it.
pub(crate) struct Zone {
    pub(crate) names: u32,
    pub(crate) file: PathBuf,
    folder: PathBuf,
}

impl Zone {
    /// Writes the zone file. One half of the names has equal lengths, the other has mixed ones.
    pub(crate) fn make(folder: &Path, names: u32) -> Result<Self, String> {
        let file = folder.join(format!("zone-{names}"));
        let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
        let mut out = BufWriter::new(File::create(&file).map_err(wrong)?);
        let head = format!(
            "$ORIGIN {APEX}\n$TTL 300\n@ SOA ns.example. host.example. 1 7200 900 99999 300\n@ NS ns\nns A 192.0.2.1\n"
        );
        out.write_all(head.as_bytes()).map_err(wrong)?;
        let mut line = String::new();
        for number in 0..names {
            line.clear();
            // Writing into a string cannot fail.
            let _written = writeln!(line, "{} A {}", label(number), address(number));
            out.write_all(line.as_bytes()).map_err(wrong)?;
        }
        out.flush().map_err(wrong)?;
        Ok(Self { names, file, folder: folder.to_owned() })
    }

    /// A file of queries in random order. It is written on first use.
    pub(crate) fn queries(&self, lengths: Lengths) -> Result<PathBuf, String> {
        let file = self.folder.join(format!("queries-{}-{lengths:?}", self.names));
        if file.exists() {
            return Ok(file);
        }
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        let wanted = if lengths == Lengths::Equal { 0 } else { 1 };
        let half: Vec<u32> = (0..self.names).filter(|number| number % 2 == wanted).collect();
        let mut chosen: Vec<u32> = if half.len() as u32 <= QUERIES_MAX {
            half
        } else {
            (0..QUERIES_MAX).map(|_| half[rng.random_range(0..half.len())]).collect()
        };
        chosen.shuffle(&mut rng);
        let text: String = chosen.iter().map(|&number| format!("{}.{APEX} A\n", label(number))).collect();
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    /// Some names with their expected addresses.
    pub(crate) fn samples(&self, count: u32) -> impl Iterator<Item = (String, Ipv4Addr)> {
        let step = (self.names / count).max(1);
        let names = self.names;
        (0..count.min(names))
            .map(move |index| index * step % names)
            .map(|number| (format!("{}.{APEX}", label(number)), address(number)))
    }
}

/// The first label of a name. Even numbers give labels of one length, odd numbers give sixteen lengths.
pub(crate) fn label(number: u32) -> String {
    const TAIL: &str = "abcdefghijklmnop";
    let tail = if number.is_multiple_of(2) { "" } else { &TAIL[..(number / 2 % 16) as usize] };
    format!("q{number:08}{tail}")
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0A00_0000 | (number & 0x00FF_FFFF))
}
