//! Clients of the cluster: administrators and UPDATE messages, with their responses.

use super::{Cluster, SECRET, add, name, records, zone_id};
use core::net::SocketAddr;
use replica::io::{
    AdminCommand, AdminReply, Contents, Input, NodeId, Right, Serving, Transport, UpdateRequest, Verdict, ZoneOptions,
};
use std::collections::BTreeSet;
use tsig::{Authenticated, KeyAlgorithm, authenticate};
use wire::number::Rcode;
use wire::parse::{Parsed, parse_request};
use zone::{Record, ZoneId};

impl Cluster {
    pub(crate) fn admin(&mut self, id: NodeId, command: AdminCommand) -> u64 {
        let request_id = self.next_request;
        self.next_request += 1;
        self.input(id, Input::Admin { request_id, command });
        self.settle();
        request_id
    }

    /// Sends a command that must be done within a second.
    pub(crate) fn admin_ok(&mut self, id: NodeId, command: AdminCommand) -> AdminReply {
        let request = self.admin(id, command);
        self.run(1_000);
        self.admin[&request].clone().unwrap()
    }

    /// A cluster with a leader, the zone `example.test.`, and a key `key.` with permission to update and transfer
    /// everything.
    pub(crate) fn with_zone(count: u64) -> Self {
        let mut cluster = Self::new(count);
        cluster.prepare();
        cluster
    }

    pub(crate) fn prepare(&mut self) {
        let leader = self.elect();
        let other = self.alive().into_iter().rfind(|&id| id != leader).unwrap_or(leader);
        let zone = AdminCommand::AddZone {
            zone: zone_id("example.test."),
            options: ZoneOptions::default(),
            contents: Contents::new(&zone_id("example.test."), records("example.test.", 1)).unwrap(),
        };
        assert_eq!(self.admin_ok(other, zone), AdminReply::Done);
        let (name, secret) = (name("key."), SECRET.to_vec());
        let key = AdminCommand::AddKey { name, algorithm: KeyAlgorithm::HmacSha256, secret, nonce: [1; 12] };
        assert_eq!(self.admin_ok(leader, key), AdminReply::Done);
        let grant = AdminCommand::Grant { key: "key.".parse().unwrap(), zone: None, right: Right::Update };
        assert_eq!(self.admin_ok(other, grant), AdminReply::Done);
    }

    /// Passes on an UPDATE, like a shell whose zones and grants do not forbid it.
    pub(crate) fn update_bytes(&mut self, id: NodeId, message: Vec<u8>, source: &str) -> u64 {
        self.update_bytes_over(Transport::Udp, id, message, source)
    }

    pub(crate) fn update_bytes_over(
        &mut self,
        transport: Transport,
        id: NodeId,
        message: Vec<u8>,
        source: &str,
    ) -> u64 {
        self.update_through(transport, id, message, source, None)
    }

    /// The same through a shell that first checks the zones and grants of its node.
    pub(crate) fn update_looked_at(&mut self, id: NodeId, message: Vec<u8>, source: &str) -> u64 {
        let zone = zone_id("example.test.");
        let replica = self.replica(id);
        let is_open = replica.serving() != Serving::No && replica.zones().published().zone(&zone).is_some();
        let is_granted = replica.is_granted(&name("key."), &zone, Right::Update);
        self.update_through(Transport::Udp, id, message, source, (!is_open || !is_granted).then_some(zone))
    }

    pub(super) fn update_through(
        &mut self,
        transport: Transport,
        id: NodeId,
        message: Vec<u8>,
        source: &str,
        refused_for: Option<ZoneId>,
    ) -> u64 {
        let request_id = self.next_request;
        self.next_request += 1;
        let keys = self.replica(id).key_table();
        let Parsed::Request(request) = parse_request(&message) else { panic!("no request") };
        let now_s = self.now.wall_ms / 1_000;
        let Authenticated::Verified { verified, .. } = authenticate(&request, &keys, now_s) else {
            panic!("not verified")
        };
        let source: SocketAddr = source.parse().unwrap();
        let external = self.external.clone();
        let request = UpdateRequest { request_id, source, transport, message, verified, refused_for, external };
        self.input(id, Input::Update(request));
        request_id
    }

    /// Sends an UPDATE that adds a record, and runs until the cluster is idle.
    pub(crate) fn add(&mut self, id: NodeId, record: &Record) -> u64 {
        self.next_id += 1;
        let message = add(record, self.next_id, self.now.wall_ms);
        let request = self.update_bytes(id, message, "192.0.2.200:4000");
        self.settle();
        request
    }

    pub(crate) fn has(&self, id: NodeId, record: &Record) -> bool {
        let published = self.replica(id).zones().published();
        let zone = published.zone(&zone_id("example.test.")).unwrap();
        let rrset = zone.rrset(record.owner.as_ref(), record.rtype);
        rrset.is_some_and(|rrset| rrset.rdatas().any(|rdata| *rdata == *record.rdata))
    }

    pub(crate) fn serial(&self, id: NodeId) -> u32 {
        let published = self.replica(id).zones().published();
        published.zone(&zone_id("example.test.")).unwrap().serial().unwrap().0
    }

    /// Checks that all live members have the same state and no invariant violation.
    pub(crate) fn assert_same(&self) {
        let hashes: BTreeSet<_> = self.alive().into_iter().map(|id| self.replica(id).state_hash()).collect();
        assert_eq!(hashes.len(), 1, "{hashes:?}");
        for id in self.alive() {
            let status = self.replica(id).status();
            assert_eq!(status.invariant_violations, replica::InvariantViolations::default(), "{id}");
            assert_eq!(status.fatal, None);
        }
    }

    pub(crate) fn verdict(&self, request: u64) -> Option<Verdict> {
        self.verdicts.get(&request).copied()
    }

    pub(crate) fn assert_done(&self, request: u64) {
        assert_eq!(self.verdict(request), Some(Verdict::Answer(Rcode::NOERROR)));
    }
}
