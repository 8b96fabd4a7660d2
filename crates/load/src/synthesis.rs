//! Synthetic traces: queries at equal intervals, or as a population sends them. The same seed gives the same trace.

use crate::engine::Endpoint;
use crate::limits::QUERY_BYTES_MAX;
use crate::population::{ClientScheduler, Clients};
use crate::workload::Workload;
use ::trace::{Message, Transport};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Maximum duration of a trace. Times are nanoseconds in 64 bits, and the scheduler has the same limit.
const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Ports of clients.
const PORT_MIN: u16 = 1_024;

/// Which client sends at which time.
pub enum SendPattern {
    /// Queries over UDP at equal intervals. Each has a random client, with equal probability.
    Even {
        /// The interval.
        interval: Duration,
        /// Number of clients.
        clients: u64,
        /// The queried server.
        server: SocketAddr,
    },
    /// As the clients of a population send.
    Population(Box<Clients>),
}

/// The end of a trace: the earlier of two limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceEnd {
    /// Number of queries.
    pub count: Option<u64>,
    /// Time since the start of the trace.
    pub duration: Option<Duration>,
}

/// Generates queries in order, starting at time zero.
pub struct Synthesis {
    pattern: PatternState,
    workload: Workload,
    addresses: Addresses,
    count: u64,
    until_ns: u64,
    generated: u64,
    rng: ChaCha8Rng,
    bytes: Vec<u8>,
}

enum PatternState {
    Even { interval_ns: u64, clients: u64, server: SocketAddr },
    Population { scheduler: Box<ClientScheduler>, endpoints: Vec<Endpoint>, thinks: Vec<bool> },
}

/// The time and the client of the next query.
struct NextQuery {
    at_ns: u64,
    client: u64,
    transport: Transport,
    server: SocketAddr,
}

impl Synthesis {
    /// Queries of a workload. Clients have consecutive addresses of a prefix.
    ///
    /// # Errors
    /// A description of the problem: the prefix is too small, or there is no client or no end.
    pub fn new(
        pattern: SendPattern,
        workload: Workload,
        prefix: (IpAddr, u8),
        end: TraceEnd,
        seed: u64,
    ) -> Result<Self, String> {
        if end == TraceEnd::default() {
            return Err("a trace needs an end: give a count or a duration".into());
        }
        let duration = end.duration.unwrap_or(DURATION_MAX);
        let is_long = match (&pattern, end.count) {
            _ if duration > DURATION_MAX => true,
            (SendPattern::Even { interval, .. }, Some(count)) if end.duration.is_none() => {
                interval.as_nanos().saturating_mul(u128::from(count.saturating_sub(1))) >= DURATION_MAX.as_nanos()
            }
            _ => false,
        };
        if is_long {
            return Err("a trace cannot be longer than 100 years; use a shorter duration or fewer queries".into());
        }
        let (clients, pattern) = match pattern {
            SendPattern::Even { interval, clients, server } => {
                let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
                if interval_ns == 0 && end.count.is_none() {
                    return Err("an interval of zero needs a count".into());
                }
                (clients, PatternState::Even { interval_ns, clients, server })
            }
            SendPattern::Population(clients) => {
                let scheduler = Box::new(clients.scheduler(0, 1, duration));
                let endpoints = scheduler.endpoints();
                (endpoints.len() as u64, PatternState::Population { scheduler, endpoints, thinks: clients.thinks() })
            }
        };
        let addresses = Addresses::new(prefix, clients)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(5_000);
        let until_ns = duration.as_nanos() as u64;
        let bytes = vec![0; QUERY_BYTES_MAX];
        Ok(Self {
            pattern,
            workload,
            addresses,
            count: end.count.unwrap_or(u64::MAX),
            until_ns,
            generated: 0,
            rng,
            bytes,
        })
    }

