//! What a replica tells its shell about the CAs and certificates that members know each other by.

use crate::io::{Member, NodeId, Standing};
use crate::limits::TOKEN_ID_BYTES;
use crate::replica::Replica;
use crate::state::ca_context;
use core::fmt;
use std::collections::BTreeMap;

/// What members know each other by, as far as this replica has applied it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The feature level of the cluster: below 2 there is no CA in its state.
    pub feature_level: u32,
    /// All members, by id.
    pub members: Vec<Member>,
    /// The number of the data key that seals.
    pub data_key: u32,
    /// The one that is to, and its digest.
    pub next_data_key: Option<(u32, [u8; 32])>,
    /// A member is gone that had the one in use.
    pub data_key_is_due: bool,
    /// An older one sealed something that is not sealed anew yet.
    pub is_sealed_before: bool,
    /// The CAs whose certificates are accepted, by number.
    pub cas: Vec<Ca>,
    /// The number of the one that issues; zero while there is none.
    pub issuer: u32,
    /// The last order to renew certificates.
    pub renewal: u32,
    /// When the last entry was evaluated, in milliseconds since 1970.
    pub time_ms: u64,
    /// What members said of themselves.
    pub standings: BTreeMap<NodeId, Standing>,
    /// The keys that each member may show in its certificate, as SHA-256 of SubjectPublicKeyInfo: the one in use, and
    /// the next while it renews. A member that is not here has registered none yet.
    pub pins: BTreeMap<NodeId, Vec<[u8; 32]>>,
    /// The version of the pins that every member is to have seen, while one of them has a next key.
    pub pins_wanted: Option<u32>,
    /// The members that have not seen it.
    pub pins_unseen_by: Vec<NodeId>,
    /// The members whose next key every member has seen: they may show it.
    pub next_pins_seen: Vec<NodeId>,
    /// The join tokens that are neither used up nor revoked. An expired token may still be listed.
    pub join_tokens: Vec<JoinTokenStatus>,
}

/// A join token without its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinTokenStatus {
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// Milliseconds since 1970 after which it is void.
    pub expires_wall_ms: u64,
    /// Whether the joining member stays a learner.
    pub is_learner: bool,
}

/// The id of a join token: the first bytes of its digest. A token is 32 random bytes, so the digest does not reveal it.
#[must_use]
pub fn token_id(digest: &[u8; 32]) -> String {
    digest[..TOKEN_ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One CA.
#[derive(Clone, PartialEq, Eq)]
pub struct Ca {
    /// Its number.
    pub number: u32,
    /// Its own certificate, DER.
    pub certificate: Vec<u8>,
    /// Its private key (PKCS #8), opened; `None` when no data key of this replica opens it.
    pub key: Option<Vec<u8>>,
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ca({}, {})", self.number, if self.key.is_some() { "opened" } else { "closed" })
    }
}

impl Trust {
    /// The CA that issues.
    #[must_use]
    pub fn issuing(&self) -> Option<&Ca> {
        self.cas.iter().find(|ca| ca.number == self.issuer)
    }
}

impl Replica {
    /// What members know each other by. Asked for again after
    /// [`Output::TrustChanged`](crate::io::Output::TrustChanged).
    #[must_use]
    pub fn trust(&self) -> Trust {
        let settings = &self.machine.settings;
        let trust = settings.trust();
        let cas = trust.cas().iter().map(|(&number, ca)| Ca {
            number,
            certificate: ca.certificate.clone(),
            key: self.config.data_key.open(&ca.key, &ca_context(number)).map(|key| key.to_vec()),
        });
        let ids = || settings.members().into_iter().map(|member| member.id);
        let wanted = trust.pins().wanted().unwrap_or(0);
        let unseen_by = ids().filter(|&id| trust.pins().seen_by(id) < wanted);
        let next_seen = ids().filter(|&id| trust.pins().is_next_seen(id, ids()));
        Trust {
            feature_level: settings.feature_level(),
            members: settings.members(),
            data_key: settings.data_key().current,
            next_data_key: settings.data_key().next,
            data_key_is_due: settings.data_key().is_due,
            is_sealed_before: settings.sealed_before().next().is_some(),
            cas: cas.collect(),
            issuer: trust.issuer(),
            renewal: trust.renewal(),
            time_ms: self.machine.time_ms,
            standings: trust.standings().clone(),
            pins: trust.pins().by_member().collect(),
            pins_wanted: trust.pins().wanted(),
            pins_unseen_by: unseen_by.collect(),
            next_pins_seen: next_seen.collect(),
            join_tokens: settings.open_tokens().collect(),
        }
    }
}
