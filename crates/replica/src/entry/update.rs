//! The outcome of an UPDATE.

use wire::name::Name;
use wire::number::Rcode;
use zone::codec::{DecodeError, Decoder, Encoder};
use zone::{Changeset, ZoneId};

/// An UPDATE as the leader evaluated it. Failures are entries too, because their RCODE must be as durable as a
/// success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateEntry {
    /// Digest of the signed message. A second entry with the same digest changes nothing.
    pub identity: [u8; 16],
    /// Name of the key that signed, canonical.
    pub key_name: Name,
    /// Generation of that key at evaluation.
    pub key_generation: u64,
    /// Epoch of the settings at evaluation.
    pub policy_epoch: u64,
    /// Address of the client; an IPv4 address is mapped into IPv6 (RFC 4291 2.5.5.2).
    pub source: [u8; 16],
    /// Time Signed, in seconds since 1970.
    pub time_signed: u64,
    /// The RCODE for the client.
    pub rcode: Rcode,
    /// The change; `None` if there is none.
    pub change: Option<ZoneChange>,
}

/// A change of one zone, bound to the contents that it was evaluated against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneChange {
    /// The zone.
    pub zone: ZoneId,
    /// Hash of the contents that the change applies to.
    pub base_hash: u128,
    /// The change.
    pub changeset: Changeset,
}

impl UpdateEntry {
    pub(super) fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.identity);
        out.name(&self.key_name);
        out.u64(self.key_generation);
        out.u64(self.policy_epoch);
        out.fixed(&self.source);
        out.u64(self.time_signed);
        out.u16(self.rcode.0);
        out.bool(self.change.is_some());
        if let Some(change) = &self.change {
            change.encode(out);
        }
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            identity: from.array()?,
            key_name: from.name()?,
            key_generation: from.u64()?,
            policy_epoch: from.u64()?,
            source: from.array()?,
            time_signed: from.u64()?,
            rcode: Rcode(from.u16()?),
            change: if from.bool()? { Some(ZoneChange::decode(from)?) } else { None },
        })
    }
}

impl ZoneChange {
    pub(super) fn encode(&self, out: &mut Encoder) {
        out.zone_id(&self.zone);
        out.u128(self.base_hash);
        out.changeset(&self.changeset);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { zone: from.zone_id()?, base_hash: from.u128()?, changeset: from.changeset()? })
    }
}
