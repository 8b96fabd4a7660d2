//! Two judgements, each by a stated rule and with its evidence: whether a run is valid, and whether the tool or the
//! server set its limit.

use crate::engine::{Outcome, Pace, Plan, Transport, WorkerTotals, port_range};
use crate::limits::HANDSHAKE_WAIT_MAX;
use crate::measure::Second;
use crate::replay::{Pacing, SecondReading, Sources};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Share of the local ports from which on it is said that they are about to run out.
const PORT_SHARE_NEAR: f64 = 0.9;

/// Shortest time between two queries on a connection for this check, in seconds. Shorter times match by chance.
const SPACING_MIN_S: f64 = 0.002;
/// Largest relative difference at which a service time counts as equal to it.
const SPACING_NEAR: f64 = 0.05;

/// The limits of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A run in which more than one query in a hundred went out later than this is not valid.
    pub lag_p99_max: Duration,
    /// A run that sent a smaller share of what was planned is not valid.
    pub sent_share_min: f64,
    /// A tool that is busy for a larger share of its cores' time is taken for the limit.
    pub tool_cpu_share_max: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { lag_p99_max: Duration::from_millis(1), sent_share_min: 0.999, tool_cpu_share_max: 0.9 }
    }
}

/// Whether the figures mean what they say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Validity {
    /// Whether they do.
    pub valid: bool,
    /// Why they do not.
    pub reasons: Vec<String>,
}

/// `valid`, or `INVALID: ` and why.
impl fmt::Display for Validity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.valid {
            formatter.write_str("valid")
        } else {
            write!(formatter, "INVALID: {}", self.reasons.join("; "))
        }
    }
}

impl Validity {
    /// Of a run that goes on, by all seconds so far: what can be said before its end. A lag may still be made up for.
    #[must_use]
    pub fn so_far(total: &Second, rules: &Rules) -> Self {
        let mut reasons: Vec<_> = lag_reason(total, rules).into_iter().collect();
        reasons.extend(refused_reason(total));
        reasons.extend(silence_reason(total));
        Self { valid: reasons.is_empty(), reasons }
    }
}

fn lag_reason(total: &Second, rules: &Rules) -> Option<String> {
    let lag = Duration::from_nanos(total.send_lag.value_at_quantile(0.99));
    (lag > rules.lag_p99_max).then(|| {
        let (lag, limit) = (super::duration(lag), super::duration(rules.lag_p99_max));
        format!(
            "p99 of the send lag is {lag}; the limit is {limit} (--lag-limit). Service time, losses and RCODEs \
             still hold"
        )
    })
}

fn refused_reason(total: &Second) -> Option<String> {
    let count = total.send_errors;
    (count > 0).then(|| {
        format!(
            "{count} queries were refused by this machine's network stack and not sent. Latency and losses hold for \
             the queries that were sent; lower the rate"
        )
    })
}

fn silence_reason(total: &Second) -> Option<String> {
    let is_silent = total.sent > 0 && total.arrived == 0;
    is_silent.then(|| match total.other_address {
        0 => "no answers: check the address of the server".to_owned(),
        count => format!("no answers from the queried address; {count} from other addresses"),
    })
}

/// What kept the run from going faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitSide {
    /// This tool, on this machine.
    Tool,
    /// The server, or the network between.
    Server,
    /// Nothing: the offered rate was reached. The limit is higher and not known.
    None,
}

impl LimitSide {
    /// Text for the terminal.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tool => "the tool",
            Self::Server => "the server",
            Self::None => "none: the offered rate was reached",
        }
    }
}

/// The verdict and what it rests on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// Whose limit it is.
    pub side: LimitSide,
    /// What was seen, whichever way it points.
    pub evidence: Vec<String>,
}

