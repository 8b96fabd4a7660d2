//! Traces with known times: those of the paper's Table 1, and one with the shape of a root server's.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use trace::{Format, Message, Transport, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Clients of a trace, if it has as many queries (Table 1).
pub(crate) const CLIENTS: u64 = 10_000;
/// Queries a second of B-Root in 2016, and how far seconds vary (a wave of this share of it).
const ROOT_RATE: f64 = 38_000.0;
const ROOT_WAVE: f64 = 0.2;

/// A trace that is to be sent.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// When each query goes out, from the first one on; nanoseconds.
    pub(crate) planned: Vec<u64>,
    /// Whether the budgets of pacing hold for it.
    pub(crate) has_budget: bool,
}

/// All of them, of so many seconds.
pub(crate) fn shapes(seconds: u64) -> Vec<Shape> {
    let even = |name, interval_ns: u64, has_budget| {
        let planned = (0..seconds * 1_000_000_000 / interval_ns).map(|number| number * interval_ns).collect();
        Shape { name, planned, has_budget }
    };
    vec![
        even("syn-0, every 1 s", 1_000_000_000, false),
        even("syn-1, every 100 ms", 100_000_000, false),
        even("syn-2, every 10 ms", 10_000_000, false),
        even("syn-3, every 1 ms", 1_000_000, true),
        even("syn-4, every 100 us", 100_000, true),
        even("every 20 us", 20_000, true),
        Shape { name: "38,000 a second, random, in waves", planned: root(seconds), has_budget: false },
    ]
}

/// A Poisson process whose rate goes up and down.
fn root(seconds: u64) -> Vec<u64> {
    let mut rng = ChaCha8Rng::seed_from_u64(38_000);
    let (mut planned, mut at) = (Vec::new(), 0.0_f64);
    while at < seconds as f64 {
        planned.push((at * 1e9) as u64);
        let rate = ROOT_RATE * (1.0 + ROOT_WAVE * (at * 0.7).sin());
        // 1 - u is never zero.
        at += -(1.0 - rng.random::<f64>()).ln() / rate;
    }
    let first = planned[0];
    planned.iter().map(|at| at - first).collect()
}

/// Writes one as a capture; each query has its number in its name.
pub(crate) fn write(path: &Path, planned: &[u64]) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut writer = Writer::create(path, Format::Capture).map_err(wrong)?;
    let destination = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 53), 53));
    for (number, at_ns) in (0..).zip(planned) {
        let qname: Name = format!("q{number}.example.com").parse().map_err(|error| format!("{error:?}"))?;
        let octets = MessageBuilder::query(number as u16, qname.as_ref(), Rtype::A).build();
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 1)) + (number % CLIENTS) as u32);
        let source = SocketAddr::from((source, 4_711));
        let (at_ns, transport) = (1_460_000_000_000_000_000 + at_ns, Transport::Udp);
        writer.write(&Message { at_ns, source, destination, transport, octets: &octets }).map_err(wrong)?;
    }
    writer.finish().map_err(wrong)
}
