//! Changes of what members know each other by, and of what they keep secrets with: CAs, certificates, data
//! keys.

use super::settings::node_of;
use crate::io::{NodeId, Standing};
use crate::limits::{CA_KEY_BYTES_MAX, CERTIFICATE_BYTES_MAX, RESEALED_MAX, SECRET_BYTES_MAX};
use crate::secrets::Sealed;
use wire::name::Name;
use zone::codec::{DecodeError, Decoder, Encoder};

/// One such change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustChange {
    /// A CA whose certificates are accepted; the first one issues them.
    CaAdd {
        /// Its number: one more than that of the last.
        number: u32,
        /// Its own certificate, DER.
        certificate: Vec<u8>,
        /// Its private key (PKCS #8), sealed.
        key: Sealed,
    },
    /// Another CA issues certificates from now on.
    CaUse {
        /// Which.
        number: u32,
    },
    /// Certificates of a CA are no longer accepted.
    CaRemove {
        /// Which.
        number: u32,
    },
    /// Every member is to get itself a new certificate.
    Renew {
        /// Which order this is: one more than the last.
        number: u32,
    },
    /// Which data key seals secrets.
    DataKey(DataKeyChange),
    /// What a member says of itself.
    Standing {
        /// Who.
        id: NodeId,
        /// What.
        standing: Standing,
    },
    /// Which keys a member may show in its certificate. Feature level 3.
    Pin {
        /// The member.
        id: NodeId,
        /// What changes.
        change: PinChange,
    },
}

/// Which keys a member may show, each told by the SHA-256 of its SubjectPublicKeyInfo (RFC 5280 4.1.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinChange {
    /// This one too, beside the one that it shows now.
    Add([u8; 32]),
    /// This one and no other: the newest of them.
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
            Self::Standing { id, standing } => {
                out.u8(37);
                out.u64(*id);
                encode_standing(standing, out);
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

    /// What it does and to what, for the audit log. No secret, no digest of one.
    pub(super) fn in_words(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::CaAdd { number, .. } => ("authority add", number.to_string()),
            Self::CaUse { number } => ("authority use", number.to_string()),
            Self::CaRemove { number } => ("authority remove", number.to_string()),
            Self::Renew { number } => ("certificates renew", number.to_string()),
            // Also what follows from a removal: which key opens what is for whoever looks back.
            Self::DataKey(DataKeyChange::Begin { number, .. }) => ("data key begin", number.to_string()),
            Self::DataKey(DataKeyChange::Use { number }) => ("data key use", number.to_string()),
            // Steps that members take by themselves.
            Self::DataKey(DataKeyChange::Reseal { .. }) | Self::Standing { .. } => return None,
            Self::Pin { id, change } => {
                let (what, pin) = match change {
                    PinChange::Add(pin) => ("pin add", pin),
                    PinChange::Only(pin) => ("pin use", pin),
                    // A step that members take by themselves.
                    PinChange::Seen(_) => return None,
                };
                // Of a public key: no secret.
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
            37 => Self::Standing { id: from.u64()?, standing: decode_standing(from)? },
            40 => Self::Pin { id: from.u64()?, change: PinChange::Add(from.array()?) },
            41 => Self::Pin { id: from.u64()?, change: PinChange::Only(from.array()?) },
            LAST => Self::Pin { id: from.u64()?, change: PinChange::Seen(from.u32()?) },
            _ => return Err(DecodeError::Unknown),
        })
    }
}

/// Which data key seals secrets; the keys themselves are never in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataKeyChange {
    /// All members are to get this one.
    Begin {
        /// Its number: one more than that of the last that was begun.
        number: u32,
        /// What it is told by from any other.
        digest: [u8; 32],
    },
    /// All members have it: it seals from now on.
    Use {
        /// Its number.
        number: u32,
    },
    /// Secrets that the one before sealed, sealed by the one in use.
    Reseal {
        /// Each of them.
        secrets: Vec<Resealed>,
    },
}

/// A secret that was sealed anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resealed {
    /// Which.
    pub id: SecretId,
    /// The nonce of what it takes the place of: another secret that came there meanwhile stays.
    pub was: [u8; 12],
    /// The same secret.
    pub secret: Sealed,
}

/// Where a sealed secret is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretId {
    /// The newest secret of a TSIG key.
    Key(Name),
    /// The one before it.
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

/// The least that one takes: its place, two nonces, a number and a length.
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

/// In entries and in checkpoints.
pub(crate) fn encode_standing(standing: &Standing, out: &mut Encoder) {
    out.u32(standing.accepts);
    out.u32(standing.issued_by);
    out.u32(standing.renewal);
    out.u64(standing.expires_s);
    out.u32(standing.data_key);
}

/// Reads what [`encode_standing`] wrote.
pub(crate) fn decode_standing(from: &mut Decoder<'_>) -> Result<Standing, DecodeError> {
    Ok(Standing {
        accepts: from.u32()?,
        issued_by: from.u32()?,
        renewal: from.u32()?,
        expires_s: from.u64()?,
        data_key: from.u32()?,
    })
}
