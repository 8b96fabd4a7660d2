//! Output for the shell about CAs and certificates of the members.

use crate::io::{CredentialProgress, Member, NodeId};
use crate::state::JoinTokenStatus;
use core::fmt;
use std::collections::BTreeMap;

/// The trust between members, as far as this replica has applied it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The feature level of the cluster: below 2 there is no CA in its state.
    pub feature_level: u32,
    /// All members, by id.
    pub members: Vec<Member>,
    /// The number of the data key that seals secrets.
    pub data_key: u32,
    /// The number and digest of the next data key.
    pub next_data_key: Option<(u32, [u8; 32])>,
    /// A member that had the current data key was removed.
    pub data_key_is_due: bool,
    /// An older key sealed a secret that is not resealed yet.
    pub is_sealed_before: bool,
    /// The CAs whose certificates are accepted, by number.
    pub cas: Vec<Ca>,
    /// The number of the CA that issues certificates; zero while there is none.
    pub issuer: u32,
    /// The last order to renew certificates.
    pub renewal: u32,
    /// The time of the last applied entry, in milliseconds since 1970.
    pub time_ms: u64,
    /// The members' reports.
    pub credentials: BTreeMap<NodeId, CredentialProgress>,
    /// The keys that each member may use in its certificate, as SHA-256 of SubjectPublicKeyInfo: the present one, and
    /// the next during a renewal. A member without an entry has registered none yet.
    pub pins: BTreeMap<NodeId, Vec<[u8; 32]>>,
    /// The version of the pins that every member must have seen, while a member has a next key.
    pub pins_wanted: Option<u32>,
    /// The members that have not seen it.
    pub pins_unseen_by: Vec<NodeId>,
    /// The members whose next key every member has seen, so they may use it.
    pub next_pins_seen: Vec<NodeId>,
    /// The join tokens that are neither used nor revoked. An expired token may still be listed.
    pub join_tokens: Vec<JoinTokenStatus>,
}

/// One CA.
#[derive(Clone, PartialEq, Eq)]
pub struct Ca {
    /// Its number.
    pub number: u32,
    /// Its own certificate, DER.
    pub certificate: Vec<u8>,
    /// Its private key (PKCS #8), decrypted; `None` if no data key of this replica opens it.
    pub key: Option<Vec<u8>>,
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ca({}, {})", self.number, if self.key.is_some() { "opened" } else { "closed" })
    }
}

impl Trust {
    /// The CA that issues certificates.
    #[must_use]
    pub fn issuing(&self) -> Option<&Ca> {
        self.cas.iter().find(|ca| ca.number == self.issuer)
    }
}
