//! The leaf of a zone: its apex, its two trees, and a summary of its content.

use super::error::ContentFault;
use crate::hash::StateHash;
use crate::nsec3::Nsec3Params;
use crate::vertex::Vertex;
use crate::vertex::leaf::{KIND_ZONE, split_owner};
use store::Tree;
use wire::compose::SoaForm;
use wire::name::NameRef;
use wire::number::{Rtype, Serial};

/// How a zone proves that something does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denial {
    /// Not at all: the zone is not signed.
    None,
    /// By NSEC (RFC 4034 4).
    Nsec,
    /// By NSEC3 (RFC 5155).
    Nsec3,
}

/// The stored data of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ZoneRecord {
    /// Owner to RRsets.
    pub(super) names: Tree,
    /// Owner to NSEC3.
    pub(super) hashed: Tree,
    /// RRs in both trees.
    pub(super) record_count: u64,
    pub(super) hash: StateHash,
    /// `None` until there is an SOA.
    pub(super) serial: Option<Serial>,
    pub(super) denial: Denial,
    /// The apex has DNSKEY.
    pub(super) presigned: bool,
    /// Bytes of both trees in the arena.
    pub(super) bytes: u64,
}

const FIELDS_BYTES: usize = 4 + 4 + 8 + 16 + 4 + 1 + 8;
const FLAG_SERIAL: u8 = 1;
const FLAG_PRESIGNED: u8 = 2;
const FLAG_NSEC: u8 = 4;
const FLAG_NSEC3: u8 = 8;

impl ZoneRecord {
    /// A zone without records and with this hash.
    pub(super) const fn empty(hash: StateHash) -> Self {
        Self {
            names: Tree::EMPTY,
            hashed: Tree::EMPTY,
            record_count: 0,
            hash,
            serial: None,
            denial: Denial::None,
            presigned: false,
            bytes: 0,
        }
    }

    /// The apex of a leaf, the data of the zone, and the form of its SOA.
    pub(super) fn from_leaf(leaf: &[u8]) -> Option<(NameRef<'_>, Self, SoaForm<'_>)> {
        let (apex, rest) = split_owner(leaf);
        let (names, rest) = rest.split_first_chunk()?;
        let (hashed, rest) = rest.split_first_chunk()?;
        let (record_count, rest) = rest.split_first_chunk()?;
        let (hash, rest) = rest.split_first_chunk()?;
        let (serial, rest) = rest.split_first_chunk()?;
        let (&flags, rest) = rest.split_first()?;
        let (bytes, form) = rest.split_first_chunk()?;
        let record = Self {
            names: Tree::from_bits(u32::from_be_bytes(*names)),
            hashed: Tree::from_bits(u32::from_be_bytes(*hashed)),
            record_count: u64::from_be_bytes(*record_count),
            hash: u128::from_be_bytes(*hash),
            serial: (flags & FLAG_SERIAL != 0).then_some(Serial(u32::from_be_bytes(*serial))),
            denial: match flags & (FLAG_NSEC | FLAG_NSEC3) {
                0 => Denial::None,
                FLAG_NSEC => Denial::Nsec,
                _ => Denial::Nsec3,
            },
            presigned: flags & FLAG_PRESIGNED != 0,
            bytes: u64::from_be_bytes(*bytes),
        };
        Some((apex, record, SoaForm::from_bytes(form)))
    }

    /// The names of the zone of a leaf, without reading the rest.
    pub(super) fn names_of(leaf: &[u8]) -> Option<Tree> {
        let (_apex, rest) = split_owner(leaf);
        rest.first_chunk().map(|&names| Tree::from_bits(u32::from_be_bytes(names)))
    }

