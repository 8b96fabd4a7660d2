//! Delay, jitter, loss and rate of a link.

use crate::random::Random;
use std::net::IpAddr;
use std::time::Duration;

/// Distribution of round trips. Each client address draws one round trip and keeps it.
#[derive(Clone, PartialEq, Debug)]
pub enum Rtt {
    /// The same for all clients.
    Constant(Duration),
    /// One of these for each client.
    List(Vec<Duration>),
    /// Normal distribution, cut at 0.
    Normal {
        /// Its mean.
        mean: Duration,
        /// Its standard deviation.
        deviation: Duration,
    },
    /// Lognormal distribution.
    Lognormal {
        /// The median.
        median: Duration,
        /// The standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Pareto distribution: a few clients are far away.
    Pareto {
        /// The smallest round trip.
        least: Duration,
        /// The shape. Smaller values give a heavier tail.
        shape: f64,
    },
}

impl Rtt {
    /// The round trip of a client, at most [`crate::limits::RTT_MAX`].
    #[must_use]
    pub fn of(&self, client: IpAddr, seed: u64) -> Duration {
        let number = match client {
            IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
            IpAddr::V6(address) => u128::from(address),
        };
        let mut random = Random::new(seed, number);
        let seconds = match self {
            Self::Constant(rtt) => return *rtt,
            Self::List(list) => return list[random.below(list.len())],
            Self::Normal { mean, deviation } => mean.as_secs_f64() + deviation.as_secs_f64() * random.normal(),
            Self::Lognormal { median, sigma } => median.as_secs_f64() * (sigma * random.normal()).exp(),
            Self::Pareto { least, shape } => least.as_secs_f64() * (1.0 - random.share()).powf(-1.0 / shape),
        };
        Duration::from_secs_f64(seconds.clamp(0.0, crate::limits::RTT_MAX.as_secs_f64()))
    }

    /// Whether all clients have the same round trip.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

/// Loss of packets in one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loss {
    /// Share of packets to lose.
    pub share: f64,
    /// Average number of packets lost in a row, in Gilbert's model. 1: losses are independent.
    pub burst: f64,
}

impl Loss {
    /// No loss.
    pub const NONE: Self = Self { share: 0.0, burst: 1.0 };
}

/// A limited rate of each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Bits of IP packets per second.
    pub bits: u64,
    /// Bytes that may wait. Further packets are dropped.
    pub queue_bytes: u64,
}

/// What each direction of a link does to packets.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    /// Round trip. Each direction delays by half of it.
    pub rtt: Rtt,
    /// Largest addition to a round trip. Each direction adds between 0 and half of it, uniformly.
    pub jitter: Duration,
    /// Loss of each direction.
    pub loss: Loss,
    /// Rate of each direction, if limited.
    pub rate: Option<Rate>,
    /// Whether jitter may change the order of a client's packets.
    pub reorder: bool,
}

impl Shape {
    /// A link with a round trip only.
    #[must_use]
    pub const fn constant(rtt: Duration) -> Self {
        Self { rtt: Rtt::Constant(rtt), jitter: Duration::ZERO, loss: Loss::NONE, rate: None, reorder: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// The sorted round trips of many clients, in milliseconds.
    fn drawn(rtt: &Rtt) -> Vec<f64> {
        let mut all: Vec<f64> = (0..20_000_u32)
            .map(|number| rtt.of(Ipv4Addr::from(0x0A64_0000 + number).into(), 1).as_secs_f64() * 1e3)
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn round_trips_depend_only_on_client_and_seed() {
        let rtt = Rtt::Normal { mean: millis(80), deviation: millis(10) };
        let client = "fd53:ca7:1::9".parse().unwrap();
        assert_eq!(rtt.of(client, 1), rtt.of(client, 1));
        assert_ne!(rtt.of(client, 1), rtt.of(client, 2));
    }

    #[test]
    fn distributions_have_their_configured_quantiles() {
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.03, "{found} {expected}");
        let normal = drawn(&Rtt::Normal { mean: millis(80), deviation: millis(10) });
        near(normal[10_000], 80.0);
        // 84.13 % are below one standard deviation above the mean.
        near(normal[16_827], 90.0);
        let lognormal = drawn(&Rtt::Lognormal { median: millis(50), sigma: 0.5 });
        near(lognormal[10_000], 50.0);
        near(lognormal[16_827], 50.0 * 0.5_f64.exp());
        let pareto = drawn(&Rtt::Pareto { least: millis(10), shape: 2.0 });
        assert!(pareto[0] >= 10.0);
        // With shape 2, half are below the smallest value times the square root of 2.
        near(pareto[10_000], 10.0 * 2.0_f64.sqrt());
        let list = drawn(&Rtt::List(vec![millis(5), millis(7)]));
        assert!(list.iter().all(|rtt| [5.0, 7.0].contains(rtt)));
        let first = list.iter().filter(|rtt| **rtt == 5.0).count();
        assert!((9_000..11_000).contains(&first), "{first}");
    }
}
