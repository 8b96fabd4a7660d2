//! Changes of the trust between members: CAs, certificates and data keys.

use crate::io::{CredentialProgress, NodeId};
use crate::limits::{CA_KEY_BYTES_MAX, CERTIFICATE_BYTES_MAX, RESEALED_MAX, TOKEN_ID_BYTES};
use crate::secrets::Sealed;
use tsig::limits::SECRET_BYTES_MAX;
use wire::name::Name;
use zone::codec::{DecodeError, Decoder, Encoder};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustChange {
    /// Adds a CA whose certificates are accepted. The first one issues them.
    CaAdd {
        /// Its number: one more than the last.
        number: u32,
        /// Its own certificate, DER.
        certificate: Vec<u8>,
        /// Its private key (PKCS #8), sealed.
        key: Sealed,
    },
    /// Makes another CA issue certificates.
    CaUse {
        /// The CA.
        number: u32,
    },
    /// Removes a CA: its certificates are no longer accepted.
    CaRemove {
        /// The CA.
        number: u32,
    },
    /// Makes every member get a new certificate.
    Renew {
        /// Number of the order: one more than the last.
        number: u32,
    },
    /// Changes the data key that seals secrets.
    DataKey(DataKeyChange),
    /// A member's report of itself.
    Credentials {
        /// The member.
        id: NodeId,
        /// The report.
        progress: CredentialProgress,
    },
    /// Changes the keys that a member may use in its certificate. Feature level 3.
    Pin {
        /// The member.
        id: NodeId,
        /// The change.
        change: PinChange,
    },
}

/// Change of the keys that a member may use, each given by the SHA-256 of its SubjectPublicKeyInfo (RFC 5280
/// 4.1.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinChange {
    /// This key too, in addition to the present one.
    Add([u8; 32]),
    /// Only this key: the newest one.
    Only([u8; 32]),
    /// The member has applied the pins of all members up to this version.
    Seen(u32),
}

/// Numbers of these changes among those of the settings.
pub(super) const FIRST: u8 = 33;
pub(super) const LAST: u8 = 42;

impl TrustChange {
    pub(super) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::CaAdd { number, certificate, key } => {
                out.u8(FIRST);
                out.u32(*number);
                out.bytes(certificate);
                key.encode(out);
            }
            Self::CaUse { number } => {
                out.u8(34);
                out.u32(*number);
            }
            Self::CaRemove { number } => {
                out.u8(35);
                out.u32(*number);
            }
            Self::Renew { number } => {
                out.u8(36);
                out.u32(*number);
            }
            Self::DataKey(change) => change.encode(out),
            Self::Credentials { id, progress } => {
                out.u8(37);
                out.u64(*id);
                encode_credentials(progress, out);
            }
            Self::Pin { id, change } => {
                let kind = match change {
                    PinChange::Add(_) => 40,
                    PinChange::Only(_) => 41,
                    PinChange::Seen(_) => LAST,
                };
                out.u8(kind);
                out.u64(*id);
                match change {
                    PinChange::Add(pin) | PinChange::Only(pin) => out.fixed(pin),
                    PinChange::Seen(version) => out.u32(*version),
                }
            }
        }
    }

    /// See [`SettingsChange::feature_level`](super::SettingsChange::feature_level).
    pub(super) const fn feature_level(&self) -> u32 {
        if matches!(self, Self::Pin { .. }) { 3 } else { 2 }
    }

    /// What was changed, for the audit log, without secrets and their digests.
    pub(super) fn in_words(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::CaAdd { number, .. } => ("authority add", number.to_string()),
            Self::CaUse { number } => ("authority use", number.to_string()),
            Self::CaRemove { number } => ("authority remove", number.to_string()),
            Self::Renew { number } => ("certificates renew", number.to_string()),
            // Logged although it may follow from a removal: a later reader must know which key opens which secrets.
            Self::DataKey(DataKeyChange::Begin { number, .. }) => ("data key begin", number.to_string()),
            Self::DataKey(DataKeyChange::Use { number }) => ("data key use", number.to_string()),
            // Members take these steps by themselves.
            Self::DataKey(DataKeyChange::Reseal { .. }) | Self::Credentials { .. } => return None,
            Self::Pin { id, change } => {
                let (what, pin) = match change {
                    PinChange::Add(pin) => ("pin add", pin),
                    PinChange::Only(pin) => ("pin use", pin),
                    // Members take this step by themselves.
                    PinChange::Seen(_) => return None,
                };
                // The digest of a public key is no secret.
                let digits: String = pin.iter().map(|byte| format!("{byte:02x}")).collect();
                (what, format!("{} {digits}", node_of(*id)))
            }
        })
    }

    pub(super) fn decode(kind: u8, from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            FIRST => Self::CaAdd {
                number: from.u32()?,
                certificate: from.bytes(CERTIFICATE_BYTES_MAX)?.to_vec(),
                key: Sealed::decode(from, CA_KEY_BYTES_MAX)?,
            },
            34 => Self::CaUse { number: from.u32()? },
            35 => Self::CaRemove { number: from.u32()? },
            36 => Self::Renew { number: from.u32()? },
            38 | 39 => Self::DataKey(DataKeyChange::decode(kind, from)?),
            37 => Self::Credentials { id: from.u64()?, progress: decode_credentials(from)? },
            40 => Self::Pin { id: from.u64()?, change: PinChange::Add(from.array()?) },
            41 => Self::Pin { id: from.u64()?, change: PinChange::Only(from.array()?) },
            LAST => Self::Pin { id: from.u64()?, change: PinChange::Seen(from.u32()?) },
            _ => return Err(DecodeError::Unknown),
        })
    }
}

