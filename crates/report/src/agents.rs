//! The results of each agent in a run, and whether they are valid.

use super::{Summary, Validity};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentFigures {
    /// Its name.
    pub name: String,
    /// The name of its machine.
    pub host: String,
    /// Queries planned, if known in advance.
    pub planned: Option<u64>,
    /// Queries sent. For a lost agent, as of its last heartbeat.
    pub sent: u64,
    /// Of these, answered in time.
    pub answered: u64,
    /// p99 of the time from planned to actual sending, in microseconds.
    pub send_lag_p99_us: f64,
    /// How far its clock was ahead of the controller's, in microseconds.
    pub clock_offset_us: f64,
    /// Uncertainty of the offset.
    pub clock_uncertainty_us: f64,
    /// How much later than agreed it started, in microseconds.
    pub start_late_us: f64,
    /// Busy share of its busiest worker.
    pub cpu_share: f64,
    /// Whether its results are valid.
    pub validity: Validity,
    /// Why its results are missing, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

impl AgentFigures {
    /// An agent without results.
    #[must_use]
    pub fn new(name: &str, host: &str, planned: Option<u64>) -> Self {
        Self {
            name: name.to_owned(),
            host: host.to_owned(),
            planned,
            sent: 0,
            answered: 0,
            send_lag_p99_us: 0.0,
            clock_offset_us: 0.0,
            clock_uncertainty_us: 0.0,
            start_late_us: 0.0,
            cpu_share: 0.0,
            validity: Validity { valid: true, reasons: Vec::new() },
            lost: None,
        }
    }

    /// Adds how far its clock is ahead of the controller's, and the uncertainty of that.
    #[must_use]
    pub fn with_clock(self, ahead_ns: i64, uncertainty_ns: u64) -> Self {
        Self { clock_offset_us: ahead_ns as f64 / 1e3, clock_uncertainty_us: uncertainty_ns as f64 / 1e3, ..self }
    }

    /// Adds the results of its run.
    #[must_use]
    pub fn with(self, summary: &Summary) -> Self {
        Self {
            sent: summary.total.sent,
            answered: summary.total.answered,
            send_lag_p99_us: summary.total.send_lag_us.p99,
            validity: summary.validity.clone(),
            ..self
        }
    }

    /// A lost agent that had sent this many queries.
    #[must_use]
    pub fn lost(self, sent: u64, reason: String) -> Self {
        let validity = Validity { valid: false, reasons: vec![self.loss(sent, &reason)] };
        Self { sent, validity, lost: Some(reason), ..self }
    }

    fn loss(&self, sent: u64, reason: &str) -> String {
        let unsent = match self.planned {
            Some(planned) => {
                format!("it had sent {sent} of its {planned} queries, {} were not sent", planned.saturating_sub(sent))
            }
            None => format!("it had sent {sent} queries"),
        };
        format!("agent {} was lost ({reason}): by its last heartbeat {unsent}; its results are not included", self.name)
    }

    /// A line for the terminal.
    pub(super) fn line(&self, out: &mut String, microseconds: impl Fn(f64) -> String) {
        let Self { name, host, sent, answered, .. } = self;
        let planned = self.planned.map_or_else(String::new, |planned| format!(" of {planned}"));
        let [lag, late, uncertainty] =
            [self.send_lag_p99_us, self.start_late_us, self.clock_uncertainty_us].map(&microseconds);
        let sign = if self.clock_offset_us < 0.0 { '-' } else { '+' };
        let clock = format!("{sign}{} +- {uncertainty}", microseconds(self.clock_offset_us.abs()));
        let end = if self.lost.is_some() { "LOST".to_owned() } else { self.validity.to_string() };
        // Writing into a string cannot fail.
        let _written = writeln!(
            out,
            "{:<10} {name} ({host}): {sent} sent{planned}, {answered} answered, send lag p99 {lag}, clock {clock}, \
             started {late} late, CPU {:.0} %, {end}",
            "agent",
            100.0 * self.cpu_share
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsent_queries_are_reported() {
        let agent = AgentFigures::new("east", "host1", Some(1_000)).with_clock(-1_500, 40_000);
        let lost = agent.lost(250, "no heartbeat".into());
        let reason = &lost.validity.reasons[0];
        assert!(
            reason.contains("it had sent 250 of its 1000 queries, 750 were not sent") && !lost.validity.valid,
            "{reason}"
        );
        let mut line = String::new();
        lost.line(&mut line, |us| format!("{us:.1} us"));
        assert!(line.starts_with("agent      east (host1): 250 sent of 1000, 0 answered"), "{line}");
        assert!(line.contains("clock -1.5 us +- 40.0 us") && line.ends_with("LOST\n"), "{line}");
    }
}