    /// `form` is the form of the SOA, or empty without one.
    pub(super) fn to_leaf(self, apex: NameRef<'_>, form: &[u8]) -> Vec<u8> {
        let mut leaf = Vec::with_capacity(1 + apex.as_bytes().len() + FIELDS_BYTES + form.len());
        leaf.push(KIND_ZONE);
        leaf.extend_from_slice(apex.as_bytes());
        leaf.extend_from_slice(&self.names.to_bits().to_be_bytes());
        leaf.extend_from_slice(&self.hashed.to_bits().to_be_bytes());
        leaf.extend_from_slice(&self.record_count.to_be_bytes());
        leaf.extend_from_slice(&self.hash.to_be_bytes());
        leaf.extend_from_slice(&self.serial.map_or(0, |serial| serial.0).to_be_bytes());
        let flags = [
            (self.serial.is_some(), FLAG_SERIAL),
            (self.presigned, FLAG_PRESIGNED),
            (self.denial == Denial::Nsec, FLAG_NSEC),
            (self.denial == Denial::Nsec3, FLAG_NSEC3),
        ];
        leaf.push(flags.iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag));
        leaf.extend_from_slice(&self.bytes.to_be_bytes());
        leaf.extend_from_slice(form);
        leaf
    }

    /// Adds the growth of the store from a change of the zone's trees.
    pub(super) const fn grow(&mut self, live_before: u64, live_after: u64) {
        self.bytes = self.bytes.wrapping_add(live_after.wrapping_sub(live_before));
    }

    /// Updates the data from the RRsets of the apex; `None` if the apex has none. Returns the form of the SOA.
    pub(super) fn follow_apex(&mut self, apex: Option<Vertex<'_>>) -> Result<Vec<u8>, ContentFault> {
        let apex = apex.ok_or(ContentFault::Soa)?;
        let soa = apex.rrset(Rtype::SOA).ok_or(ContentFault::Soa)?;
        let mut soas = soa.rdatas();
        let (Some(rdata), None) = (soas.next(), soas.next()) else { return Err(ContentFault::Soa) };
        let serial = soa_serial(rdata).ok_or(ContentFault::Soa)?;
        self.serial = Some(serial);
        self.presigned = apex.rrset(Rtype::DNSKEY).is_some();
        self.denial = match (nsec3_params(&apex)?, apex.rrset(Rtype::NSEC)) {
            (Some(_), _) => Denial::Nsec3,
            (None, Some(_)) => Denial::Nsec,
            (None, None) => Denial::None,
        };
        // Where nothing is denied by signatures, none go with the SOA either: such an answer ends with its form.
        let has_form = self.denial != Denial::None || !soa.is_signed();
        let ttl = soa.ttl.min(soa_minimum(rdata).unwrap_or(u32::MAX));
        let apex = apex.owner().to_canonical();
        Ok(if has_form { SoaForm::make(apex.as_ref(), ttl, rdata) } else { Vec::new() })
    }
}

/// The chain of NSEC3 records that the apex declares complete (RFC 5155 4): the first whose flags are zero.
pub(super) fn nsec3_params<'a>(apex: &Vertex<'a>) -> Result<Option<Nsec3Params<'a>>, ContentFault> {
    let Some(declared) = apex.rrset(Rtype::NSEC3PARAM) else { return Ok(None) };
    // RFC 5155 4.1.2: NSEC3PARAM with any flag set are ignored.
    let Some(rdata) = declared.rdatas().find(|rdata| rdata.get(1) == Some(&0)) else { return Ok(None) };
    Nsec3Params::from_rdata(rdata).map(Some).map_err(ContentFault::Nsec3)
}

/// The serial in the rdata of an SOA (RFC 1035 3.3.13).
fn soa_serial(rdata: &[u8]) -> Option<Serial> {
    soa_number(rdata, 0).map(Serial)
}

/// The EXPIRE field in the rdata of an SOA (RFC 1035 3.3.13).
pub(super) fn soa_expire(rdata: &[u8]) -> Option<u32> {
    soa_number(rdata, 3)
}

/// The MINIMUM in the rdata of an SOA (RFC 2308 4).
pub(crate) fn soa_minimum(rdata: &[u8]) -> Option<u32> {
    soa_number(rdata, 4)
}

/// One of the five numbers that follow the two names of an SOA's rdata.
fn soa_number(rdata: &[u8], index: usize) -> Option<u32> {
    let at = rdata.len().checked_sub(20)? + 4 * index;
    rdata.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
}
