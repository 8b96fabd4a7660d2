//! The TSIG checks of a server (RFC 8945 5.2), for QUERY, AXFR and UPDATE.

use crate::digest::{self, Cover, Variables, time_bytes};
use crate::keys::{KeyTable, Secret, SecretId, TsigKey};
use crate::limits::FUDGE_S_MAX;
use crate::mac::Mac;
use crate::sign::Signer;
use ring::digest::{Context, SHA256};
use wire::limits::HEADER_BYTES;
use wire::name::Name;
use wire::number::Rcode;
use wire::parse::Request;
use wire::parse::tsig::{TsigAt, TsigView};

/// A request whose TSIG was verified (RFC 8945 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Name of the key, canonical.
    pub key_name: Name,
    /// The secret that made the signature.
    pub secret: SecretId,
    /// The identity of the request: a digest of key, signed time, full MAC and message.
    pub identity: [u8; 16],
    /// Time Signed, in seconds since 1970.
    pub time_signed: u64,
    /// The client's fudge in seconds, reduced to 300 if larger.
    pub fudge: u16,
}

/// The result of the TSIG checks of a request.
#[derive(Clone, Debug)]
pub enum Authenticated {
    /// The request has no TSIG record.
    Unsigned,
    /// The key, the MAC, the time and the length of the MAC are right.
    Verified {
        /// The key, and the identity of the request.
        verified: Verified,
        /// Signs every response to the request, including errors.
        signer: Signer,
    },
    /// The request is refused.
    Rejected {
        /// NOTAUTH or FORMERR.
        rcode: Rcode,
        /// The reason.
        reason: TsigReject,
        /// Writes the TSIG record of the response, with a MAC or an empty one; `None`: the response has no TSIG.
        signer: Option<Signer>,
    },
}

/// Why a request is refused because of its TSIG record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TsigReject {
    /// The TSIG record cannot be read, or its TTL is not 0: FORMERR.
    Malformed,
    /// No key of this name, or the key has another algorithm.
    BadKey,
    /// The MAC is longer than the key's hash, or shorter than ten bytes or half the hash: FORMERR (RFC 8945 5.2.2.1).
    MacLength,
    /// The MAC is wrong.
    BadSig,
    /// The MAC is right, but Time Signed is too far from the current time.
    BadTime,
    /// The MAC is right, but shorter than the key's policy allows.
    BadTrunc,
}

impl TsigReject {
    /// All reasons; `reason as usize` is the index.
    pub const ALL: [Self; 6] =
        [Self::Malformed, Self::BadKey, Self::MacLength, Self::BadSig, Self::BadTime, Self::BadTrunc];

    /// The label in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "tsig_malformed",
            Self::BadKey => "tsig_bad_key",
            Self::MacLength => "tsig_mac_length",
            Self::BadSig => "tsig_bad_sig",
            Self::BadTime => "tsig_bad_time",
            Self::BadTrunc => "tsig_bad_trunc",
        }
    }

    /// The error in the TSIG record of the response (RFC 8945 3); `None` if the response has no TSIG record.
    #[must_use]
    pub const fn tsig_error(self) -> Option<Rcode> {
        match self {
            Self::Malformed | Self::MacLength => None,
            Self::BadKey => Some(Rcode::BADKEY),
            Self::BadSig => Some(Rcode::BADSIG),
            Self::BadTime => Some(Rcode::BADTIME),
            Self::BadTrunc => Some(Rcode::BADTRUNC),
        }
    }
}

/// Checks the TSIG record of a request; see [`authenticate_bytes`].
#[must_use]
pub fn authenticate(request: &Request<'_>, keys: &KeyTable, now_s: u64) -> Authenticated {
    request.tsig.as_ref().map_or(Authenticated::Unsigned, |at| authenticate_bytes(request.bytes, at, keys, now_s))
}

