//! Names, records and signed messages of the scenarios.

use replica::io::AdminCommand;
use tsig::KeyAlgorithm;
use tsig::client::{ClientKey, UpdateBuilder};
use wire::name::Name;
use wire::number::Rtype;
use zone::{Record, ZoneId};

pub(crate) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A command that adds a secret to the first key of a cluster.
pub(crate) fn roll_key(secret: &[u8], nonce: u8) -> AdminCommand {
    let (algorithm, secret) = (KeyAlgorithm::HmacSha256, secret.to_vec());
    AdminCommand::RollKey { name: name("key."), algorithm, secret, nonce: [nonce; 12] }
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(crate) fn zone_id(apex: &str) -> ZoneId {
    ZoneId { view: 0, apex: name(apex) }
}

fn soa(apex: &str, serial: u32) -> Record {
    let mut rdata = [name("ns.invalid.").as_bytes(), name("root.invalid.").as_bytes()].concat();
    for number in [serial, 3_600, 600, 86_400, 300] {
        rdata.extend_from_slice(&number.to_be_bytes());
    }
    Record { owner: name(apex), rtype: Rtype::SOA, ttl: 300, rdata: rdata.into() }
}

/// A zone with this many hosts, each with a text.
pub(crate) fn large_zone(apex: &str, serial: u32, hosts: u32) -> Vec<Record> {
    let mut all = records(apex, serial);
    all.extend((0..hosts).map(|number| Record {
        owner: name(&format!("host-{number}.{apex}")),
        rtype: Rtype::TXT,
        ttl: 60,
        rdata: [20; 21].into(),
    }));
    all
}

/// The smallest zone.
pub(crate) fn records(apex: &str, serial: u32) -> Vec<Record> {
    let ns = Record { owner: name(apex), rtype: Rtype::NS, ttl: 300, rdata: name("ns.invalid.").as_bytes().into() };
    vec![soa(apex, serial), ns]
}

pub(crate) fn address(last: u8) -> Record {
    let owner = name(&format!("a{last}.example.test."));
    Record { owner, rtype: Rtype::A, ttl: 60, rdata: [192, 0, 2, last].into() }
}

/// A signed UPDATE that adds a record.
pub(crate) fn add(record: &Record, id: u16, wall_ms: u64) -> Vec<u8> {
    let builder = UpdateBuilder::new(id, name("example.test.").as_ref());
    let message = builder.add(record.owner.as_ref(), record.ttl, record.rtype, &record.rdata).finish();
    sign(message, wall_ms)
}

pub(crate) fn sign(message: Vec<u8>, wall_ms: u64) -> Vec<u8> {
    let key = ClientKey::new(name("key.").as_ref(), KeyAlgorithm::HmacSha256, SECRET).unwrap();
    key.sign(message, wall_ms / 1_000).unwrap()
}
