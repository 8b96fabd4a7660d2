//! What a link does, measured through it, beside what was asked of it.

mod probe;

use crate::Net;
use crate::Quantiles;
use crate::delay::{Rate, Rtt, Shape};
use probe::{Probe, Udp};
use serde::Serialize;
use std::fmt;
use std::io;
use std::time::Duration;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct CheckPlan {
    /// Datagrams that are sent and sent back.
    pub udp_count: u32,
    /// Time between two of them.
    pub spacing: Duration,
    /// Exchanges on one TCP connection.
    pub tcp_count: u32,
    /// How long a limited rate is filled; zero leaves it out.
    pub rate_for: Duration,
    /// How long what is late is waited for, beyond twice what was asked, before it counts as lost.
    pub patience: Duration,
}

impl CheckPlan {
    /// Before a run: a quarter of a second and a round trip or two.
    pub const SHORT: Self = Self {
        udp_count: 50,
        spacing: Duration::from_millis(4),
        tcp_count: 5,
        rate_for: Duration::ZERO,
        patience: Duration::from_secs(1),
    };
    /// All of it.
    pub const WHOLE: Self = Self {
        udp_count: 1_000,
        spacing: Duration::from_millis(2),
        tcp_count: 50,
        rate_for: Duration::from_millis(500),
        patience: Duration::from_secs(2),
    };
}

/// What was found of a group's link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Checked {
    /// The group.
    pub group: String,
    /// What carries its packets.
    pub mechanism: &'static str,
    /// Datagrams sent.
    pub sent: u32,
    /// Those that came back.
    pub came_back: u32,
    /// Those that came back sooner than asked: none may.
    pub early: u32,
    /// Round trips of datagrams.
    pub udp_rtt_us: Quantiles,
    /// The same beyond the round trip that was asked for their client.
    pub udp_excess_us: Quantiles,
    /// Round trips of exchanges on TCP beyond what was asked; a lost segment costs a time-out of TCP.
    pub tcp_excess_us: Option<Quantiles>,
    /// What jitter and a limited rate add to a small datagram on average.
    pub expected_excess_us: f64,
    /// The share of round trips that was to be lost: in either direction.
    pub loss_configured: f64,
    /// The share that was.
    pub loss_found: f64,
    /// The rate that was asked, in bits a second.
    pub rate_configured: Option<u64>,
    /// The rate that was reached while it was filled.
    pub rate_found: Option<f64>,
    /// What is not as it was asked.
    pub complaints: Vec<String>,
}

/// Bytes of a probe's datagram with its heads.
const PROBE_BYTES: u64 = probe::PAYLOAD_BYTES as u64 + 28;

/// Measures the link of a group.
///
/// # Errors
/// Nothing can be sent through it.
pub fn check(net: &Net, index: usize, plan: &CheckPlan) -> io::Result<Checked> {
    let group = &net.plan().groups[index];
    let probe = Probe { net, index, patience: plan.patience };
    let Udp { mut rtts_us, mut excess_us, early, sent } = probe.udp(plan.udp_count, plan.spacing)?;
    let mut tcp_us = probe.tcp(plan.tcp_count);
    let rate_found = match group.shape.rate {
        Some(rate) if !plan.rate_for.is_zero() => probe.rate(rate.bits, plan.rate_for)?,
        _ => None,
    };
    let came_back = rtts_us.len() as u32;
    let through = 1.0 - group.shape.loss.share;
    let mut checked = Checked {
        group: group.name.clone(),
        mechanism: net.mechanism_of(index),
        sent,
        came_back,
        early,
        udp_rtt_us: Quantiles::of_us(&mut rtts_us),
        udp_excess_us: Quantiles::of_us(&mut excess_us),
        tcp_excess_us: tcp_us.as_mut().ok().map(|values| Quantiles::of_us(values)),
        expected_excess_us: expected_excess_us(&group.shape),
        loss_configured: 1.0 - through * through,
        loss_found: 1.0 - f64::from(came_back) / f64::from(sent.max(1)),
        rate_configured: group.shape.rate.map(|rate| rate.bits),
        rate_found,
        complaints: Vec::new(),
    };
    checked.complaints = checked.judge(&group.shape);
    if let Err(error) = tcp_us
        && group.shape.loss.share == 0.0
    {
        checked.complaints.push(format!("TCP: {error}"));
    }
    if group.shape.rate.is_some() && !plan.rate_for.is_zero() && rate_found.is_none() {
        checked.complaints.push("too few datagrams arrived to measure the rate".to_owned());
    }
    Ok(checked)
}

fn expected_excess_us(shape: &Shape) -> f64 {
    let jitter = shape.jitter.as_secs_f64() * 1e6 / 2.0;
    let sending = shape.rate.map_or(0.0, |Rate { bits, .. }| 2.0 * 8e6 * PROBE_BYTES as f64 / bits as f64);
    jitter + sending
}