/// Checks the TSIG record at `at` of a message. `wire::parse_request` has checked its form: one record, at the end, of
/// class ANY.
///
/// The order is that of RFC 8945 5.2: key (5.2.1), MAC (5.2.2), time (5.2.3), truncation (5.2.4). So a client without
/// the key gets no signed response and does not learn of a wrong time.
#[must_use]
pub fn authenticate_bytes(bytes: &[u8], at: &TsigAt, keys: &KeyTable, now_s: u64) -> Authenticated {
    let formerr = |reason| Authenticated::Rejected { rcode: Rcode::FORMERR, reason, signer: None };
    let Some(tsig) = TsigView::read(bytes, at).filter(|_| has_ttl_zero(bytes, at)) else {
        return formerr(TsigReject::Malformed);
    };
    let mut signer = Signer {
        key_name: tsig.key_name.clone(),
        algorithm: tsig.algorithm.clone(),
        secret: None,
        mac_bytes: 0,
        // Only a signed response covers the request's MAC, and its length is checked before any response is signed.
        request_mac: Mac::from_bytes(tsig.mac).unwrap_or(Mac::NONE),
        time_signed: tsig.time_signed,
        fudge: tsig.fudge,
        own_fudge: FUDGE_S_MAX,
        error: Rcode::NOERROR,
    };

    // RFC 8945 5.2.1: a known key with another algorithm counts as an unknown key.
    let key = keys
        .get(tsig.key_name.as_ref())
        .filter(|key| tsig.algorithm.as_bytes().eq_ignore_ascii_case(key.algorithm.name_bytes()));
    let Some(key) = key else { return reject(TsigReject::BadKey, signer) };

    // RFC 8945 5.2.2.1: FORMERR for a MAC that is longer than the hash, or shorter than ten bytes or half the hash.
    if !(key.algorithm.mac_bytes_min()..=key.algorithm.mac_bytes()).contains(&tsig.mac.len()) {
        return formerr(TsigReject::MacLength);
    }

    let covered = CoveredBytes::new(bytes, at, &tsig);
    let Some((secret, full_mac)) = covered.verify(key, &tsig) else {
        return reject(TsigReject::BadSig, signer);
    };
    signer.secret = Some(secret.hmac.clone());
    signer.mac_bytes = key.algorithm.mac_bytes();

    let fudge = tsig.fudge.min(FUDGE_S_MAX);
    if now_s.abs_diff(tsig.time_signed) > u64::from(fudge) {
        return reject(TsigReject::BadTime, signer);
    }
    if tsig.mac.len() < key.mac_bytes_min {
        return reject(TsigReject::BadTrunc, signer);
    }
    let verified = Verified {
        key_name: key.name.clone(),
        secret: secret.id,
        identity: covered.identity(key, &tsig, &full_mac),
        time_signed: tsig.time_signed,
        fudge,
    };
    Authenticated::Verified { verified, signer }
}

/// RFC 8945 4.2: the TTL "MUST be 0". The MAC does not cover it, so accepting other values would allow unnoticed
/// changes of a message.
fn has_ttl_zero(bytes: &[u8], at: &TsigAt) -> bool {
    let rdata = at.rdata_at.start;
    rdata.checked_sub(6).and_then(|ttl| bytes.get(ttl..rdata - 2)) == Some(&[0; 4])
}

fn reject(reason: TsigReject, mut signer: Signer) -> Authenticated {
    signer.error = reason.tsig_error().unwrap_or(Rcode::NOERROR);
    Authenticated::Rejected { rcode: Rcode::NOTAUTH, reason, signer: Some(signer) }
}

/// The part of a request that its MAC covers: the message before the TSIG record was added and ARCOUNT incremented,
/// with the original ID from the TSIG record (RFC 8945 4.3.2).
struct CoveredBytes<'m> {
    header: [u8; HEADER_BYTES],
    rest: &'m [u8],
}

impl<'m> CoveredBytes<'m> {
    fn new(bytes: &'m [u8], at: &TsigAt, tsig: &TsigView<'m>) -> Self {
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes[..HEADER_BYTES]);
        header[..2].copy_from_slice(&tsig.original_id.to_be_bytes());
        let arcount = u16::from_be_bytes([header[10], header[11]]).saturating_sub(1);
        header[10..].copy_from_slice(&arcount.to_be_bytes());
        Self { header, rest: &bytes[HEADER_BYTES..at.at] }
    }

    /// Returns the secret that made the MAC, and the MAC in full length.
    fn verify<'k>(&self, key: &'k TsigKey, tsig: &TsigView<'_>) -> Option<(&'k Secret, Mac)> {
        let variables = Variables {
            key_name: tsig.key_name.as_ref(),
            algorithm: tsig.algorithm.as_ref(),
            time_signed: tsig.time_signed,
            fudge: tsig.fudge,
            error: tsig.error,
            other: tsig.other,
        };
        key.secrets.iter().find_map(|secret| {
            let mac = digest::compute(&secret.hmac, None, [&self.header, self.rest], &variables, Cover::Variables);
            mac.starts_with(tsig.mac).then_some((secret, mac))
        })
    }

    /// The identity of the request. It excludes everything that an attacker can change without breaking the MAC: the ID
    /// of the message, case and compression of the key's name, and truncation of the MAC. So every replay is recognised
    /// (docs/internals/decisions/0004-tsig.md).
    fn identity(&self, key: &TsigKey, tsig: &TsigView<'_>, full_mac: &Mac) -> [u8; 16] {
        let mut context = Context::new(&SHA256);
        context.update(key.name.as_bytes());
        context.update(&time_bytes(tsig.time_signed));
        context.update(full_mac.as_bytes());
        context.update(&self.header);
        context.update(self.rest);
        let mut identity = [0; 16];
        identity.copy_from_slice(&context.finish().as_ref()[..16]);
        identity
    }
}
