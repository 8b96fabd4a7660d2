//! `netem`, the delay of the kernel.

use crate::Namespace;
use crate::delay::{Loss, Rate, Rtt, Shape};
use crate::limits::{MTU, QUEUED_PACKETS_MAX};
use std::io;
use std::process::{Command, Stdio};

/// Whether this kernel has netem. Tries it in a namespace made for the test.
pub(crate) fn is_there(scratch: &Namespace) -> bool {
    // An interface without traffic is enough for the test.
    scratch.ip("link add probe type veth peer name other").is_ok() && {
        let is_there = shape(scratch, "probe", "delay 1ms").is_ok();
        let _gone = scratch.ip("link del probe");
        is_there
    }
}

/// Whether netem does exactly what is requested. It draws losses without our seed, and its jitter makes packets early
/// and reorders them.
pub(crate) fn is_exact(shape: &Shape) -> bool {
    shape.rtt.is_constant() && shape.jitter.is_zero() && shape.loss.share == 0.0
}

/// The arguments for one direction (tc-netem(8)), or the reason why netem cannot do it.
pub(crate) fn arguments(shape: &Shape) -> Result<String, String> {
    let Rtt::Constant(rtt) = shape.rtt else {
        return Err("netem has one delay for all clients of a group; use the relay for one per client".into());
    };
    if !shape.jitter.is_zero() {
        return Err("jitter of netem can be early and reorders packets; use the relay".into());
    }
    let mut arguments = format!("delay {}us", rtt.as_micros() / 2);
    let Loss { share, burst } = shape.loss;
    if share > 0.0 && burst > 1.0 && share < 1.0 {
        // p and r of Gilbert's model, in percent.
        let ends = 1.0 / burst;
        arguments += &format!(" loss gemodel {:.6}% {:.6}%", 100.0 * ends * share / (1.0 - share), 100.0 * ends);
    } else if share > 0.0 {
        arguments += &format!(" loss {:.6}%", 100.0 * share);
    }
    let mut limit = QUEUED_PACKETS_MAX as u64;
    if let Some(Rate { bits, queue_bytes }) = shape.rate {
        // The limit counts delayed packets too.
        let delayed = bits / 8 * rtt.as_micros() as u64 / 2 / 1_000_000;
        limit = limit.min((queue_bytes + delayed) / MTU as u64 + 1);
        arguments += &format!(" rate {bits}bit");
    }
    Ok(format!("{arguments} limit {limit}"))
}

/// Sets netem on an interface, for the packets that it sends.
pub(crate) fn shape(namespace: &Namespace, interface: &str, arguments: &str) -> io::Result<()> {
    let line = format!("-n {} qdisc replace dev {interface} root netem {arguments}", namespace.name());
    let output = Command::new("tc")
        .args(line.split(' '))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run tc (iproute2): {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("tc {line}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn constant() -> Shape {
        Shape::constant(Duration::from_millis(20))
    }

    #[test]
    fn each_direction_has_half_the_round_trip() {
        assert_eq!(arguments(&constant()).unwrap(), "delay 10000us limit 150000");
        assert!(is_exact(&constant()));
    }

    #[test]
    fn losses_and_rates_become_netem_arguments() {
        let rate = Some(Rate { bits: 8_000_000, queue_bytes: 15_000 });
        let lossy = Shape { loss: Loss { share: 0.01, burst: 1.0 }, rate, ..constant() };
        assert_eq!(arguments(&lossy).unwrap(), "delay 10000us loss 1.000000% rate 8000000bit limit 17");
        assert!(!is_exact(&lossy));
        let bursts = Shape { loss: Loss { share: 0.2, burst: 4.0 }, ..constant() };
        assert_eq!(arguments(&bursts).unwrap(), "delay 10000us loss gemodel 6.250000% 25.000000% limit 150000");
    }

    #[test]
    fn netem_is_not_used_where_it_behaves_differently() {
        assert!(arguments(&Shape { jitter: Duration::from_millis(1), ..constant() }).is_err());
        assert!(arguments(&Shape { rtt: Rtt::List(vec![Duration::ZERO]), ..constant() }).is_err());
    }
}
