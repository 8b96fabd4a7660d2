//! What a link does to packets.

use crate::random::Random;
use std::net::IpAddr;
use std::time::Duration;

/// Round trips of the clients of a group. Each client, that is each address, has one, and keeps it.
#[derive(Clone, PartialEq, Debug)]
pub enum Rtt {
    /// All have the same.
    Constant(Duration),
    /// Each has one of these.
    List(Vec<Duration>),
    /// Normal, cut at 0.
    Normal {
        /// Its mean.
        mean: Duration,
        /// Its standard deviation.
        deviation: Duration,
    },
    /// The logarithm is normal.
    Lognormal {
        /// Half of the clients have less.
        median: Duration,
        /// The standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Few that are far away: Pareto's distribution.
    Pareto {
        /// No client has less.
        least: Duration,
        /// The smaller, the heavier the tail.
        shape: f64,
    },
}

impl Rtt {
    /// The round trip of a client, no longer than [`crate::limits::RTT_MAX`].
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

    /// Whether all clients have the same.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

/// Packets that a direction loses, out of all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loss {
    /// The share of packets.
    pub share: f64,
    /// How many are lost in a row on average (Gilbert's two states: in one nothing is lost, in the other all); 1 loses
    /// each packet for itself.
    pub burst: f64,
}

impl Loss {
    /// Nothing is lost.
    pub const NONE: Self = Self { share: 0.0, burst: 1.0 };
}

/// A limited rate, in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Bits of IP packets a second.
    pub bits: u64,
    /// What may wait for it; more is dropped.
    pub queue_bytes: u64,
}

/// What a link does to packets, in each of its two directions.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    /// Round trips; a direction takes half.
    pub rtt: Rtt,
    /// The most that is added to a round trip: each direction adds evenly between nothing and half of it.
    pub jitter: Duration,
    /// What each direction loses.
    pub loss: Loss,
    /// The rate of each direction, where it is limited.
    pub rate: Option<Rate>,
    /// Whether jitter may let packets of a client overtake each other.
    pub reorder: bool,
}

impl Shape {
    /// A round trip and nothing else.
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

    /// The round trips of many clients in milliseconds, in order.
    fn drawn(rtt: &Rtt) -> Vec<f64> {
        let mut all: Vec<f64> = (0..20_000_u32)
            .map(|number| rtt.of(Ipv4Addr::from(0x0A64_0000 + number).into(), 1).as_secs_f64() * 1e3)
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn a_client_keeps_its_round_trip_and_a_seed_decides_it() {
        let rtt = Rtt::Normal { mean: millis(80), deviation: millis(10) };
        let client = "fd53:ca7:1::9".parse().unwrap();
        assert_eq!(rtt.of(client, 1), rtt.of(client, 1));
        assert_ne!(rtt.of(client, 1), rtt.of(client, 2));
    }

    #[test]
    fn distributions_have_the_quantiles_they_are_named_by() {
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.03, "{found} {expected}");
        let normal = drawn(&Rtt::Normal { mean: millis(80), deviation: millis(10) });
        near(normal[10_000], 80.0);
        // 84.13 % lie below one deviation above the mean.
        near(normal[16_827], 90.0);
        let lognormal = drawn(&Rtt::Lognormal { median: millis(50), sigma: 0.5 });
        near(lognormal[10_000], 50.0);
        near(lognormal[16_827], 50.0 * 0.5_f64.exp());
        let pareto = drawn(&Rtt::Pareto { least: millis(10), shape: 2.0 });
        assert!(pareto[0] >= 10.0);
        // Of Pareto's with shape 2, half lie below the least times the square root of 2.
        near(pareto[10_000], 10.0 * 2.0_f64.sqrt());
        let list = drawn(&Rtt::List(vec![millis(5), millis(7)]));
        assert!(list.iter().all(|rtt| [5.0, 7.0].contains(rtt)));
        let first = list.iter().filter(|rtt| **rtt == 5.0).count();
        assert!((9_000..11_000).contains(&first), "{first}");
    }
}
