//! The state of the clients, and their open requests.

use crate::event::Request;
use crate::plan::OWNERS;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::updates::REGISTERS;
use replica::io::NodeId;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Largest error of a client's clock, in seconds.
const CLOCK_ERROR_S: u64 = 60;

#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// The register that only this client writes, and its last update.
    pub(crate) register: Option<(usize, u64)>,
    /// The name in the model's zone that only this client writes.
    pub(crate) owner: Option<usize>,
    /// The update in progress, and the number of the attempt.
    pub(crate) current: Option<(u64, u32)>,
    pub(crate) clock_error_s: i64,
    /// The only member that a probe queries.
    pub(crate) only: Option<NodeId>,
    /// Whether a probe has been answered.
    pub(crate) is_done: bool,
}

/// All clients, and their open requests.
pub(crate) struct Clients {
    pub(crate) clients: Vec<Client>,
    pub(crate) registers_taken: usize,
    pub(crate) owners_taken: usize,
    /// Unanswered requests, and whether the outcome of the update was known when it was sent.
    pub(crate) requests: BTreeMap<u64, (Request, bool)>,
    /// Whether clients send new updates.
    pub(crate) is_on: bool,
    pub(crate) rng: Rng,
}

impl Clients {
    pub(crate) fn new(setup: &Setup, mut rng: Rng) -> Self {
        // A table that forgets early refuses clients whose clocks are behind.
        let error_s = if setup.forgets() { 0 } else { CLOCK_ERROR_S };
        let mut client =
            || Client { clock_error_s: rng.between(0, 2 * error_s) as i64 - error_s as i64, ..Client::default() };
        let clients = (0..setup.clients).map(|_| client()).collect();
        Self { clients, registers_taken: 0, owners_taken: 0, requests: BTreeMap::new(), is_on: false, rng }
    }

    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Adds a client that sends to only one member until it gets a response. Returns its index.
    pub(crate) fn add_probe(&mut self, only: NodeId) -> usize {
        self.clients.push(Client { only: Some(only), ..Client::default() });
        self.clients.len() - 1
    }

    /// Members that have not answered their probes.
    pub(crate) fn unanswered_probes(&self) -> Vec<NodeId> {
        self.clients.iter().filter(|client| !client.is_done).filter_map(|client| client.only).collect()
    }

    /// Requests that members have not answered.
    pub(crate) fn open_count(&self) -> usize {
        self.requests.len()
    }

    /// Drops the open requests of a member that died.
    pub(crate) fn forget_member(&mut self, id: NodeId) {
        self.requests.retain(|_, (request, _)| request.to != id);
    }

    pub(crate) fn register(&mut self, client: usize) -> Option<(usize, u64)> {
        if self.clients[client].register.is_none() && self.registers_taken < REGISTERS {
            self.clients[client].register = Some((self.registers_taken, 0));
            self.registers_taken += 1;
        }
        self.clients[client].register
    }

    pub(crate) fn owner(&mut self, client: usize) -> Option<usize> {
        if self.clients[client].owner.is_none() && self.owners_taken < OWNERS {
            self.clients[client].owner = Some(self.owners_taken);
            self.owners_taken += 1;
        }
        self.clients[client].owner
    }

    pub(crate) fn source(client: usize) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, client as u8 + 1], 4_000))
    }
}