/// Judges a run.
#[must_use]
pub fn judge(plan: &Plan, outcome: &Outcome, rules: &Rules) -> (Validity, Limit) {
    let lag = Duration::from_nanos(outcome.total.send_lag.value_at_quantile(0.99));
    let dropped: u64 = outcome.workers.iter().map(|worker| worker.dropped).sum();
    let shortages: u64 = outcome.workers.iter().map(|worker| worker.id_shortages).sum();
    let mut reasons: Vec<_> = lag_reason(&outcome.total, rules).into_iter().collect();
    if dropped > 0 {
        reasons.push(format!(
            "{dropped} answers of the server were dropped at the sockets of this tool. They count as lost, with the \
             timeout as latency; percentiles hold up to the answered share. Lower the rate, or add --workers"
        ));
    }
    reasons.extend(unsent_reason(plan, outcome, rules));
    reasons.extend(trace_reasons(plan, outcome));
    reasons.extend(refused_reason(&outcome.total));
    let checked = &outcome.total.checked;
    if checked.checked > 0 && checked.checked == checked.unknown {
        reasons.push("no answer could be checked: the file has none of these questions".to_owned());
    }
    if let Some(failure) = &outcome.failure {
        reasons.push(failure.clone());
    } else if outcome.total.sent == 0 {
        reasons.push("no query was sent".to_owned());
    }
    reasons.extend(silence_reason(&outcome.total));
    let share = busiest(outcome);
    let mut evidence = vec![
        format!(
            "busiest worker used {:.0} % of a core; the limit is {:.0} %",
            share * 100.0,
            rules.tool_cpu_share_max * 100.0
        ),
        format!("p99 of the send lag {}; the limit is {}", super::duration(lag), super::duration(rules.lag_p99_max)),
        format!("{dropped} datagrams dropped at the tool's sockets"),
    ];
    let refusals: u64 = outcome.workers.iter().map(|worker| worker.refusals).sum();
    if refusals > 0 {
        evidence.push(format!("{refusals} times the port was unreachable (ICMP): nobody listens there"));
    }
    if shortages > 0 {
        evidence.push(format!("{shortages} times no ID was free: use more --sockets or a shorter --timeout"));
    }
    evidence.extend(trace_evidence(outcome));
    evidence.extend(ports(plan, outcome));
    evidence.extend(handshakes(outcome));
    evidence.extend(spacing(plan, outcome));
    evidence.extend(other_address(outcome));
    if checked.wrong() > 0 {
        evidence.push(format!(
            "{} of {} checked answers were wrong: {}",
            checked.wrong(),
            checked.checked,
            checked.told()
        ));
    }
    // In an open loop it shows as send lag; a closed one just goes slower.
    let is_short = shortages > 0 && plan.transport == Transport::Udp && matches!(plan.pace, Pace::Closed { .. });
    let is_tool = share > rules.tool_cpu_share_max || lag > rules.lag_p99_max || dropped > 0 || is_short;
    let side = match is_tool {
        true => LimitSide::Tool,
        false if is_reached(plan, outcome, rules) => LimitSide::None,
        false => LimitSide::Server,
    };
    (Validity { valid: reasons.is_empty(), reasons }, Limit { side, evidence })
}

/// Whether all planned queries were sent and answered correctly. False for a closed loop, which has no plan.
fn is_reached(plan: &Plan, outcome: &Outcome, rules: &Rules) -> bool {
    let total = &outcome.total;
    let right = total.checked.right_of(total.answered.saturating_sub(total.unexpected));
    let is_planned = !matches!(plan.pace, Pace::Closed { .. });
    let is_answered = total.sent > 0 && right as f64 >= total.sent as f64 * rules.sent_share_min;
    is_planned && is_answered && unsent_reason(plan, outcome, rules).is_none()
}

/// Detects a service time equal to the time between two queries on a connection. Such a server may answer each query
/// only when the next one arrives.
fn spacing(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let is_stream = matches!(plan.transport, Transport::Tcp | Transport::Dot | Transport::Doh);
    let spacing = connection_spacing(plan)?;
    let p50 = outcome.total.service.value_at_quantile(0.5) as f64 / 1e9;
    let is_alike = is_stream && spacing >= SPACING_MIN_S && (p50 / spacing - 1.0).abs() <= SPACING_NEAR;
    is_alike.then(|| {
        format!(
            "p50 of the service time is the time between two queries on a connection ({}): the server may answer \
             each query only when the next one arrives",
            super::duration(Duration::from_secs_f64(spacing))
        )
    })
}

/// Seconds between two queries on a connection, if all clients are the same.
fn connection_spacing(plan: &Plan) -> Option<f64> {
    let Pace::Open(schedule) = &plan.pace else { return None };
    let rate = schedule.query_count_of(plan.part) / plan.pace.duration().as_secs_f64();
    // Each worker has its own connections.
    let connections = plan.connection_count * plan.worker_count;
    Some(connections as f64 / rate)
}

fn unsent_reason(plan: &Plan, outcome: &Outcome, rules: &Rules) -> Option<String> {
    let (planned, least) = match &plan.pace {
        Pace::Open(schedule) => {
            let planned = schedule.query_count_of(plan.part);
            // A Poisson process of mean n varies by the root of n; four of these are chance once in 30,000 runs.
            (planned, planned * rules.sent_share_min - 4.0 * planned.sqrt())
        }
        // What stands in a trace is no chance.
        Pace::Traced(replay) => (replay.survey().queries as f64, replay.survey().queries as f64),
        Pace::Closed { .. } | Pace::Population { .. } => return None,
    };
    let sent = outcome.total.sent as f64;
    let is_short = !outcome.is_interrupted && sent < least;
    is_short.then(|| {
        format!(
            "{sent:.0} of {planned:.0} planned queries were sent. Service time and RCODEs still hold for the rate that \
             was sent; lower --rate or --speed, or add --workers"
        )
    })
}

