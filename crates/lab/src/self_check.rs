//! The same plan against an echo in this process first: what goes wrong there is no server's fault.

use lab::echo::{Echo, EchoPlan};
use lab::engine::{self, Pace, Plan, TlsPlan, Transport};
use lab::report::{Rules, Summary, duration};
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

/// Carries the plan out against an echo on loopback that answers each query with the query.
///
/// # Errors
/// When the echo cannot be started, or a socket fails.
pub(crate) fn run(plan: &Plan, rules: &Rules, stops: &dyn Fn() -> u8) -> io::Result<Summary> {
    let transports: BTreeSet<Transport> = match &plan.pace {
        Pace::Population { population, .. } => population.members().iter().map(|(_, end, _)| end.transport).collect(),
        _ => [plan.transport].into(),
    };
    let transports: Vec<Transport> = transports.into_iter().collect();
    let echo = Echo::start(&EchoPlan::new(&transports)?)?;
    let pace = match &plan.pace {
        Pace::Population { population, duration } => {
            Pace::Population { population: population.toward(|transport| echo.address(transport)), duration: *duration }
        }
        pace => pace.clone(),
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
    Ok(Summary::new(&checked, &outcome, rules))
}

/// What it showed, in a line.
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
