//! Encodings of key algorithms, grants and policies in entries and checkpoints.

use crate::io::Right;
use policy::Policy;
use tsig::KeyAlgorithm;
use wire::name::Name;
use zone::ZoneId;
use zone::codec::{DecodeError, Decoder, Encoder};

/// The algorithm of a key.
pub(crate) fn encode_algorithm(algorithm: KeyAlgorithm, out: &mut Encoder) {
    out.u8(match algorithm {
        KeyAlgorithm::HmacSha256 => 1,
        KeyAlgorithm::HmacSha384 => 2,
        KeyAlgorithm::HmacSha512 => 3,
        KeyAlgorithm::HmacSha1 => 4,
        KeyAlgorithm::HmacSha224 => 5,
        KeyAlgorithm::HmacMd5 => 6,
    });
}

/// Reads what [`encode_algorithm`] wrote.
pub(crate) fn decode_algorithm(from: &mut Decoder<'_>) -> Result<KeyAlgorithm, DecodeError> {
    match from.u8()? {
        1 => Ok(KeyAlgorithm::HmacSha256),
        2 => Ok(KeyAlgorithm::HmacSha384),
        3 => Ok(KeyAlgorithm::HmacSha512),
        4 => Ok(KeyAlgorithm::HmacSha1),
        5 => Ok(KeyAlgorithm::HmacSha224),
        6 => Ok(KeyAlgorithm::HmacMd5),
        _ => Err(DecodeError::Unknown),
    }
}

/// A grant.
pub(crate) fn encode_grant(key: &Name, zone: Option<&ZoneId>, right: Right, out: &mut Encoder) {
    out.name(key);
    out.bool(zone.is_some());
    if let Some(zone) = zone {
        out.zone_id(zone);
    }
    out.u8(match right {
        Right::Update => 1,
        Right::Transfer => 2,
        Right::UpdateApex => 3,
    });
}

/// Reads what [`encode_grant`] wrote.
pub(crate) fn decode_grant(from: &mut Decoder<'_>) -> Result<(Name, Option<ZoneId>, Right), DecodeError> {
    let key = from.name()?;
    let zone = if from.bool()? { Some(from.zone_id()?) } else { None };
    let right = match from.u8()? {
        1 => Right::Update,
        2 => Right::Transfer,
        3 => Right::UpdateApex,
        _ => return Err(DecodeError::Unknown),
    };
    Ok((key, zone, right))
}

/// A policy and the zone it is for.
pub(crate) fn encode_policy(zone: Option<&ZoneId>, policy: &Policy, out: &mut Encoder) {
    out.bool(zone.is_some());
    if let Some(zone) = zone {
        out.zone_id(zone);
    }
    policy.encode(out);
}

/// Reads what [`encode_policy`] wrote.
pub(crate) fn decode_policy(from: &mut Decoder<'_>) -> Result<(Option<ZoneId>, Policy), DecodeError> {
    let zone = if from.bool()? { Some(from.zone_id()?) } else { None };
    Ok((zone, Policy::decode(from)?))
}