/// Why a replay is not what the trace says.
fn trace_reasons(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let Pace::Traced(replay) = &plan.pace else { return Vec::new() };
    let damaged = replay.survey().damaged.as_ref();
    let damaged = damaged.map(|reason| format!("the trace is damaged ({reason}): what came before it was sent"));
    let SecondReading { unread, queries, newcomers } = &outcome.second_reading;
    let planned = replay.survey().queries;
    let differs = queries
        .filter(|&queries| queries != planned)
        .map(|queries| format!("the trace had {planned} queries when it was read first, and {queries} later"));
    let newcomers = (*newcomers > 0).then(|| {
        format!("{newcomers} queries were not sent: their clients were missing when the trace was read first")
    });
    let unread = unread.as_ref().map(|reason| format!("the trace could not be read again: {reason}"));
    let pacings = || outcome.workers.iter().filter_map(|worker| worker.pacing.as_deref());
    let stopped = pacings().filter_map(|pacing| pacing.stopped).min().map(|(planned, late)| {
        let (planned, late) = (planned.as_secs_f64(), super::duration(late));
        format!("stopped: the query at {planned:.6} s was {late} late")
    });
    [damaged, unread, differs, newcomers, stopped].into_iter().flatten().collect()
}

/// What a replay waited for beside the server.
fn trace_evidence(outcome: &Outcome) -> Vec<String> {
    let of = |count: fn(&Pacing) -> u64| {
        outcome.workers.iter().filter_map(|worker| worker.pacing.as_deref()).map(count).sum::<u64>()
    };
    let told = [
        (of(|pacing| pacing.dry), "times the trace was not read fast enough"),
        (of(|pacing| pacing.crowded), "times the queue of waiting queries was full"),
    ];
    told.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

/// Which part of the local ports the run held at once, towards the server to which it held most of them.
fn ports(plan: &Plan, outcome: &Outcome) -> Option<String> {
    if matches!(&plan.pace, Pace::Traced(replay) if replay.sources() != Sources::Sockets) {
        // Each address has all of them.
        return None;
    }
    let mut held = BTreeMap::new();
    for (key, count) in outcome.workers.iter().flat_map(|worker| &worker.ports) {
        *held.entry(*key).or_default() += count;
    }
    let ((transport, server), held) = held.into_iter().max_by_key(|(_, count): &(_, u64)| *count)?;
    let (low, high) = port_range()?;
    let sources = plan.sources.len().max(1) as u64;
    let all = sources * u64::from(high.saturating_sub(low) + 1);
    let share = held as f64 / all as f64;
    let mut line = format!(
        "at most {held} of {all} local ports ({:.1} %) in use towards {server} over {transport}",
        100.0 * share
    );
    let waiting = if matches!(transport, Transport::Udp | Transport::Doq) { 0 } else { outcome.time_wait_max };
    if waiting > 0 {
        line += &format!("; {waiting} more in TIME-WAIT");
    }
    if share >= PORT_SHARE_NEAR {
        line += "; about to run out: name more addresses with --source";
    } else if (held + waiting) as f64 >= PORT_SHARE_NEAR * all as f64 {
        line += "; may run out: name more addresses with --source";
    }
    Some(line)
}

/// Whether handshakes waited for this tool.
fn handshakes(outcome: &Outcome) -> Option<String> {
    let of = |count: fn(&WorkerTotals) -> u64| outcome.workers.iter().map(count).sum::<u64>();
    let (steps, behind) = (of(|totals| totals.handshake_steps), of(|totals| totals.handshake_steps_behind));
    let longest = outcome.workers.iter().map(|totals| totals.handshake_wait).max().unwrap_or_default();
    let pauses = match of(|totals| totals.handshake_pauses) {
        0 => String::new(),
        count => format!("; queries waited for them {count} times"),
    };
    (steps > 0).then(|| {
        format!(
            "{behind} of {steps} messages of handshakes ({:.1} %) waited here over {}, at most {}{pauses}",
            100.0 * behind as f64 / steps as f64,
            super::duration(HANDSHAKE_WAIT_MAX),
            super::duration(longest)
        )
    })
}

/// Who answered instead of the one that was asked.
fn other_address(outcome: &Outcome) -> Option<String> {
    let count = outcome.total.other_address;
    let first = outcome.workers.iter().find_map(|worker| worker.other_address);
    let first = first.map(|(asked, sender)| format!(": {asked} was queried, {sender} answered first"));
    (count > 0).then(|| format!("{count} messages came from another address{}", first.unwrap_or_default()))
}

/// Share of the run's time that the busiest worker worked; waiting in a spin is no work.
#[must_use]
pub fn busiest(outcome: &Outcome) -> f64 {
    let share = |worker: &WorkerTotals| {
        let work = worker.cpu.saturating_sub(worker.spun).as_secs_f64();
        work / worker.wall.as_secs_f64().max(1e-9)
    };
    outcome.workers.iter().map(share).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Arrivals, Schedule};
    use crate::workload::{Messages, Workload};
    use std::sync::Arc;

    #[test]
    fn each_worker_has_its_own_connections() {
        let schedule = Schedule::constant(1_000.0, Duration::from_secs(10), Arrivals::Even).unwrap();
        let workload = Workload::listed(Arc::new(Messages::default()));
        for (worker_count, seconds) in [(1, 0.008), (2, 0.016)] {
            let mut plan = Plan::new(Vec::new(), workload.clone(), Pace::Open(schedule.clone()));
            (plan.worker_count, plan.connection_count) = (worker_count, 8);
            let spacing = connection_spacing(&plan).unwrap();
            assert!((spacing - seconds).abs() < 1e-9, "{worker_count} workers: {spacing} s");
        }
    }
}
