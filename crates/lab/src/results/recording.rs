//! The recording of a run, second by second.

use load::engine::{Outcome, Plan};
use measure::{ClientTally, Row};
use report::{Client, Recording, Timeouts, TransportRows};
use std::time::Duration;

/// The recording of a finished run.
#[must_use]
pub fn recording(plan: &Plan, outcome: &Outcome) -> Recording {
    let idle = plan.idle_timeout().unwrap_or_default();
    let timeouts = Timeouts { handshake: plan.handshake_timeout, idle };
    Recording { timeouts, ..recording_of(outcome, plan.timeout) }
}

/// The same without the timeouts of connections.
#[must_use]
pub fn recording_of(outcome: &Outcome, timeout: Duration) -> Recording {
    let mut recording = Recording::new(outcome.started, timeout);
    let client = |tally: &ClientTally| Client {
        client: tally.client,
        transport: tally.transport.label().to_owned(),
        sent: tally.sent,
        answered: tally.answered,
        p50_us: f64::from(tally.p50_us),
        p99_us: f64::from(tally.p99_us),
        longest_gap_s: tally.longest_gap_s,
        expected: tally.expected,
    };
    recording.clients = outcome.clients.iter().map(client).collect();
    for (transport, account) in &outcome.transports {
        let total = &account.connection_total;
        let connections = if total.opened + total.failed > 0 { account.connections.clone() } else { Vec::new() };
        let rows = TransportRows { rows: account.seconds.clone(), connections };
        recording.transports.insert(transport.label().to_owned(), rows);
    }
    for index in 0..outcome.second_count as usize {
        let parts: Vec<_> =
            recording.transports.values().filter_map(|account| account.rows.get(index).cloned()).collect();
        recording.rows.push(Row { start_seconds: index as f64, span_seconds: 1.0, ..Row::sum(&parts) });
    }
    recording
}
