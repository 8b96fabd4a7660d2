//! The updates of clients, and their zone.
//!
//! The zone has registers, each written by one client, and a counter that all clients increment by compare-and-swap. An
//! effective update replaces one of these records and adds a unique record: its mark.

use crate::plan::{Plan, name};
use std::sync::Arc;
use tsig::KeyAlgorithm;
use tsig::client::{ClientKey, UpdateBuilder};
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use zone::{Record, Zone, ZoneId};

/// Number of registers in the zone. A client whose update has an unknown outcome takes a new register.
pub(crate) const REGISTERS: usize = 200;
/// First serial of the zone.
pub(crate) const FIRST_SERIAL: u32 = 1;
/// First records of the zone: SOA, NS, registers, counter.
pub(crate) const FIRST_RECORDS: u64 = 3 + REGISTERS as u64;
/// The key with a grant for everything.
pub(crate) const KEY: &str = "key.";
/// The key without grants, which only policies allow.
pub(crate) const RULED_KEY: &str = "ruled.";
/// The key without any rights.
pub(crate) const OTHER_KEY: &str = "other.";
/// The first secret of all keys, and the second secret that the first key gets once in a run.
pub(crate) const SECRETS: [&[u8]; 2] = [b"0123456789abcdef0123456789abcdef", b"fedcba9876543210fedcba9876543210"];
const MAIN_ZONE: &str = "example.test.";
const CHURN_ZONE: &str = "churn.test.";
const TTL: u32 = 60;
/// Value of a prerequisite that never holds, because no update has this number.
const NOBODY: u64 = 999_999_999;

/// The kind of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Writes a register.
    Set { register: usize },
    /// Writes a register if it holds its writer's last value.
    Swap { register: usize, from: u64 },
    /// Writes a register if it holds a value that was never written.
    FailedSwap { register: usize },
    /// Moves the counter if it still has this value.
    Count { from: u64 },
    /// Adds a record that does not belong to the zone.
    Outside,
    /// Is signed with a key without rights.
    Ungranted,
    /// Adds its mark. Only this policy grants it.
    Ruled { policy: u64 },
    /// Changes a name of the model's zone, with the expected response.
    Churn { plan: Arc<Plan>, expected: Rcode },
    /// Deletes a record that does not exist.
    Nothing,
}

impl Kind {
    /// Whether a client may get this response. `was_revoked` is set if the administrator ever revoked the right, or
    /// invalidated the secret that signed the update.
    pub(crate) fn may_get(&self, rcode: Rcode, was_revoked: bool) -> bool {
        if was_revoked && rcode == Rcode::REFUSED {
            return true;
        }
        match self {
            Self::Set { .. } | Self::Swap { .. } | Self::Nothing => rcode == Rcode::NOERROR,
            Self::FailedSwap { .. } => rcode == Rcode::NXRRSET,
            Self::Count { .. } => rcode == Rcode::NOERROR || rcode == Rcode::NXRRSET,
            Self::Churn { expected, .. } => rcode == *expected,
            Self::Outside => rcode == Rcode::NOTZONE,
            Self::Ungranted => rcode == Rcode::REFUSED,
            // `policies.rs` checks which of the two is right.
            Self::Ruled { .. } => rcode == Rcode::NOERROR || rcode == Rcode::REFUSED,
        }
    }

    /// Whether it leaves its mark if it succeeds.
    pub(crate) fn has_effect(&self) -> bool {
        match self {
            Self::Set { .. } | Self::Swap { .. } | Self::Count { .. } | Self::Ruled { .. } => true,
            Self::Churn { expected, .. } => *expected == Rcode::NOERROR,
            Self::FailedSwap { .. } | Self::Outside | Self::Ungranted | Self::Nothing => false,
        }
    }

    /// The zone of the update.
    pub(crate) fn zone(&self) -> ZoneId {
        if matches!(self, Self::Churn { .. }) { churn_zone() } else { main_zone() }
    }
}

pub(crate) fn zone_id(apex: &str) -> ZoneId {
    ZoneId { view: 0, apex: name(apex) }
}

/// The zone of the clients' updates.
pub(crate) fn main_zone() -> ZoneId {
    zone_id(MAIN_ZONE)
}

/// The zone of the model.
pub(crate) fn churn_zone() -> ZoneId {
    zone_id(CHURN_ZONE)
}

/// The name of the mark of an update.
pub(crate) fn mark_of(number: u64, kind: &Kind) -> Name {
    match kind {
        Kind::Churn { .. } => name(&format!("u{number}.{CHURN_ZONE}")),
        Kind::Ruled { policy } => name(&format!("u{number}.p{policy}.{MAIN_ZONE}")),
        _ => name(&format!("u{number}.{MAIN_ZONE}")),
    }
}

/// The rules of a policy.
pub(crate) fn rules_of(policy: u64) -> String {
    format!("grant {RULED_KEY} subdomain p{policy}.{MAIN_ZONE} A;")
}

fn register_name(register: usize) -> Name {
    name(&format!("r{register}.{MAIN_ZONE}"))
}

