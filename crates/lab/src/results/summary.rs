//! The summary of a run.

use super::{judge, replay};
use load::engine::{Outcome, Pace, Plan, TransportResults};
use report::{ClientLatency, Rules, SCHEMA_VERSION, SecondFigures, Summary, TransportSummary, host_name};

/// Computes the summary of a run.
#[must_use]
pub fn summary(plan: &Plan, outcome: &Outcome, rules: &Rules) -> Summary {
    let (validity, limit) = judge(plan, outcome, rules);
    let total = TransportSummary::new(&outcome.total);
    let planned_seconds = plan.pace.duration().as_secs_f64();
    let duration_seconds = duration_seconds(planned_seconds, outcome);
    let offered_rate = match &plan.pace {
        Pace::Open(schedule) if !outcome.is_interrupted => schedule.query_count_of(plan.part) / planned_seconds,
        Pace::Traffic(traffic) if !outcome.is_interrupted && planned_seconds > 0.0 => match traffic.query_count() {
            Some(count) => count / planned_seconds,
            None => outcome.total.sent as f64 / duration_seconds,
        },
        _ => outcome.total.sent as f64 / duration_seconds,
    };
    let right = total.right();
    Summary {
        schema_version: SCHEMA_VERSION,
        transports: outcome.transports.iter().map(|(own, results)| (*own, of_transport(results))).collect(),
        offered_rate,
        achieved_rate: right as f64 / duration_seconds,
        total,
        replay: replay::figures(plan, outcome),
        duration_seconds,
        validity,
        limit,
        wrong_answers: outcome.wrong_answers.clone(),
        hosts: vec![host_name()],
        agents: Vec::new(),
        seconds: SecondFigures::default(),
        monitor: std::collections::BTreeMap::new(),
        rtt: None,
        client_latency: outcome.client_classes.as_ref().map(ClientLatency::from),
        partial: false,
        per_query: None,
    }
}

fn of_transport(results: &TransportResults) -> TransportSummary {
    TransportSummary::with_connections(&results.total, &results.connection_total, results.open_max)
}

/// How long queries were sent: the planned duration, until the run was interrupted, or until the last overdue query was
/// sent.
fn duration_seconds(planned_seconds: f64, outcome: &Outcome) -> f64 {
    let sending = outcome.workers.iter().map(|worker| worker.sending.as_secs_f64()).fold(0.0, f64::max);
    let seconds = if outcome.is_interrupted { sending.min(planned_seconds) } else { planned_seconds.max(sending) };
    // The duration of a trace may be zero, which cannot be a divisor.
    seconds.max(1e-3)
}
