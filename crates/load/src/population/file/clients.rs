//! The clients of a population, drawn from a seed.

use super::{ClientScheduler, Group, Population, Server};
use crate::engine::Endpoint;
use measure::Transport;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The clients of a population, with all their properties.
#[derive(Clone, Debug)]
pub struct Clients {
    population: Arc<Population>,
    members: Arc<[(u16, Endpoint, f64)]>,
    seed: u64,
}

impl Clients {
    /// Draws the clients.
    ///
    /// # Errors
    /// As [`Population::members`].
    pub fn new(population: Population, servers: &[Server], seed: u64) -> Result<Self, String> {
        let members = population.members(servers, seed)?.into();
        Ok(Self { population: Arc::new(population), members, seed })
    }

    /// The idle timeout of all clients. `None` if it differs.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        let mut all = self.population.clients.iter().map(|group| group.connection_policy().idle_timeout);
        let first = all.next().flatten();
        first.filter(|_| all.all(|other| other == first))
    }

    /// The clients of worker `index` of `count`.
    #[must_use]
    pub fn scheduler(&self, index: usize, count: usize, duration: Duration) -> ClientScheduler {
        self.population.scheduler_of(&self.members, (index, count), duration, self.seed)
    }

    /// The same clients with one server, given its address for each transport.
    #[must_use]
    pub fn toward(&self, address: impl Fn(Transport) -> SocketAddr) -> Self {
        let aim = |&(group, endpoint, rate): &(u16, Endpoint, f64)| {
            (group, Endpoint { server: address(endpoint.transport), ..endpoint }, rate)
        };
        Self { members: self.members.iter().map(aim).collect(), ..self.clone() }
    }

    /// For each group, whether its clients wait for an answer before they schedule the next query.
    #[must_use]
    pub fn thinks(&self) -> Vec<bool> {
        self.population.clients.iter().map(|group| group.think.is_some()).collect()
    }

    /// Every client's group, endpoint and rate.
    #[must_use]
    pub fn members(&self) -> &[(u16, Endpoint, f64)] {
        &self.members
    }
}

impl Population {
    /// The group, endpoint and rate of every client, drawn from a seed.
    ///
    /// # Errors
    /// If a server is not an address.
    pub fn members(&self, servers: &[Server], seed: u64) -> Result<Vec<(u16, Endpoint, f64)>, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(4_000);
        let mut members = Vec::new();
        for (index, group) in self.clients.iter().enumerate() {
            let own: Vec<(Server, f64)> = if group.servers.is_empty() {
                servers.iter().map(|&server| (server, 1.0)).collect()
            } else {
                let parsed = group.servers.iter().map(|(text, &share)| text.parse().map(|server| (server, share)));
                parsed.collect::<Result<_, String>>()?
            };
            if own.is_empty() {
                return Err("there is no server; name one with --server".into());
            }
            let transports: Vec<_> = group.transports.iter().map(|(&transport, &share)| (transport, share)).collect();
            let rates = match &group.rate {
                Some(rate) => rate.over.draw_all(group.count, &mut rng),
                None => vec![1.0; group.count],
            };
            let transports = shared_out(&transports, group.count, &mut rng);
            let servers = shared_out(&own, group.count, &mut rng);
            for ((rate, transport), server) in rates.into_iter().zip(transports).zip(servers) {
                let server = server.at_or(self.ports.of(transport));
                let endpoint = Endpoint { transport, server, policy: index as u16, source: None };
                // A rate of zero becomes so low that the client sends nothing within the run.
                members.push((index as u16, endpoint, rate.max(1e-9)));
            }
        }
        Ok(members)
    }

    /// The clients of worker `index` of `count`.
    fn scheduler_of(
        &self,
        members: &[(u16, Endpoint, f64)],
        (index, count): (usize, usize),
        duration: Duration,
        seed: u64,
    ) -> ClientScheduler {
        let own = members.iter().skip(index).step_by(count).copied().collect();
        let policies = self.clients.iter().map(Group::connection_policy).collect();
        ClientScheduler::new(
            self.clients.clone().into(),
            own,
            policies,
            (index, count),
            duration.as_nanos() as u64,
            seed,
        )
    }
}

/// Assigns a choice to each of `count` clients, in proportion to the weights and in random order.
fn shared_out<T: Copy>(choices: &[(T, f64)], count: usize, rng: &mut impl Rng) -> Vec<T> {
    let sum: f64 = choices.iter().map(|(_, share)| share).sum();
    let mut shared = Vec::with_capacity(count);
    let mut up_to = 0.0;
    for &(choice, share) in choices {
        up_to += share;
        let end = (up_to / sum * count as f64).round() as usize;
        shared.resize(end.clamp(shared.len(), count), choice);
    }
    shared.shuffle(rng);
    shared
}
