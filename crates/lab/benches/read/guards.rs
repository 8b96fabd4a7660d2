//! The cost of rate limiting and cookies: catamaran with each feature against catamaran without it, in turns.
//!
//! Rate limiting exempts loopback by default; the bench disables the exemption. It uses enough names that no client
//! exceeds the limit, so each response is counted and sent.

use super::answers;
use super::load_run;
use super::machine::{SERVER_CORE, TOOL_CORE, family, on_cores, pinned};
use super::options::Options;
use super::table::{Row, Verdict, spread, thousands};
use super::zones::{APEX, Lengths, Zone};
use testbed::{Cluster, ServedZone};

/// Queries in flight, and the sockets they use.
const IN_FLIGHT: usize = 512;
const SOCKETS: usize = 8;
/// Minimum ratio of catamaran with a guard to catamaran without one (docs/history/budgets.md).
const RATIO_MIN: f64 = 0.97;
/// Enough names that no response is rate limited.
const NAMES_MIN: u32 = 100_000;

/// The feature under test in one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Guard {
    /// No limit, plain queries.
    None,
    /// Every response is counted.
    Limit,
    /// No limit, queries with EDNS.
    Edns,
    /// No limit, queries with EDNS and the cookie that the server gave.
    Cookie,
    /// Rate limiting is on, and queries have a valid cookie. The cookie is checked instead of counting the response.
    Both,
}

impl Guard {
    const ALL: [Self; 5] = [Self::None, Self::Limit, Self::Edns, Self::Cookie, Self::Both];

    const fn label(self) -> &'static str {
        match self {
            Self::None => "no guard",
            Self::Limit => "rate limit",
            Self::Edns => "no guard, EDNS",
            Self::Cookie => "cookies",
            Self::Both => "rate limit and cookies",
        }
    }

    /// The turn to compare with.
    const fn without(self) -> Option<Self> {
        match self {
            Self::None | Self::Edns => None,
            Self::Limit => Some(Self::None),
            Self::Cookie | Self::Both => Some(Self::Edns),
        }
    }

    const fn is_limited(self) -> bool {
        matches!(self, Self::Limit | Self::Both)
    }

    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::None | Self::Limit => &[],
            Self::Edns => &["--edns", "1232"],
            Self::Cookie | Self::Both => &["--edns", "1232", "--cookie"],
        }
    }
}

struct Turn {
    guard: Guard,
    rate: f64,
    cost_us: f64,
}

/// Starts two servers with the same zone, one of them without a limit.
pub(crate) fn of_all(options: &Options) -> Result<Vec<Row>, String> {
    let names = options.names.iter().copied().min().unwrap_or(NAMES_MIN).max(NAMES_MIN);
    let zone = Zone::make(&options.folder, names)?;
    let zones = [ServedZone::new(APEX, &zone.file)];
    let start = |name: &str, edits: &[(&str, &str)]| {
        on_cores(&[SERVER_CORE], || Cluster::start(&options.folder.join(name), &zones, edits))
            .map_err(|error| error.to_string())
    };
    let free = start("free", &[("per_second = 50", "per_second = 0")])?;
    // The total rate of each client is limited too, with a limit that is not reached.
    let limited = start(
        "limited",
        &[
            ("exempt = [\"127.0.0.0/8\", \"::1/128\"]", "exempt = []"),
            ("address_per_second = 100", "address_per_second = 100000000"),
            ("address_burst = 250", "address_burst = 100000000"),
            ("all_per_second = 1600", "all_per_second = 100000000"),
            ("all_burst = 4000", "all_burst = 100000000"),
        ],
    )?;
    for own in [&free, &limited] {
        answers::check("catamaran", own.dns(), &zone)?;
    }
    let mut turns = Vec::new();
    // The first round warms up.
    for round in 0..=options.rounds {
        for guard in Guard::ALL {
            let turn = run(options, &zone, if guard.is_limited() { &limited } else { &free }, guard)?;
            eprintln!("guards {round}: {} {:.0} answers/s", guard.label(), turn.rate);
            turns.extend((round > 0).then_some(turn));
        }
    }
    let limited_count = limited.metric(1, "catamaran_rate_limited_total{").map_err(|error| error.to_string())?;
    if limited_count > 0.0 {
        return Err(format!("{limited_count} responses were held back: the names are too few for this rate"));
    }
    Ok(figures(names, &turns))
}

fn run(options: &Options, zone: &Zone, own: &Cluster, guard: Guard) -> Result<Turn, String> {
    let mut command = pinned(TOOL_CORE, &options.catlab);
    command.args(["load", "--quiet", "--workers", "1", "--server", &own.dns().to_string()]);
    command.args(["--sockets", &SOCKETS.to_string(), "--duration", &format!("{}s", options.seconds)]);
    command.args(["--expect-rcode", "NOERROR", "--closed-loop", "--in-flight", &IN_FLIGHT.to_string()]);
    command.args(["--timeout", "200ms"]);
    command.args(guard.arguments()).arg("--queries").arg(zone.queries(Lengths::Mixed)?);
    let (run, used) = load_run::run(&mut command, &options.folder.join("run"), family(own.pid()))?;
    let figures = run.figures();
    // A truncated response was rate limited.
    if figures.unexpected + figures.mismatched + figures.truncated > 0 || figures.answered == 0 {
        return Err(format!("{}: wrong answers: {figures:?}", guard.label()));
    }
    let rate = load_run::answers_a_second(&run);
    Ok(Turn { guard, rate, cost_us: 1e6 * used.server / rate })
}

fn figures(names: u32, turns: &[Turn]) -> Vec<Row> {
    let of = |guard| turns.iter().filter(move |turn| turn.guard == guard);
    let mut rows = Vec::new();
    for guard in Guard::ALL {
        let (rate, least, most) = spread(&of(guard).map(|turn| turn.rate).collect::<Vec<_>>());
        let (cost, ..) = spread(&of(guard).map(|turn| turn.cost_us).collect::<Vec<_>>());
        let what = format!("{} names, closed loop: {}", thousands(f64::from(names)), guard.label());
        rows.push(Row {
            what,
            figure: format!("{} answers/s ({} to {})", thousands(rate), thousands(least), thousands(most)),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: format!("{cost:.2} us of the server's processor an answer"),
        });
    }
    for (guard, without) in Guard::ALL.into_iter().filter_map(|guard| Some((guard, guard.without()?))) {
        let pairs = || of(guard).zip(of(without));
        let (ratio, least, most) = spread(&pairs().map(|(with, less)| with.rate / less.rate).collect::<Vec<_>>());
        let (cost, ..) = spread(&pairs().map(|(with, less)| less.cost_us / with.cost_us).collect::<Vec<_>>());
        rows.push(Row {
            what: format!("{} to {}", guard.label(), without.label()),
            figure: format!("{ratio:.3} ({least:.3} to {most:.3})"),
            budget: format!(">= {RATIO_MIN}"),
            verdict: Verdict::of(ratio >= RATIO_MIN),
            note: format!("median of {} rounds; by processor time of the server {cost:.3}", pairs().count()),
        });
    }
    rows
}
