//! Measures a link from both of its ends, and compares the result with the request.

mod probe;

use crate::delay::{Rate, Rtt, Shape};
use crate::{Net, Quantiles};
use probe::{Probe, Udp};
use serde::Serialize;
use std::fmt;
use std::io;
use std::time::Duration;

/// How much a check measures.
#[derive(Clone, Copy, Debug)]
pub struct CheckPlan {
    /// Number of datagrams to send. Each is sent back.
    pub udp_count: u32,
    /// Time between two datagrams.
    pub spacing: Duration,
    /// Number of exchanges on one TCP connection.
    pub tcp_count: u32,
    /// How long to fill a limited rate. Zero skips this measurement.
    pub rate_for: Duration,
    /// How long to wait for late packets beyond twice the requested round trip. Then they count as lost.
    pub timeout: Duration,
}

impl CheckPlan {
    /// The short check before a run: a quarter of a second and a few round trips.
    pub const QUICK: Self = Self {
        udp_count: 50,
        spacing: Duration::from_millis(4),
        tcp_count: 5,
        rate_for: Duration::ZERO,
        timeout: Duration::from_secs(1),
    };
    /// The full check.
    pub const FULL: Self = Self {
        udp_count: 1_000,
        spacing: Duration::from_millis(2),
        tcp_count: 50,
        rate_for: Duration::from_millis(500),
        timeout: Duration::from_secs(2),
    };
}

/// The result for the link of one group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkCheck {
    /// Name of the group.
    pub group: String,
    /// The mechanism that carries the packets.
    pub mechanism: &'static str,
    /// Datagrams sent.
    pub sent: u32,
    /// Datagrams that came back.
    pub came_back: u32,
    /// Datagrams that came back earlier than requested. This must be 0.
    pub early: u32,
    /// Round trips of datagrams.
    pub udp_rtt_us: Quantiles,
    /// Round trips of datagrams, less the requested round trip of their client.
    pub udp_excess_us: Quantiles,
    /// Round trips of TCP exchanges, less the requested round trip. A lost segment costs a TCP timeout.
    pub tcp_excess_us: Option<Quantiles>,
    /// Average delay that jitter and a limited rate add to a small datagram.
    pub expected_excess_us: f64,
    /// The requested share of lost round trips, over both directions.
    pub loss_configured: f64,
    /// The measured share.
    pub loss_found: f64,
    /// The requested rate, in bits per second.
    pub rate_configured: Option<u64>,
    /// The measured rate.
    pub rate_found: Option<f64>,
    /// Differences from the request that are too large.
    pub complaints: Vec<String>,
}

/// Bytes of a probe's datagram with its headers.
const PROBE_BYTES: u64 = probe::PAYLOAD_BYTES as u64 + 28;

/// Measures the link of a group.
///
/// # Errors
///
/// Nothing can be sent through the link.
pub fn check(net: &Net, index: usize, plan: &CheckPlan) -> io::Result<LinkCheck> {
    let group = &net.plan().groups[index];
    let probe = Probe { net, index, timeout: plan.timeout };
    let Udp { mut rtts_us, mut excess_us, early, sent } = probe.udp(plan.udp_count, plan.spacing)?;
    let mut tcp_us = probe.tcp(plan.tcp_count);
    let rate_found = match group.shape.rate {
        Some(rate) if !plan.rate_for.is_zero() => probe.rate(rate.bits, plan.rate_for)?,
        _ => None,
    };
    let came_back = rtts_us.len() as u32;
    let through = 1.0 - group.shape.loss.share;
    let mut checked = LinkCheck {
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
    checked.complaints = checked.find_deviations(&group.shape);
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

impl LinkCheck {
    /// Differences from the request. The limits are those that a link keeps on a machine with a free core.
    fn find_deviations(&self, shape: &Shape) -> Vec<String> {
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
        // Four standard deviations of the share. Packets of a burst are lost together.
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
        if let (Some(requested), Some(found)) = (self.rate_configured, self.rate_found) {
            let requested = requested as f64 * (1.0 - shape.loss.share);
            if (found / requested - 1.0).abs() > 0.05 + deviation {
                complaints.push(format!("reached {:.3} Mbit/s of {:.3}", found / 1e6, requested / 1e6));
            }
        }
        complaints
    }
}

impl fmt::Display for LinkCheck {
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
        let (found, requested) = (100.0 * self.loss_found, 100.0 * self.loss_configured);
        write!(out, "  round trips lost    {found:.2} %, configured {requested:.2} %")?;
        if let (Some(requested), Some(found)) = (self.rate_configured, self.rate_found) {
            write!(out, "\n  rate                {:.3} Mbit/s, configured {:.3}", found / 1e6, requested as f64 / 1e6)?;
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

    fn found(came_back: u32, early: u32, excess_us: f64) -> LinkCheck {
        let flat = |us| Quantiles { q1: us, median: us, q3: us, p99: us, max: us };
        LinkCheck {
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
        assert!(found(1_000, 0, 120.0).find_deviations(&shape).is_empty());
        assert!(found(1_000, 1, 120.0).find_deviations(&shape)[0].contains("too early"));
        assert!(found(1_000, 0, 1_200.0).find_deviations(&shape)[0].contains("late"));
        assert!(found(999, 0, 120.0).find_deviations(&shape)[0].contains("lost"));
        let slow = LinkCheck { rate_found: Some(800_000.0), ..found(1_000, 0, 120.0) };
        assert!(slow.find_deviations(&shape)[0].contains("Mbit/s"));
        let as_configured = LinkCheck { loss_configured: 0.1, ..found(885, 0, 120.0) };
        assert!(as_configured.find_deviations(&shape).is_empty());
        assert!(LinkCheck { loss_configured: 0.1, ..found(800, 0, 120.0) }.find_deviations(&shape)[0].contains("lost"));
    }

    #[test]
    fn a_delay_without_responses_is_not_measured() {
        let all_lost = Shape { loss: crate::delay::Loss { share: 1.0, burst: 1.0 }, ..Shape::constant(Duration::ZERO) };
        let lost = LinkCheck { loss_configured: 1.0, rate_configured: None, ..found(0, 0, 0.0) };
        assert!(lost.find_deviations(&all_lost).is_empty(), "all packets are lost, as configured");
        assert!(lost.to_string().contains("not measured"), "{lost}");
        let delayed = Shape { rtt: Rtt::Constant(Duration::from_millis(20)), ..all_lost.clone() };
        assert!(lost.find_deviations(&delayed)[0].contains("could not be measured"));
        let jittered = Shape { jitter: Duration::from_millis(1), ..all_lost };
        assert!(lost.find_deviations(&jittered)[0].contains("could not be measured"));
    }

    #[test]
    fn jitter_and_a_slow_rate_are_expected() {
        let rate = Some(Rate { bits: 64_000, queue_bytes: 1_000 });
        let jitter = Duration::from_millis(2);
        let shape = Shape { jitter, rate, ..Shape::constant(jitter) };
        // 60 bytes take 7.5 ms at 64 kbit/s, each way. Half of the jitter is added on average.
        assert_eq!(PROBE_BYTES, 60);
        assert!((expected_excess_us(&shape) - 16_000.0).abs() < 1e-6);
    }
}