fn counter_name() -> Name {
    name(&format!("counter.{MAIN_ZONE}"))
}

/// A number as TXT rdata.
fn number_rdata(number: u64) -> Vec<u8> {
    let digits = number.to_string();
    [&[digits.len() as u8], digits.as_bytes()].concat()
}

fn number_at(zone: &Zone<'_>, owner: &Name) -> Option<u64> {
    let rrset = zone.rrset(owner.as_ref(), Rtype::TXT)?;
    let rdata = rrset.rdatas().next()?;
    std::str::from_utf8(rdata.get(1..)?).ok()?.parse().ok()
}

/// Number of steps of the counter.
pub(crate) fn counter_value(zone: &Zone<'_>) -> Option<u64> {
    number_at(zone, &counter_name())
}

/// The smallest zone: SOA and NS.
pub(crate) fn apex_records(apex: &str, serial: u32) -> Vec<Record> {
    let server = name("ns.invalid.");
    let mut soa = [server.as_bytes(), name("root.invalid.").as_bytes()].concat();
    [serial, 3_600, 600, 86_400, 300].iter().for_each(|number| soa.extend_from_slice(&number.to_be_bytes()));
    let record = |rtype, rdata: &[u8]| Record { owner: name(apex), rtype, ttl: TTL, rdata: rdata.into() };
    vec![record(Rtype::SOA, &soa), record(Rtype::NS, server.as_bytes())]
}

/// The mark, a record that only one update adds.
pub(crate) fn mark_record(mark: Name, number: u64) -> Record {
    let address = [10, (number >> 16) as u8, (number >> 8) as u8, number as u8];
    Record { owner: mark, rtype: Rtype::A, ttl: TTL, rdata: address.as_slice().into() }
}

/// The record of a register that this update wrote; 0 means no update.
pub(crate) fn register_record(register: usize, number: u64) -> Record {
    let rdata = number_rdata(number).into();
    Record { owner: register_name(register), rtype: Rtype::TXT, ttl: TTL, rdata }
}

/// The record of the counter after this many steps.
pub(crate) fn counter_record(steps: u64) -> Record {
    Record { owner: counter_name(), rtype: Rtype::TXT, ttl: TTL, rdata: number_rdata(steps).into() }
}

/// The first records of the zone.
pub(crate) fn main_records() -> Vec<Record> {
    let owners = (0..REGISTERS).map(register_name).chain([counter_name()]);
    let zeros = owners.map(|owner| Record { owner, rtype: Rtype::TXT, ttl: TTL, rdata: number_rdata(0).into() });
    apex_records(MAIN_ZONE, FIRST_SERIAL).into_iter().chain(zeros).collect()
}

/// An update, signed at a client's time in seconds since 1970, by the first key with this secret.
pub(crate) fn compose(number: u64, kind: &Kind, time_signed: u64, secret: &[u8]) -> Vec<u8> {
    let mark = mark_of(number, kind);
    let builder = UpdateBuilder::new(number as u16, kind.zone().apex.as_ref());
    let replace = |builder: UpdateBuilder, owner: &Name, value: u64| {
        let builder = builder.delete_rrset(owner.as_ref(), Rtype::TXT);
        builder.add(owner.as_ref(), TTL, Rtype::TXT, &number_rdata(value))
    };
    let require = |builder: UpdateBuilder, owner: &Name, value: u64| {
        builder.require_record(owner.as_ref(), Rtype::TXT, &number_rdata(value))
    };
    let builder = match *kind {
        Kind::Churn { ref plan, .. } => plan.compose(builder),
        Kind::Set { register } => replace(builder, &register_name(register), number),
        Kind::Swap { register, from } => {
            let owner = register_name(register);
            replace(require(builder, &owner, from), &owner, number)
        }
        Kind::FailedSwap { register } => {
            let owner = register_name(register);
            replace(require(builder, &owner, NOBODY), &owner, number)
        }
        Kind::Count { from } => {
            let owner = counter_name();
            replace(require(builder, &owner, from), &owner, from + 1)
        }
        Kind::Outside => builder.add(name("outside.invalid.").as_ref(), TTL, Rtype::TXT, &number_rdata(number)),
        Kind::Ungranted | Kind::Ruled { .. } => builder,
        Kind::Nothing => builder.delete_rrset(mark.as_ref(), Rtype::A),
    };
    let record = mark_record(mark, number);
    let is_marked = *kind != Kind::Nothing;
    let builder = if is_marked { builder.add(record.owner.as_ref(), TTL, Rtype::A, &record.rdata) } else { builder };
    let (key, secret) = match kind {
        Kind::Ungranted => (OTHER_KEY, SECRETS[0]),
        Kind::Ruled { .. } => (RULED_KEY, SECRETS[0]),
        _ => (KEY, secret),
    };
    let key = ClientKey::new(name(key).as_ref(), KeyAlgorithm::HmacSha256, secret).expect("the secret is long enough");
    key.sign(builder.finish(), time_signed).expect("a short message has room for its signature")
}