impl Checked {
    /// What is not as asked, with bounds that a link on a machine with a core free keeps.
    fn judge(&self, shape: &Shape) -> Vec<String> {
        let mut complaints = Vec::new();
        let asks_delay = !matches!(shape.rtt, Rtt::Constant(Duration::ZERO)) || !shape.jitter.is_zero();
        if self.came_back == 0 && asks_delay {
            complaints.push("nothing came back, so the delay could not be measured".to_owned());
        }
        if self.early > 0 {
            complaints.push(format!("{} datagrams came back too early", self.early));
        }
        let bound_us = (0.05 * self.udp_rtt_us.median).max(1_000.0);
        let excess_us = self.udp_excess_us.median - self.expected_excess_us;
        if self.came_back > 0 && excess_us > bound_us {
            complaints.push(format!("half of the datagrams were more than {excess_us:.0} us late"));
        }
        // Four deviations of the share; packets of a burst are lost together.
        let variance = self.loss_configured * (1.0 - self.loss_configured) / f64::from(self.sent.max(1));
        let deviation = (variance * (2.0 * shape.loss.burst).max(1.0)).sqrt();
        let least = if self.loss_configured == 0.0 { 0.0 } else { 2.0 / f64::from(self.sent.max(1)) };
        if (self.loss_found - self.loss_configured).abs() > (4.0 * deviation).max(least) {
            complaints.push(format!(
                "lost {:.2} %, configured {:.2} %",
                100.0 * self.loss_found,
                100.0 * self.loss_configured
            ));
        }
        if let (Some(asked), Some(found)) = (self.rate_configured, self.rate_found) {
            let asked = asked as f64 * (1.0 - shape.loss.share);
            if (found / asked - 1.0).abs() > 0.05 + deviation {
                complaints.push(format!("reached {:.3} Mbit/s of {:.3}", found / 1e6, asked / 1e6));
            }
        }
        complaints
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, mechanism, sent, came_back, early, .. } = self;
        writeln!(out, "{group} ({mechanism}): {came_back} of {sent} datagrams came back, {early} too early")?;
        if *came_back > 0 {
            writeln!(out, "  UDP round trip      {}", self.udp_rtt_us)?;
            writeln!(out, "  UDP extra delay     {}; expected {:.0}", self.udp_excess_us, self.expected_excess_us)?;
        } else {
            writeln!(out, "  UDP round trip      not measured: nothing came back")?;
        }
        if let Some(tcp) = self.tcp_excess_us {
            writeln!(out, "  TCP extra delay     {tcp}")?;
        }
        let (found, asked) = (100.0 * self.loss_found, 100.0 * self.loss_configured);
        write!(out, "  round trips lost    {found:.2} %, configured {asked:.2} %")?;
        if let (Some(asked), Some(found)) = (self.rate_configured, self.rate_found) {
            write!(out, "\n  rate                {:.3} Mbit/s, configured {:.3}", found / 1e6, asked as f64 / 1e6)?;
        }
        for complaint in &self.complaints {
            write!(out, "\n  NOT AS CONFIGURED: {complaint}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(came_back: u32, early: u32, excess_us: f64) -> Checked {
        let flat = |us| Quantiles { q1: us, median: us, q3: us, p99: us, max: us };
        Checked {
            group: "a".into(),
            mechanism: "relay",
            sent: 1_000,
            came_back,
            early,
            udp_rtt_us: flat(20_000.0 + excess_us),
            udp_excess_us: flat(excess_us),
            tcp_excess_us: None,
            expected_excess_us: 0.0,
            loss_configured: 0.0,
            loss_found: 1.0 - f64::from(came_back) / 1_000.0,
            rate_configured: Some(1_000_000),
            rate_found: Some(990_000.0),
            complaints: Vec::new(),
        }
    }

    #[test]
    fn only_deviations_are_reported() {
        let shape = Shape::constant(Duration::from_millis(20));
        assert!(found(1_000, 0, 120.0).judge(&shape).is_empty());
        assert!(found(1_000, 1, 120.0).judge(&shape)[0].contains("too early"));
        assert!(found(1_000, 0, 1_200.0).judge(&shape)[0].contains("late"));
        assert!(found(999, 0, 120.0).judge(&shape)[0].contains("lost"));
        let slow = Checked { rate_found: Some(800_000.0), ..found(1_000, 0, 120.0) };
        assert!(slow.judge(&shape)[0].contains("Mbit/s"));
        let asked = Checked { loss_configured: 0.1, ..found(885, 0, 120.0) };
        assert!(asked.judge(&shape).is_empty());
        assert!(Checked { loss_configured: 0.1, ..found(800, 0, 120.0) }.judge(&shape)[0].contains("lost"));
    }

    #[test]
    fn a_delay_of_which_nothing_came_back_was_not_measured() {
        let nothing = Shape { loss: crate::delay::Loss { share: 1.0, burst: 1.0 }, ..Shape::constant(Duration::ZERO) };
        let lost = Checked { loss_configured: 1.0, rate_configured: None, ..found(0, 0, 0.0) };
        assert!(lost.judge(&nothing).is_empty(), "a loss of all that was asked is as asked");
        assert!(lost.to_string().contains("not measured"), "{lost}");
        let delayed = Shape { rtt: Rtt::Constant(Duration::from_millis(20)), ..nothing.clone() };
        assert!(lost.judge(&delayed)[0].contains("could not be measured"));
        let shaken = Shape { jitter: Duration::from_millis(1), ..nothing };
        assert!(lost.judge(&shaken)[0].contains("could not be measured"));
    }

    #[test]
    fn jitter_and_a_slow_rate_are_expected() {
        let rate = Some(Rate { bits: 64_000, queue_bytes: 1_000 });
        let jitter = Duration::from_millis(2);
        let shape = Shape { jitter, rate, ..Shape::constant(jitter) };
        // 60 bytes take 7.5 ms at 64 kbit/s, each way; of jitter the half.
        assert_eq!(PROBE_BYTES, 60);
        assert!((expected_excess_us(&shape) - 16_000.0).abs() < 1e-6);
    }
}