    /// The next query; `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "a message is lent until the next call")]
    pub fn next(&mut self) -> Option<Message<'_>> {
        let NextQuery { at_ns, client, transport, server } =
            self.next_query().filter(|next_query| next_query.at_ns < self.until_ns)?;
        self.generated += 1;
        let port = match transport {
            // A resolver draws a new one for each query (RFC 5452 9.2).
            Transport::Udp => self.rng.random_range(PORT_MIN..=u16::MAX),
            // A connection keeps its port.
            _ => PORT_MIN + (client.wrapping_mul(40_503) % u64::from(u16::MAX - PORT_MIN)) as u16,
        };
        let length = self.workload.fill(&mut self.bytes);
        self.bytes[..2].copy_from_slice(&self.rng.random::<u16>().to_be_bytes());
        let source = SocketAddr::new(self.addresses.of(client), port);
        Some(Message { at_ns, source, destination: server, transport, bytes: &self.bytes[..length] })
    }

    fn next_query(&mut self) -> Option<NextQuery> {
        if self.generated >= self.count {
            return None;
        }
        match &mut self.pattern {
            PatternState::Even { interval_ns, clients, server } => Some(NextQuery {
                at_ns: self.generated.checked_mul(*interval_ns)?,
                client: self.rng.random_range(0..*clients),
                transport: Transport::Udp,
                server: *server,
            }),
            PatternState::Population { scheduler, endpoints, thinks } => {
                let (at_ns, client) = scheduler.peek()?;
                scheduler.advance();
                let endpoint = endpoints[client as usize];
                if thinks[usize::from(endpoint.policy)] {
                    // There is no server, so a client that waits for an answer gets it immediately.
                    scheduler.query_done(client, at_ns, true, 0);
                }
                let transport = Transport::ALL[endpoint.transport as usize];
                Some(NextQuery { at_ns, client: client.into(), transport, server: endpoint.server })
            }
        }
    }
}

/// Addresses of clients: the addresses of a prefix in order, without the first.
struct Addresses {
    first: u128,
    is_ipv4: bool,
}

