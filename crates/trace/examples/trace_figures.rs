//! Measures how fast one thread reads and writes traces, in queries per second:
//!
//!     cargo xtask bench traces [QUERIES] [FOLDER]
//!
//! The queries resemble those at a root server: 38,000 per second, 100,000 clients with unequal rates, 3 % over TCP,
//! and unique names. Each format is written once, which mostly measures the generation of queries. Then it is read
//! three times from memory; the fastest counts. The exit code is 1 if the binary format misses [`BUDGET`].

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use trace::{Format, Message, Options, Transport, Writer};
use wire::builder::MessageBuilder;
use wire::{Name, Rtype};

/// Smallest accepted rate of reading the binary format on one core, in million queries per second.
const BUDGET: f64 = 2.0;

/// A pseudorandom generator (splitmix64) with a fixed seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}

fn write(path: &std::path::Path, format: Format, count: u64) -> std::io::Result<()> {
    let mut chance = Chance(1);
    let mut writer = Writer::create(path, format)?;
    let server: SocketAddr = (Ipv4Addr::new(192, 0, 2, 53), 53).into();
    let mut at_ns = 1_491_922_800_000_000_000;
    for number in 0..count {
        at_ns += chance.next() % 52_632;
        // Squaring skews the shares: a tenth of the clients sends a third of all queries.
        let share = (chance.next() % 100_000) as f64 / 1e5;
        let client = Ipv4Addr::from(0x0A00_0000 + (share * share * 1e5) as u32);
        let mixed = chance.next();
        let name: Name = format!("q{number}.example.com.").parse().expect("a name");
        let query = MessageBuilder::query(mixed as u16, name.as_ref(), Rtype::A);
        let query = if mixed & 0x70000 == 0 { query } else { query.edns(4_096, mixed & 0x80000 != 0) };
        let transport = if mixed >> 20 & 0xFF < 8 { Transport::Tcp } else { Transport::Udp };
        let source = (client, 1_024 | (mixed >> 40) as u16).into();
        writer.write(&Message { at_ns, source, destination: server, transport, bytes: &query.build() })?;
    }
    writer.finish()
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut is_met = false;
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().map_or(Ok(3_000_000), |count| count.parse())?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    println!("{count} queries; million queries a second written, read; bytes a query");
    for (format, ending) in [(Format::Binary, "catrace"), (Format::Capture, "pcap"), (Format::Text, "txt")] {
        let path = folder.join(format!("catamaran-trace-figures-{}.{ending}", std::process::id()));
        let start = Instant::now();
        write(&path, format, count)?;
        let written = count as f64 / start.elapsed().as_secs_f64() / 1e6;
        let mut best = 0.0_f64;
        for _ in 0..3 {
            let start = Instant::now();
            let mut reader = trace::open(&path, &Options::default())?;
            let (mut read, mut bytes) = (0, 0);
            while let Some(message) = reader.next()? {
                read += 1;
                bytes += message.bytes.len();
            }
            assert!(read == count && bytes > 0, "{read} of {count}");
            best = best.max(count as f64 / start.elapsed().as_secs_f64() / 1e6);
        }
        let size = std::fs::metadata(&path)?.len() as f64 / count as f64;
        std::fs::remove_file(&path)?;
        println!("{:<8} {written:>7.2} {best:>7.2} {size:>7.1}", format.label());
        is_met |= format == Format::Binary && best >= BUDGET;
    }
    println!("binary form at {BUDGET} million a second or more: {}", if is_met { "met" } else { "MISSED" });
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
