//! This node's data for join tokens.

use crate::peer::join::JoinToken;
use crate::tls::accepted_cas::ca_key_of;
use crate::tls::session::CurrentTls;
use config::address::PeerAddress;
use replica::Trust;
use std::path::PathBuf;
use std::sync::Arc;

/// This node's data for a join token.
pub(crate) struct JoinOffer {
    /// Its raft id and address.
    pub(crate) member: u64,
    pub(crate) address: Option<PeerAddress>,
    /// File of the first CA.
    pub(crate) ca_file: PathBuf,
    /// The node's current certificate and CA.
    pub(crate) tls: Option<Arc<CurrentTls>>,
}

impl JoinOffer {
    /// A token with this secret; `None` on a node that cannot issue certificates.
    pub(super) fn token(&self, trust: &Trust, secret: &str) -> Option<JoinToken> {
        let is_issuer = trust.issuing().is_some_and(|issuing| issuing.key.is_some());
        let root = self.tls.as_ref()?.get().own_root()?.clone();
        let in_state = || trust.members.iter().find(|member| member.id == self.member)?.address.parse().ok();
        let address = self.address.clone().or_else(in_state)?;
        (is_issuer || ca_key_of(&self.ca_file).exists()).then(|| JoinToken {
            ca: data_encoding::BASE64.encode(&root),
            member: self.member,
            address,
            secret: secret.to_owned(),
        })
    }
}