impl Addresses {
    fn new((address, length): (IpAddr, u8), clients: u64) -> Result<Self, String> {
        let (bits, width, is_ipv4) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32, true),
            IpAddr::V6(address) => (u128::from(address), 128, false),
        };
        let free = width - u32::from(length);
        let rest = 1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        if clients == 0 {
            return Err("a trace needs at least one client".into());
        }
        if u128::from(clients) > rest {
            return Err(format!("{address}/{length} has room for {rest} clients; use a larger prefix for {clients}"));
        }
        Ok(Self { first: bits & !rest, is_ipv4 })
    }

    fn of(&self, client: u64) -> IpAddr {
        let address = self.first + 1 + u128::from(client);
        if self.is_ipv4 { IpAddr::from((address as u32).to_be_bytes()) } else { Ipv6Addr::from(address).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::Population;
    use crate::workload::{Extras, Generator, NameDistribution, Popularity};
    use std::collections::{BTreeMap, BTreeSet};
    use wire::number::Rtype;
    use wire::parse::FirstQuestion;

    fn workload(seed: u64) -> Workload {
        let pattern = "q{n}.example.com".into();
        let names =
            NameDistribution { pattern, count: 1 << 40, popularity: Popularity::Sequential, nxdomain_share: 0.0 };
        Workload::generated(Generator::new(names, &[(Rtype::A, 1.0)], Extras::default(), seed).unwrap())
    }

    fn even(interval: Duration, clients: u64, end: TraceEnd, seed: u64) -> Synthesis {
        let pattern = SendPattern::Even { interval, clients, server: "192.0.2.53:53".parse().unwrap() };
        Synthesis::new(pattern, workload(seed), ("10.0.0.0".parse().unwrap(), 8), end, seed).unwrap()
    }

    type Owned = (u64, SocketAddr, SocketAddr, Transport, Vec<u8>);

    fn all(mut synthesis: Synthesis) -> Vec<Owned> {
        let mut messages = Vec::new();
        while let Some(message) = synthesis.next() {
            let Message { at_ns, source, destination, transport, bytes } = message;
            messages.push((at_ns, source, destination, transport, bytes.to_vec()));
        }
        messages
    }

    #[test]
    fn queries_are_evenly_spaced_and_names_distinct() {
        let end = TraceEnd { count: Some(5_000), duration: None };
        let messages = all(even(Duration::from_micros(20), 10_000, end, 1));
        assert_eq!(messages.len(), 5_000);
        let mut names = BTreeSet::new();
        for (number, (at_ns, source, _, _, bytes)) in messages.iter().enumerate() {
            assert_eq!(*at_ns, 20_000 * number as u64);
            let question = FirstQuestion::read(bytes).unwrap();
            assert_eq!(question.qname.to_string(), format!("q{number}.example.com."));
            names.insert(question.qname.to_string());
            let IpAddr::V4(address) = source.ip() else { panic!("{source}") };
            assert!((0x0A00_0001..=0x0A00_2710).contains(&u32::from(address)), "{source}");
        }
        assert_eq!(names.len(), 5_000);
    }

    /// Table 1 of the paper counts 3 thousand clients in 3,600 queries and 9.7 thousand in 36,000. Random choices among
    /// 10,000 clients give the same numbers.
    #[test]
    fn client_counts_match_the_paper() {
        for (interval, queries, clients) in [(1_000, 3_600, 2_900..3_100), (100, 36_000, 9_600..9_800)] {
            let end = TraceEnd { count: None, duration: Some(Duration::from_secs(3_600)) };
            let messages = all(even(Duration::from_millis(interval), 10_000, end, 7));
            let sources: BTreeSet<_> = messages.iter().map(|message| message.1.ip()).collect();
            assert_eq!(messages.len(), queries);
            assert!(clients.contains(&sources.len()), "{}", sources.len());
        }
    }

    #[test]
    fn results_depend_on_the_seed() {
        let end = TraceEnd { count: Some(100), duration: None };
        let with = |seed| all(even(Duration::from_millis(1), 50, end, seed));
        assert_eq!(with(3), with(3));
        assert_ne!(with(3), with(4));
    }

    #[test]
    fn a_population_asks_in_order_with_its_rates_and_transports() {
        let text = r#"
[queries]
pattern = "q{n}.example.com"
names = 100

[[clients]]
count = 90
transports = { udp = 1.0 }
rate = { distribution = "constant", mean = 2.0 }

[[clients]]
count = 10
transports = { dot = 1.0 }
think = { distribution = "constant", mean = 0.5 }
"#;
        let population = Population::parse(text).unwrap();
        let workload = Workload::generated(population.generator(Extras::default(), 1).unwrap().unwrap());
        let clients = Clients::new(population, &["192.0.2.53".parse().unwrap()], 1).unwrap();
        let end = TraceEnd { count: None, duration: Some(Duration::from_secs(100)) };
        let prefix = ("2001:db8::".parse().unwrap(), 64);
        let messages =
            all(Synthesis::new(SendPattern::Population(Box::new(clients)), workload, prefix, end, 1).unwrap());
        assert!(messages.is_sorted_by_key(|message| message.0));
        let mut counts = BTreeMap::<_, Vec<_>>::new();
        for (_, source, destination, transport, _) in &messages {
            counts.entry((*transport, destination.port())).or_default().push(*source);
        }
        let shown: Vec<_> = counts.iter().map(|(what, sources)| (*what, sources.len())).collect();
        let [((Transport::Udp, 53), udp), ((Transport::Dot, 853), dot)] = shown[..] else { panic!("{shown:?}") };
        assert!((17_000..19_000).contains(&udp) && (1_900..2_100).contains(&dot), "{udp} {dot}");
        let connections: BTreeSet<_> = counts[&(Transport::Dot, 853)].iter().collect();
        assert_eq!(connections.len(), 10, "a client keeps its connection");
    }

    #[test]
    fn prefixes_that_are_too_small_are_refused() {
        let of = |prefix: &str, length, clients| Addresses::new((prefix.parse().unwrap(), length), clients);
        assert!(of("192.0.2.0", 24, 256).is_err() && of("192.0.2.1", 32, 1).is_err() && of("::", 0, 0).is_err());
        assert_eq!(of("192.0.2.77", 24, 255).unwrap().of(254).to_string(), "192.0.2.255");
        assert_eq!(of("::", 0, u64::MAX).unwrap().of(4).to_string(), "::5");
        assert_eq!(of("2001:db8::", 32, 9).unwrap().of(8).to_string(), "2001:db8::9");
    }
}
