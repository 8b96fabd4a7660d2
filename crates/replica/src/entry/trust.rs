//! Changes of what members know each other by: authorities, certificates.

use crate::codec::{DecodeError, Decoder, Encoder};
use crate::io::{NodeId, Standing};
use crate::limits::{AUTHORITY_KEY_OCTETS_MAX, CERTIFICATE_OCTETS_MAX};
use crate::secrets::Sealed;

/// One such change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustChange {
    /// An authority whose certificates are accepted; the first one issues them.
    AuthorityAdd {
        /// Its number: one more than that of the last.
        number: u32,
        /// Its own certificate, DER.
        certificate: Vec<u8>,
        /// Its private key (PKCS #8), sealed.
        key: Sealed,
    },
    /// Another authority issues certificates from now on.
    AuthorityUse {
        /// Which.
        number: u32,
    },
    /// Certificates of an authority are no longer accepted.
    AuthorityRemove {
        /// Which.
        number: u32,
    },
    /// Every member is to get itself a new certificate.
    Renew {
        /// Which order this is: one more than the last.
        number: u32,
    },
    /// What a member says of itself.
    Standing {
        /// Who.
        id: NodeId,
        /// What.
        standing: Standing,
    },
}

/// Numbers of these changes among those of the settings.
pub(super) const FIRST: u8 = 33;
pub(super) const LAST: u8 = 37;

impl TrustChange {
    pub(super) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::AuthorityAdd { number, certificate, key } => {
                out.u8(FIRST);
                out.u32(*number);
                out.octets(certificate);
                key.encode(out);
            }
            Self::AuthorityUse { number } => {
                out.u8(34);
                out.u32(*number);
            }
            Self::AuthorityRemove { number } => {
                out.u8(35);
                out.u32(*number);
            }
            Self::Renew { number } => {
                out.u8(36);
                out.u32(*number);
            }
            Self::Standing { id, standing } => {
                out.u8(LAST);
                out.u64(*id);
                encode_standing(standing, out);
            }
        }
    }

    pub(super) fn decode(kind: u8, from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            FIRST => Self::AuthorityAdd {
                number: from.u32()?,
                certificate: from.octets(CERTIFICATE_OCTETS_MAX)?.to_vec(),
                key: Sealed::decode(from, AUTHORITY_KEY_OCTETS_MAX)?,
            },
            34 => Self::AuthorityUse { number: from.u32()? },
            35 => Self::AuthorityRemove { number: from.u32()? },
            36 => Self::Renew { number: from.u32()? },
            LAST => Self::Standing { id: from.u64()?, standing: decode_standing(from)? },
            _ => return Err(DecodeError::Unknown),
        })
    }
}

/// In entries and in checkpoints.
pub(crate) fn encode_standing(standing: &Standing, out: &mut Encoder) {
    out.u32(standing.accepts);
    out.u32(standing.issued_by);
    out.u32(standing.renewal);
    out.u64(standing.expires_s);
}

/// Reads what [`encode_standing`] wrote.
pub(crate) fn decode_standing(from: &mut Decoder<'_>) -> Result<Standing, DecodeError> {
    Ok(Standing { accepts: from.u32()?, issued_by: from.u32()?, renewal: from.u32()?, expires_s: from.u64()? })
}
