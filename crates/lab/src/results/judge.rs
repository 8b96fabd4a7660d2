//! Judges a run: whether it is valid, and whether the tool or the server set its limit. Each rule has its evidence.

use load::engine::{Outcome, Pace, Plan, SecondReading, WorkerTotals, port_range};
use load::limits::HANDSHAKE_WAIT_MAX;
use load::replay::{Replay, Sources};
use measure::{Pacing, Transport};
use report::{Limit, LimitSide, Rules, Validity, duration, reasons};
use std::collections::BTreeMap;
use std::time::Duration;

/// Above this share of local ports in use, the evidence warns that they may run out.
const PORT_SHARE_NEAR: f64 = 0.9;

/// Shortest time between two queries on a connection for this check, in seconds. Shorter times match by chance.
const SPACING_MIN_S: f64 = 0.002;
/// Largest relative difference at which a service time counts as equal to it.
const SPACING_NEAR: f64 = 0.05;

/// Judges a run.
#[must_use]
pub fn judge(plan: &Plan, outcome: &Outcome, rules: &Rules) -> (Validity, Limit) {
    let lag = Duration::from_nanos(outcome.total.send_lag.value_at_quantile(0.99));
    let dropped: u64 = outcome.workers.iter().map(|worker| worker.dropped).sum();
    let shortages: u64 = outcome.workers.iter().map(|worker| worker.id_shortages).sum();
    let mut reasons: Vec<_> = reasons::lag(&outcome.total, rules).into_iter().collect();
    if dropped > 0 {
        reasons.push(format!(
            "{dropped} answers of the server were dropped at the sockets of this tool. They count as lost, with the \
             timeout as latency; percentiles hold up to the answered share. Lower the rate, or add --workers"
        ));
    }
    reasons.extend(unsent_reason(plan, outcome, rules));
    reasons.extend(trace_reasons(plan, outcome));
    reasons.extend(reasons::refused(&outcome.total));
    let checked = &outcome.total.checked;
    if checked.checked > 0 && checked.checked == checked.unknown {
        reasons.push("no answer could be checked: the file has none of these questions".to_owned());
    }
    if let Some(failure) = &outcome.failure {
        reasons.push(failure.clone());
    } else if outcome.total.sent == 0 {
        reasons.push("no query was sent".to_owned());
    }
    reasons.extend(reasons::no_answers(&outcome.total));
    let share = busiest(outcome);
    let mut evidence = vec![
        format!(
            "busiest worker used {:.0} % of a core; the limit is {:.0} %",
            share * 100.0,
            rules.tool_cpu_share_max * 100.0
        ),
        format!("p99 of the send lag {}; the limit is {}", duration(lag), duration(rules.lag_p99_max)),
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
            checked.describe()
        ));
    }
    // In an open loop, missing IDs show as send lag. A closed loop only becomes slower.
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
            duration(Duration::from_secs_f64(spacing))
        )
    })
}

/// Seconds between two queries on a connection, if all clients are equal.
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
            // A Poisson process with mean n has a standard deviation of sqrt(n). A deviation of four times that occurs
            // by chance once in 30,000 runs.
            (planned, planned * rules.sent_share_min - 4.0 * planned.sqrt())
        }
        // The number of queries in a trace is not random.
        Pace::Traffic(traffic) => traffic.query_count().map(|count| (count, count))?,
        Pace::Closed { .. } => return None,
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

/// Reasons why a replay deviates from its trace.
fn trace_reasons(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let Some(replay) = plan.pace.traffic::<Replay>() else { return Vec::new() };
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
        let (planned, late) = (planned.as_secs_f64(), duration(late));
        format!("stopped: the query at {planned:.6} s was {late} late")
    });
    [damaged, unread, differs, newcomers, stopped].into_iter().flatten().collect()
}

/// Delays of a replay that were not caused by the server.
fn trace_evidence(outcome: &Outcome) -> Vec<String> {
    let of = |count: fn(&Pacing) -> u64| {
        outcome.workers.iter().filter_map(|worker| worker.pacing.as_deref()).map(count).sum::<u64>()
    };
    let reasons = [
        (of(|pacing| pacing.dry), "times the trace was not read fast enough"),
        (of(|pacing| pacing.crowded), "times the queue of waiting queries was full"),
    ];
    reasons.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

/// The peak share of local ports in use, for the server with the most ports.
fn ports(plan: &Plan, outcome: &Outcome) -> Option<String> {
    if plan.pace.traffic::<Replay>().is_some_and(|replay| replay.sources() != Sources::Sockets) {
        // Each source address has all ports.
        return None;
    }
    let mut in_use = BTreeMap::new();
    for (key, count) in outcome.workers.iter().flat_map(|worker| &worker.ports) {
        *in_use.entry(*key).or_default() += count;
    }
    let ((transport, server), in_use) = in_use.into_iter().max_by_key(|(_, count): &(_, u64)| *count)?;
    let (low, high) = port_range()?;
    let sources = plan.sources.len().max(1) as u64;
    let all = sources * u64::from(high.saturating_sub(low) + 1);
    let share = in_use as f64 / all as f64;
    let mut line = format!(
        "at most {in_use} of {all} local ports ({:.1} %) in use towards {server} over {transport}",
        100.0 * share
    );
    let waiting = if matches!(transport, Transport::Udp | Transport::Doq) { 0 } else { outcome.time_wait_max };
    if waiting > 0 {
        line += &format!("; {waiting} more in TIME-WAIT");
    }
    if share >= PORT_SHARE_NEAR {
        line += "; about to run out: name more addresses with --source";
    } else if (in_use + waiting) as f64 >= PORT_SHARE_NEAR * all as f64 {
        line += "; may run out: name more addresses with --source";
    }
    Some(line)
}

/// How many handshake messages waited for this tool, and for how long.
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
            duration(HANDSHAKE_WAIT_MAX),
            duration(longest)
        )
    })
}

/// The number of answers from other addresses, and the first of these addresses.
fn other_address(outcome: &Outcome) -> Option<String> {
    let count = outcome.total.other_address;
    let first = outcome.workers.iter().find_map(|worker| worker.other_address);
    let first = first.map(|(queried, sender)| format!(": {queried} was queried, {sender} answered first"));
    (count > 0).then(|| format!("{count} messages came from another address{}", first.unwrap_or_default()))
}

/// The share of the run in which the busiest worker was busy. Busy-waiting does not count.
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
    use load::schedule::{Arrivals, Schedule};
    use load::workload::{Messages, Workload};
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
