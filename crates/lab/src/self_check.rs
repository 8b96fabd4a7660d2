//! First runs the same plan against an echo server in this process. Problems that occur here are not caused by the
//! server under test.

use lab::results;
use load::engine::{self, Pace, Plan, TlsPlan};
use load::population::PopulationTraffic;
use measure::Transport;
use report::{Rules, Summary, duration};
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;
use testbed::echo::{Echo, EchoPlan};

/// Runs the plan against an echo server on loopback, which answers each query with the query.
///
/// # Errors
/// If the echo server cannot be started, or a socket fails.
pub(crate) fn run(plan: &Plan, rules: &Rules, stops: &dyn Fn() -> u8) -> io::Result<Summary> {
    let population = plan.pace.traffic::<PopulationTraffic>();
    let transports: BTreeSet<Transport> = match population {
        Some(population) => population.clients.members().iter().map(|(_, end, _)| end.transport).collect(),
        None => [plan.transport].into(),
    };
    let transports: Vec<Transport> = transports.into_iter().collect();
    let echo = Echo::start(&EchoPlan::new(&transports)?)?;
    let pace = match population {
        Some(PopulationTraffic { clients, duration }) => {
            let clients = clients.toward(|transport| echo.address(transport));
            Pace::of(PopulationTraffic { clients, duration: *duration })
        }
        None => plan.pace.clone(),
    };
    let mut servers = vec![echo.address(transports[0])];
    servers.resize(plan.servers.len(), servers[0]);
    let checked = Plan {
        servers,
        pace,
        tls: TlsPlan { is_insecure: true, ..TlsPlan::default() },
        // The echo's answers have the RCODE of the query.
        expected_rcodes: Vec::new(),
        per_query: None,
        checking: None,
        ..plan.clone()
    };
    let outcome = engine::run(&checked, |_| stops())?;
    let mut summary = results::summary(&checked, &outcome, rules);
    summary.note_recording(&results::recording(&checked, &outcome));
    Ok(summary)
}

/// The result in one line.
pub(crate) fn line(summary: &Summary) -> String {
    let total = &summary.total;
    let us = |us: f64| duration(Duration::from_nanos((us * 1e3) as u64));
    let figures = format!(
        "{} of {} answered, {:.0} a second, latency p50 {} p99 {}, send lag p99 {}",
        total.answered,
        total.sent,
        summary.achieved_rate,
        us(total.latency_us.p50),
        us(total.latency_us.p99),
        us(total.send_lag_us.p99),
    );
    match summary.validity.valid {
        true => format!("self-check {figures}"),
        false => format!("self-check INVALID: {}; {figures}", summary.validity.reasons.join("; ")),
    }
}