/// Change of the data key that seals secrets. The keys themselves are never in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataKeyChange {
    /// All members are to get this key.
    Begin {
        /// Its number: one more than the last.
        number: u32,
        /// Digest that identifies the key.
        digest: [u8; 32],
    },
    /// All members have the key: it seals secrets from now on.
    Use {
        /// Its number.
        number: u32,
    },
    /// Secrets of the previous data key, sealed with the current one.
    Reseal {
        /// The secrets.
        secrets: Vec<Resealed>,
    },
}

/// A resealed secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resealed {
    /// Which secret.
    pub id: SecretId,
    /// The nonce of the sealed secret that this replaces. If another secret is there by now, that one stays.
    pub was: [u8; 12],
    /// The same secret, sealed anew.
    pub secret: Sealed,
}

/// Where a sealed secret is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretId {
    /// The newest secret of a TSIG key.
    Key(Name),
    /// The previous secret of a TSIG key.
    PreviousOfKey(Name),
    /// The private key of a CA.
    Ca(u32),
}

impl DataKeyChange {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Self::Begin { number, digest } => {
                out.u8(38);
                out.u8(1);
                out.u32(*number);
                out.fixed(digest);
            }
            Self::Use { number } => {
                out.u8(38);
                out.u8(2);
                out.u32(*number);
            }
            Self::Reseal { secrets } => {
                out.u8(39);
                out.count(secrets.len());
                secrets.iter().for_each(|resealed| resealed.encode(out));
            }
        }
    }

    fn decode(kind: u8, from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        if kind == 39 {
            let count = from.count(RESEALED_MAX, RESEALED_BYTES_MIN)?;
            return Ok(Self::Reseal { secrets: (0..count).map(|_| Resealed::decode(from)).collect::<Result<_, _>>()? });
        }
        match from.u8()? {
            1 => Ok(Self::Begin { number: from.u32()?, digest: from.array()? }),
            2 => Ok(Self::Use { number: from.u32()? }),
            _ => Err(DecodeError::Unknown),
        }
    }
}

/// The minimum size of one: its place, two nonces, a number and a length.
const RESEALED_BYTES_MIN: usize = 1 + 12 + 12 + 4 + 4;

impl Resealed {
    fn encode(&self, out: &mut Encoder) {
        match &self.id {
            SecretId::Key(name) => {
                out.u8(1);
                out.name(name);
            }
            SecretId::PreviousOfKey(name) => {
                out.u8(2);
                out.name(name);
            }
            SecretId::Ca(number) => {
                out.u8(3);
                out.u32(*number);
            }
        }
        out.fixed(&self.was);
        self.secret.encode(out);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let (id, bytes_max) = match from.u8()? {
            1 => (SecretId::Key(from.name()?), SECRET_BYTES_MAX),
            2 => (SecretId::PreviousOfKey(from.name()?), SECRET_BYTES_MAX),
            3 => (SecretId::Ca(from.u32()?), CA_KEY_BYTES_MAX),
            _ => return Err(DecodeError::Unknown),
        };
        Ok(Self { id, was: from.array()?, secret: Sealed::decode(from, bytes_max)? })
    }
}

/// A member's report, in entries and in checkpoints.
pub(crate) fn encode_credentials(progress: &CredentialProgress, out: &mut Encoder) {
    out.u32(progress.accepts);
    out.u32(progress.issued_by);
    out.u32(progress.renewal);
    out.u64(progress.expires_s);
    out.u32(progress.data_key);
}

/// Reads what [`encode_credentials`] wrote.
pub(crate) fn decode_credentials(from: &mut Decoder<'_>) -> Result<CredentialProgress, DecodeError> {
    Ok(CredentialProgress {
        accepts: from.u32()?,
        issued_by: from.u32()?,
        renewal: from.u32()?,
        expires_s: from.u64()?,
        data_key: from.u32()?,
    })
}

/// The node number, and how many times the node was replaced.
pub(super) fn node_of(id: NodeId) -> String {
    format!("{}.{}", id as u32, id >> 32)
}

/// The id of a join token: the first bytes of its digest. A token is 32 random bytes, so the digest does not reveal it.
#[must_use]
pub fn token_id(digest: &[u8; 32]) -> String {
    digest[..TOKEN_ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}
