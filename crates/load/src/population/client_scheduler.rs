//! The clients of one worker: which one sends next, and when.

use super::draw::exponential;
use super::file::{Arrivals, Group};
use super::tally::ClientResults;
use crate::engine::{ConnectionPolicy, Endpoint};
use measure::ClientTally;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// Schedules the queries of the clients of one worker.
#[derive(Clone, Debug)]
pub struct ClientScheduler {
    groups: Arc<[Group]>,
    endpoints: Vec<Endpoint>,
    policies: Vec<ConnectionPolicy>,
    clients: Vec<Client>,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    end_ns: u64,
    /// Number of clients that wait for an answer before they schedule the next query.
    thinking_count: usize,
    worker_index: usize,
    worker_count: usize,
    rng: ChaCha8Rng,
}

#[derive(Clone, Debug)]
struct Client {
    group: u16,
    /// Queries a second.
    rate: f64,
    /// Active nanoseconds so far, without pauses between bursts.
    active_ns: f64,
    /// Start of its first burst.
    phase_ns: f64,
    sent: u64,
    results: ClientResults,
}

impl ClientScheduler {
    pub(super) fn new(
        groups: Arc<[Group]>,
        members: Vec<(u16, Endpoint, f64)>,
        policies: Vec<ConnectionPolicy>,
        (worker_index, worker_count): (usize, usize),
        end_ns: u64,
        seed: u64,
    ) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(3_000 + worker_index as u64);
        let endpoints = members.iter().map(|&(_, endpoint, _)| endpoint).collect();
        let clients = members
            .into_iter()
            .map(|(group, _, rate)| Client {
                group,
                rate,
                active_ns: 0.0,
                phase_ns: 0.0,
                sent: 0,
                results: ClientResults::default(),
            })
            .collect();
        let mut scheduler = Self {
            groups,
            endpoints,
            policies,
            clients,
            due: BinaryHeap::new(),
            end_ns,
            thinking_count: 0,
            worker_index,
            worker_count,
            rng,
        };
        for client in 0..scheduler.clients.len() as u32 {
            scheduler.begin(client);
        }
        scheduler
    }

    /// The endpoints of all clients.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.endpoints.clone()
    }

    /// The connection policies, by the index in endpoints.
    #[must_use]
    pub fn policies(&self) -> Vec<ConnectionPolicy> {
        self.policies.clone()
    }

    /// Whether more queries will be sent.
    #[must_use]
    pub fn has_more(&self, now: u64) -> bool {
        !self.due.is_empty() || (self.thinking_count > 0 && now < self.end_ns)
    }

    /// Time and client of the next query.
    #[must_use]
    pub fn peek(&self) -> Option<(u64, u32)> {
        self.due.peek().map(|&Reverse(next)| next)
    }

    /// The query was sent. Its client schedules the next one.
    pub fn advance(&mut self) {
        let Some(Reverse((planned_ns, client))) = self.due.pop() else { return };
        let state = &mut self.clients[client as usize];
        state.sent += 1;
        if self.groups[usize::from(state.group)].think.is_some() {
            self.thinking_count += 1;
            return;
        }
        let step = self.step(client);
        self.clients[client as usize].active_ns += step;
        self.plan(client, planned_ns);
    }

    /// A query of a client was answered, or will not be. Then `latency_ns` is the timeout.
    pub fn query_done(&mut self, client: u32, at_ns: u64, is_answered: bool, latency_ns: u64) {
        let state = &mut self.clients[client as usize];
        state.results.query_done(is_answered, at_ns, latency_ns, &mut self.rng);
        if let Some(think) = &self.groups[usize::from(state.group)].think
            && self.thinking_count > 0
        {
            self.thinking_count -= 1;
            let pause_ns = think.draw(&mut self.rng).max(0.0) * SECOND_NS;
            self.push(client, at_ns.saturating_add(pause_ns as u64));
        }
    }

    /// The results of each client. Queries were sent until `until_ns` at the latest.
    #[must_use]
    pub fn tallies(&mut self, until_ns: u64) -> Vec<ClientTally> {
        let (index, count) = (self.worker_index, self.worker_count);
        let mut expected: Vec<_> = (0..self.clients.len() as u32).map(|at| self.expected(at, until_ns)).collect();
        let tally = |(number, (client, endpoint)): (usize, (&mut Client, &Endpoint))| {
            let (p50_us, p99_us) = client.results.quantiles_us();
            ClientTally {
                client: (number * count + index) as u64,
                transport: endpoint.transport,
                sent: client.sent,
                answered: client.results.answered,
                p50_us,
                p99_us,
                longest_gap_s: client.results.longest_gap_s(),
                expected: expected[number].take(),
            }
        };
        self.clients.iter_mut().zip(&self.endpoints).enumerate().map(tally).collect()
    }

    /// Expected number of queries of a client until then, given its rate and activity. `None` without a rate.
    fn expected(&self, client: u32, until_ns: u64) -> Option<f64> {
        let state = &self.clients[client as usize];
        let group = &self.groups[usize::from(state.group)];
        if group.think.is_some() {
            return None;
        }
        let (start_ns, end_ns) = self.present(client, until_ns);
        let span_ns = (end_ns - start_ns).max(0.0);
        let active_ns = match group.bursts {
            None => span_ns,
            Some(bursts) => {
                let (on_ns, cycle_ns) = (bursts.on_s * SECOND_NS, (bursts.on_s + bursts.off_s) * SECOND_NS);
                // Active time since the start of its cycle.
                let active = |at_ns: f64| (at_ns / cycle_ns).floor() * on_ns + (at_ns % cycle_ns).min(on_ns);
                active(state.phase_ns + span_ns) - active(state.phase_ns)
            }
        };
        Some(state.rate * active_ns / SECOND_NS)
    }

    /// When a client joins, and when the client or the run stops sending.
    fn present(&self, client: u32, until_ns: u64) -> (f64, f64) {
        let group = &self.groups[usize::from(self.clients[client as usize].group)];
        let stop_ns = group.active.and_then(|active| active.stop_s).map_or(f64::MAX, |stop| stop * SECOND_NS);
        (self.start_ns(client), (self.end_ns.min(until_ns) as f64).min(stop_ns))
    }

    /// When a client joins. The clients of a group join one by one.
    fn start_ns(&self, client: u32) -> f64 {
        let share = f64::from(client) / self.clients.len() as f64;
        let group = &self.groups[usize::from(self.clients[client as usize].group)];
        group.active.map_or(0.0, |active| active.start_s + active.ramp_s * share) * SECOND_NS
    }

    /// Schedules the first query at a random time within the client's usual interval.
    fn begin(&mut self, client: u32) {
        let group = &self.groups[usize::from(self.clients[client as usize].group)];
        let rate = self.clients[client as usize].rate;
        let usual_ns = match &group.think {
            Some(think) => think.draw(&mut self.rng) * SECOND_NS,
            None => SECOND_NS / rate,
        };
        let first = match group.arrivals() {
            Arrivals::Even => self.rng.random::<f64>(),
            Arrivals::Poisson => exponential(&mut self.rng),
        };
        let cycle_ns = group.bursts.map_or(0.0, |bursts| (bursts.on_s + bursts.off_s) * SECOND_NS);
        let phase_ns = self.rng.random::<f64>() * cycle_ns;
        let state = &mut self.clients[client as usize];
        state.phase_ns = phase_ns;
        state.active_ns = first * usual_ns;
        self.plan(client, 0);
    }

    fn step(&mut self, client: u32) -> f64 {
        let client = &self.clients[client as usize];
        let factor = match self.groups[usize::from(client.group)].arrivals() {
            Arrivals::Even => 1.0,
            Arrivals::Poisson => exponential(&mut self.rng),
        };
        factor * SECOND_NS / client.rate
    }

    /// Converts a client's active time to the time of the run.
    fn plan(&mut self, client: u32, not_before_ns: u64) {
        let state = &self.clients[client as usize];
        let group = &self.groups[usize::from(state.group)];
        let own_ns = match group.bursts {
            None => state.active_ns,
            Some(bursts) => {
                let (on_ns, cycle_ns) = (bursts.on_s * SECOND_NS, (bursts.on_s + bursts.off_s) * SECOND_NS);
                // At the start of the run, a client is at a random point of its cycle: within its burst, or before it.
                let (done_ns, wait_ns) = if state.phase_ns < on_ns {
                    (state.phase_ns, -state.phase_ns)
                } else {
                    (0.0, cycle_ns - state.phase_ns)
                };
                let at_ns = state.active_ns + done_ns;
                wait_ns + (at_ns / on_ns).floor() * cycle_ns + at_ns % on_ns
            }
        };
        let start_ns = self.start_ns(client);
        self.push(client, ((start_ns + own_ns.max(0.0)) as u64).max(not_before_ns));
    }

    fn push(&mut self, client: u32, at_ns: u64) {
        let group = &self.groups[usize::from(self.clients[client as usize].group)];
        let stop_ns = group.active.and_then(|active| active.stop_s).map_or(u64::MAX, |stop| (stop * SECOND_NS) as u64);
        if at_ns < self.end_ns.min(stop_ns) {
            self.due.push(Reverse((at_ns, client)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::population::{Clients, Population};
    use std::time::Duration;

    /// Expected and scheduled queries of each client of a group, until `until_s` of 100 seconds.
    fn expected(group: &str, until_s: f64) -> Vec<(f64, u64)> {
        let text = format!("[[clients]]\ncount = 40\ntransports = {{ udp = 1.0 }}\n{group}");
        let clients = Clients::new(Population::parse(&text).unwrap(), &["192.0.2.1".parse().unwrap()], 1).unwrap();
        let mut scheduler = clients.scheduler(0, 1, Duration::from_secs(100));
        let until_ns = (until_s * 1e9) as u64;
        while scheduler.peek().is_some_and(|(at_ns, _)| at_ns < until_ns) {
            scheduler.advance();
        }
        scheduler.tallies(until_ns).iter().map(|tally| (tally.expected.unwrap(), tally.sent)).collect()
    }

    #[test]
    fn the_longest_time_without_an_answer_is_known() {
        const SECOND_NS: u64 = 1_000_000_000;
        // For each query: when it ended, its latency, and whether it was answered.
        let gap = |queries: &[(u64, u64, bool)]| {
            let text = "[[clients]]\ncount = 1\ntransports = { udp = 1.0 }\nactive = { start_s = 5.0, stop_s = 40.0 }\n\
                        rate = { distribution = \"constant\", mean = 1.0 }\n";
            let clients = Clients::new(Population::parse(text).unwrap(), &["192.0.2.1".parse().unwrap()], 1).unwrap();
            let mut scheduler = clients.scheduler(0, 1, Duration::from_secs(100));
            for &(at_s, took_s, is_answered) in queries {
                scheduler.query_done(0, at_s * SECOND_NS, is_answered, took_s * SECOND_NS);
            }
            scheduler.tallies(u64::MAX)[0].longest_gap_s
        };
        for (queries, expected) in [
            // A client without queries in flight does not wait.
            (&[][..], 0.0),
            (&[(6, 0, true), (39, 1, true)], 1.0),
            // The gap lasts from the first unanswered query to the next answer.
            (&[(8, 1, true), (12, 2, false), (14, 2, false), (15, 1, true), (20, 1, true)], 5.0),
            // A query that was due before the answer to another query.
            (&[(10, 1, true), (11, 3, false)], 1.0),
            // Without an answer the gap lasts to the last timeout.
            (&[(10, 1, true), (22, 2, false), (30, 2, false)], 10.0),
        ] {
            assert_eq!(gap(queries), expected, "{queries:?}");
        }
    }

    #[test]
    fn expected_counts_match_scheduled_queries() {
        for (what, until_s) in [
            ("", 100.0),
            ("", 33.3),
            ("bursts = { on_s = 2.0, off_s = 7.0 }", 100.0),
            ("bursts = { on_s = 2.0, off_s = 7.0 }\nactive = { start_s = 10.0, ramp_s = 20.0, stop_s = 70.0 }", 64.0),
        ] {
            let group = format!("rate = {{ distribution = \"constant\", mean = 50.0, arrivals = \"even\" }}\n{what}");
            for (expected, sent) in expected(&group, until_s) {
                assert!((expected - sent as f64).abs() <= 1.001, "{what} until {until_s}: {expected} {sent}");
            }
        }
    }
}
