//! Two judgements, each by a stated rule and with its evidence: whether a run is valid, and whether the tool or the
//! server set its limit.

use crate::engine::{Outcome, Pace, Plan};
use serde::{Deserialize, Serialize};
use std::time::Duration;

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

/// Who could not have gone faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitSide {
    /// This tool, on this machine.
    Tool,
    /// The server, or the network between.
    Server,
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
    let mut reasons = Vec::new();
    if lag > rules.lag_p99_max {
        let (lag, limit) = (super::duration(lag), super::duration(rules.lag_p99_max));
        reasons.push(format!("one query in a hundred went out {lag} late or more; the limit is {limit}"));
    }
    if dropped > 0 {
        reasons.push(format!("{dropped} datagrams were lost here, unread: answers that the server did give"));
    }
    if let (Pace::Open(schedule), false) = (&plan.pace, outcome.is_interrupted) {
        let (sent, planned) = (outcome.total.sent as f64, schedule.query_count());
        // A Poisson process of mean n varies by the root of n; four of these are chance once in 30,000 runs.
        if sent < planned * rules.sent_share_min - 4.0 * planned.sqrt() {
            reasons.push(format!("{sent:.0} queries were sent of {planned:.0} that were planned"));
        }
    }
    if outcome.total.send_errors > 0 {
        reasons.push(format!("{} queries were refused by this machine's network stack", outcome.total.send_errors));
    }
    let checked = &outcome.total.checked;
    if checked.checked > 0 && checked.checked == checked.unknown {
        reasons.push("no answer could be checked: of none of these questions the right answer is known".to_owned());
    }
    if let Some(failure) = &outcome.failure {
        reasons.push(failure.clone());
    } else if outcome.total.sent == 0 {
        reasons.push("not one query was sent".to_owned());
    }
    if outcome.total.sent > 0 && outcome.total.arrived == 0 {
        reasons.push("not one answer came: is there a server?".to_owned());
    }
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
        evidence.push(format!("{refusals} times it was said that nobody listens there (ICMP port unreachable)"));
    }
    if shortages > 0 {
        evidence.push(format!("{shortages} times no ID was free: too many queries wait for each socket"));
    }
    if checked.wrong() > 0 {
        evidence.push(format!(
            "{} of {} answers that were checked were wrong: {}",
            checked.wrong(),
            checked.checked,
            checked.told()
        ));
    }
    let is_tool = share > rules.tool_cpu_share_max || lag > rules.lag_p99_max || dropped > 0;
    let side = if is_tool { LimitSide::Tool } else { LimitSide::Server };
    (Validity { valid: reasons.is_empty(), reasons }, Limit { side, evidence })
}

/// Share of the run's time that the busiest worker worked; waiting in a spin is no work.
fn busiest(outcome: &Outcome) -> f64 {
    let share = |worker: &crate::engine::Tail| {
        let work = worker.cpu.saturating_sub(worker.spun).as_secs_f64();
        work / worker.wall.as_secs_f64().max(1e-9)
    };
    outcome.workers.iter().map(share).fold(0.0, f64::max)
}
