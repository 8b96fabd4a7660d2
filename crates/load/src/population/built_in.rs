//! Built-in populations.

use super::Population;

/// Their names and texts.
const TEXTS: [(&str, &str); 2] =
    [("b-root", include_str!("profiles/b-root.toml")), ("resolver", include_str!("profiles/resolver.toml"))];

impl Population {
    /// Names of the built-in populations.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        TEXTS.into_iter().map(|(name, _)| name)
    }

    /// A built-in population.
    ///
    /// # Panics
    /// Never: a test parses all of them.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = TEXTS.into_iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(text).expect("a population"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::Clients;
    use crate::workload::Extras;
    use measure::Transport;

    #[test]
    fn all_built_in_populations_parse() {
        for name in Population::built_in_names() {
            let population = Population::built_in(name).unwrap();
            assert!(population.generator(Extras::default(), 1).unwrap().is_some(), "{name}");
        }
        assert_eq!(Population::built_in("c-root"), None);
    }

    #[test]
    fn the_skew_of_b_root_matches_the_paper() {
        let population = Population::built_in("b-root").unwrap();
        let clients = Clients::new(population, &["192.0.2.1".parse().unwrap()], 1).unwrap();
        let mut rates: Vec<f64> = clients.members().iter().map(|&(_, _, rate)| rate).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let count = rates.len();
        assert_eq!(count, 1_070_000);
        let all: f64 = rates.iter().sum();
        let over_tcp = clients.members().iter().filter(|(_, endpoint, _)| endpoint.transport == Transport::Tcp);
        let tcp = over_tcp.map(|&(_, _, rate)| rate).sum::<f64>() / all;
        let top = rates[count - count / 100..].iter().sum::<f64>() / all;
        let low = rates[..count - count / 50].iter().sum::<f64>() / all;
        // Ten queries in 20 minutes.
        let idle = rates.iter().filter(|&&rate| rate * 1_200.0 < 10.0).count() as f64 / count as f64;
        for (what, found, expected, off) in [
            ("queries a second", all, 38_000.0, 1_500.0),
            ("share of TCP", tcp, 0.03, 0.008),
            ("share of the busiest hundredth", top, 0.75, 0.03),
            ("share of 98 in a hundred", low, 0.14, 0.02),
            ("clients that hardly ask", idle, 0.81, 0.04),
        ] {
            assert!((found - expected).abs() <= off, "{what}: {found}, not {expected}");
        }
    }

    #[test]
    fn a_resolver_has_clients_with_20_queries_per_second_and_two_peaks() {
        let population = Population::built_in("resolver").unwrap();
        let clients = Clients::new(population, &["192.0.2.1".parse().unwrap()], 1).unwrap();
        let rates: Vec<f64> = clients.members().iter().map(|&(_, _, rate)| rate).collect();
        let count = |low: f64, high: f64| rates.iter().filter(|rate| (low..high).contains(*rate)).count();
        // Around each peak, fewer clients have rates as near to it on either side.
        for interval_s in [5.0, 35.0] {
            let rate = 1.0 / interval_s;
            let [below, peak, above] =
                [0.98, 1.0, 1.02].map(|factor| count(rate * factor * 0.99, rate * factor * 1.01));
            assert!(peak > 5 * below.max(above).max(100), "one query in {interval_s} s: {below}, {peak}, {above}");
        }
        let handful = count(20.0, f64::INFINITY);
        assert!((1..20).contains(&handful), "{handful}");
    }
}
