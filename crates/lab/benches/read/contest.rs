//! UDP answers per second of each server in turn, with one core for the server and one for the generator.

use super::answers;
use super::load_run;
use super::machine::{TOOL_CORE, Used, pinned};
use super::options::Options;
use super::rivals::{self, NAMES, Rival};
use super::table::{Row, Verdict, spread, thousands};
use super::zones::{Lengths, Zone};
use report::Run;

/// Queries in flight, and the sockets they use.
const IN_FLIGHT: usize = 512;
const SOCKETS: usize = 8;
/// Timeout of a query. A server may drop bursts, and a dropped query keeps its ID until the timeout. With 65,536 IDs
/// per socket, a closed loop does not run out of IDs in this time.
const TIMEOUT: &str = "200ms";
/// A flood offers this multiple of the echo's rate.
const OVERLOAD: f64 = 1.3;
/// Minimum ratios of catamaran to the other servers (docs/history/budgets.md).
const RATIOS_MIN: [(&str, f64); 6] =
    [("echo", 0.95), ("knot", 1.3), ("powerdns", 1.6), ("bind", 1.8), ("coredns", 4.0), ("nsd", f64::NAN)];

/// How queries are paced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    Closed,
    Flood,
}

impl Pace {
    const fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed loop",
            Self::Flood => "flood",
        }
    }
}

struct Turn {
    name: &'static str,
    pace: Pace,
    rate: f64,
    /// Queries sent per second.
    offered: f64,
    used: Used,
    /// Answers whose addresses were checked during the run.
    compared: u32,
}

impl Turn {
    /// CPU time of the server per answer, in microseconds.
    fn cost_us(&self) -> f64 {
        1e6 * self.used.server / self.rate
    }
}

/// Runs both paces with both kinds of names and every zone size.
pub(crate) fn udp(options: &Options) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for &names in &options.names {
        let zone = Zone::make(&options.folder, names)?;
        let servers = NAMES.into_iter().filter(|name| options.servers.iter().any(|one| one == name));
        let mut rivals = Vec::new();
        for name in servers {
            let Some(rival) = rivals::start(name, &zone, &options.folder.join(format!("udp-{names}")))? else {
                continue;
            };
            if name != "echo" {
                answers::check(name, rival.address, &zone)?;
            }
            rivals.push(rival);
        }
        for lengths in [Lengths::Equal, Lengths::Mixed] {
            let turns = compete(options, &zone, lengths, &rivals)?;
            for pace in [Pace::Closed, Pace::Flood] {
                rows.extend(figures(
                    options,
                    &format!("{} names, {}, {}", thousands(f64::from(names)), lengths.label(), pace.label()),
                    &turns,
                    pace,
                ));
            }
        }
        for rival in rivals.iter().filter(|rival| rival.name != "echo") {
            answers::check(rival.name, rival.address, &zone)?;
        }
    }
    Ok(rows)
}

/// Runs every server once to warm up, then all in turn, so that other load on the machine affects all alike.
fn compete(options: &Options, zone: &Zone, lengths: Lengths, rivals: &[Rival]) -> Result<Vec<Turn>, String> {
    let mut flood = 0.0f64;
    for rival in rivals {
        flood = flood.max(run(options, zone, lengths, rival, Pace::Closed, 0.0)?.rate * OVERLOAD);
    }
    let mut turns = Vec::new();
    for round in 0..options.rounds {
        for pace in [Pace::Closed, Pace::Flood] {
            for rival in rivals {
                let turn = run(options, zone, lengths, rival, pace, flood)?;
                eprintln!(
                    "udp {} {} names, {lengths:?}, {}: {} {:.0} answers/s, server {:.0} %, tool {:.0} %",
                    round + 1,
                    zone.names,
                    pace.label(),
                    rival.name,
                    turn.rate,
                    turn.used.server * 100.0,
                    turn.used.tool * 100.0
                );
                turns.push(turn);
            }
        }
    }
    Ok(turns)
}

/// One turn. Only answers that arrived in the whole seconds of the run count.
fn run(
    options: &Options,
    zone: &Zone,
    lengths: Lengths,
    rival: &Rival,
    pace: Pace,
    flood: f64,
) -> Result<Turn, String> {
    let mut command = pinned(TOOL_CORE, &options.catlab);
    command.args(["load", "--quiet", "--workers", "1", "--server", &rival.address.to_string()]);
    command.args(["--sockets", &SOCKETS.to_string(), "--duration", &format!("{}s", options.seconds)]);
    command.args(["--expect-rcode", "NOERROR", "--timeout", TIMEOUT]);
    match pace {
        Pace::Closed => command.args(["--closed-loop", "--in-flight", &IN_FLIGHT.to_string()]),
        Pace::Flood => command.args(["--rate", &format!("{flood:.0}")]),
    };
    command.arg("--queries").arg(zone.queries(lengths)?);
    let out = options.folder.join("run");
    let mut measure = || load_run::run(&mut command, &out, rival.pids());
    let ((run, used), compared) = match rival.name {
        "echo" => (measure()?, 0),
        name => {
            let (measured, compared) = answers::check_meanwhile(name, rival.address, zone, &mut measure)?;
            (measured?, compared)
        }
    };
    let figures = run.figures();
    // In a flood, an answer may arrive after its ID was reused. It is not a wrong answer.
    if figures.unexpected > 0 || (pace == Pace::Closed && figures.mismatched > 0) {
        let (unexpected, mismatched) = (figures.unexpected, figures.mismatched);
        return Err(format!(
            "{}: {unexpected} answers with a wrong RCODE, {mismatched} that match no query",
            rival.name
        ));
    }
    let (rate, offered) = (load_run::answers_a_second(&run), offered_a_second(&run));
    Ok(Turn { name: rival.name, pace, rate, offered, used, compared })
}

/// Queries sent in a whole second.
fn offered_a_second(run: &Run) -> f64 {
    run.sending().map(|row| row.sent as f64).sum::<f64>() / run.sending().count().max(1) as f64
}

/// The rate of each server, which side was saturated, and the ratios of catamaran to the others.
fn figures(options: &Options, label: &str, turns: &[Turn], pace: Pace) -> Vec<Row> {
    let of = |name: &'static str| turns.iter().filter(move |turn| turn.name == name && turn.pace == pace);
    let mut rows = Vec::new();
    for name in NAMES.into_iter().filter(|name| of(name).next().is_some()) {
        let median = |value: fn(&Turn) -> f64| spread(&of(name).map(value).collect::<Vec<_>>());
        let (rate, least, most) = median(|turn| turn.rate);
        let used = Used {
            tool: median(|turn| turn.used.tool).0,
            server: median(|turn| turn.used.server).0,
            tool_core: median(|turn| turn.used.tool_core).0,
            server_core: median(|turn| turn.used.server_core).0,
            others: median(|turn| turn.used.others).0,
            idle: median(|turn| turn.used.idle).0,
        };
        let (cost_us, offered) = (median(Turn::cost_us).0, median(|turn| turn.offered).0);
        let compared = of(name).map(|turn| turn.compared).sum::<u32>();
        let compared =
            if name == "echo" { String::new() } else { format!("; {compared} addresses compared meanwhile") };
        rows.push(Row {
            what: format!("{label}: {name}"),
            figure: format!("{} answers/s ({} to {})", thousands(rate), thousands(least), thousands(most)),
            budget: String::new(),
            verdict: Verdict::Informs,
            note: format!(
                "{} queries/s offered; {cost_us:.2} us of the server's processor an answer; {}{compared}",
                thousands(offered),
                used.describe()
            ),
        });
    }
    for (other, budget) in RATIOS_MIN {
        let pairs = of("catamaran").zip(of(other));
        let (ratios, costs): (Vec<f64>, Vec<f64>) =
            pairs.map(|(own, other)| (own.rate / other.rate, other.cost_us() / own.cost_us())).unzip();
        if ratios.is_empty() && !options.servers.iter().any(|name| name == other) {
            continue;
        }
        let (ratio, least, most) = spread(&ratios);
        let is_judged = !budget.is_nan();
        rows.push(Row {
            what: format!("{label}: catamaran to {other}"),
            figure: format!("{ratio:.2} ({least:.2} to {most:.2})"),
            budget: if is_judged { format!(">= {budget}") } else { String::new() },
            verdict: match (ratios.is_empty(), is_judged) {
                (true, _) => Verdict::Absent,
                (_, true) => Verdict::of(ratio >= budget),
                (_, false) => Verdict::Informs,
            },
            note: format!("median of {} rounds; by processor time of the server {:.2}", ratios.len(), spread(&costs).0),
        });
    }
    rows
}
