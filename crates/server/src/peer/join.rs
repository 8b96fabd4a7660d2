//! How a new node joins a cluster. A single-use token authorizes it, and the CA certificate in the token authenticates
//! the member. The node gets its own certificate.
//!
//! ```text
//!   joiner:  "catamaran-peer\0\x01"  0xFF  length(4)  JoinRequest (JSON)
//!   member:  length(4)  Result<JoinGrant, reason> (JSON)
//! ```

use super::admission::Admission;
use super::frame::{JOIN_KIND, read_message_at_most, request, write_message};
use super::pending::PendingSlot;
use super::supersede::SupersededNode;
use crate::limits::{ADMIN_WAIT_MS, JOIN_REQUEST_BYTES_MAX, PEER_HANDSHAKE_MS};
use crate::replica_host::command_failed::CommandFailed;
use crate::replica_host::event::WithZones;
use crate::replica_host::handle::ReplicaHandle;
use crate::tls::accepted_cas::{PIN_LEVEL, ca_key_of, roots_text};
use crate::tls::ca::{Ca, NodeCertificate, to_pem};
use crate::tls::names::node_number;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session;
use config::address::PeerAddress;
use config::files::api_token::ApiToken;
use config::files::cluster_id;
use config::files::data_key::{DataKeyFile, Key};
use process::log_limit::untrusted;
use process::problem::{TOKEN_REFUSED, is_outcome_unknown, is_without_leader};
use process::warn_limited;
use replica::io::{AdminCommand, AdminReply, NodeId, TrustCommand};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// The contents of a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinToken {
    /// The CA's certificate, DER in base64. The joining node accepts only a server with a certificate of this CA.
    pub(crate) ca: String,
    /// The raft id of the member that made the token, and its address.
    pub(crate) member: u64,
    pub(crate) address: PeerAddress,
    pub(crate) secret: String,
}

/// The request of a joining node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JoinRequest {
    secret: String,
    /// The address for peers of the joining node.
    address: String,
    /// The highest feature level that its software knows. Software that does not send it knows the first.
    #[serde(default = "first_level")]
    feature_level: u32,
}

const fn first_level() -> u32 {
    1
}

/// Refuses software that does not know the feature level of the cluster: an entry might stop it at once.
fn level_refusal(known: u32, cluster: u32) -> Result<(), String> {
    if known >= cluster {
        return Ok(());
    }
    Err(format!("the cluster is at feature level {cluster}, the joining software knows {known}: upgrade it"))
}

/// The reply to a joining node.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct JoinGrant {
    /// Its raft id.
    pub(crate) id: u64,
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
    /// All CAs that are accepted.
    pub(crate) ca_pem: String,
    /// The id of the cluster in hexadecimal digits. Older software does not send it: then it is the digest of the CA.
    #[serde(default)]
    pub(crate) cluster_id: Option<String>,
    /// The current data key, in base64.
    pub(crate) data_key: String,
    /// All data keys with their numbers. Older software sends only the current one.
    #[serde(default)]
    pub(crate) data_keys: Vec<(u32, String)>,
    /// The secret from which the secrets of cookies and tickets are derived.
    #[serde(default)]
    pub(crate) clients: String,
    pub(crate) api_token: String,
    /// The raft id and address of all other members.
    pub(crate) members: Vec<(u64, String)>,
}

impl JoinToken {
    pub(crate) fn to_text(&self) -> String {
        data_encoding::BASE64URL_NOPAD.encode(&serde_json::to_vec(self).expect("plain strings and numbers are JSON"))
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let bytes = data_encoding::BASE64URL_NOPAD.decode(text.trim().as_bytes()).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// The digest of a token secret, which the cluster stores.
pub(crate) fn digest(secret: &str) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, secret.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The CA for the certificate of a joining node.
struct Issuer {
    ca: Ca,
    /// All CAs that are accepted.
    ca_pem: String,
    /// Whether nodes renew their certificates. Otherwise certificates never expire.
    is_renewed: bool,
}

/// The member's side.
pub(crate) struct JoinHandler {
    pub(crate) handle: ReplicaHandle,
    pub(crate) ca_cert: PathBuf,
    pub(crate) cluster_id: [u8; 16],
    pub(crate) data_key_file: DataKeyFile,
    pub(crate) api_token: ApiToken,
    /// This node, which exits when another cluster replaces its cluster.
    pub(crate) node: SupersededNode,
}

impl JoinHandler {
    /// Answers a joining node. The connection keeps its pending slot until the token is verified. The membership change
    /// then takes as long as an administrative command may.
    pub(super) async fn serve(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        admission: &Admission,
        joins: &Semaphore,
        (deadline, slot): (Instant, PendingSlot),
    ) -> io::Result<()> {
        let request =
            timeout_at(deadline, read_message_at_most::<JoinRequest>(stream, JOIN_REQUEST_BYTES_MAX)).await??;
        let result = match Self::check(&request, admission, joins) {
            Ok(_joining) => {
                drop(slot);
                let limit = Duration::from_millis(ADMIN_WAIT_MS + PEER_HANDSHAKE_MS);
                tokio::time::timeout(limit, self.admit(&request)).await?
            }
            Err(reason) => Err(reason),
        };
        if let Err(reason) = &result {
            warn_limited!(address = %untrusted(&request.address), reason, "refused a join request");
        }
        let deadline = deadline.max(Instant::now() + Duration::from_millis(PEER_HANDSHAKE_MS));
        timeout_at(deadline, write_message(stream, &result)).await?
    }

    /// Checks that need no leader: without a valid token, nothing is proposed.
    fn check<'s>(
        request: &JoinRequest,
        admission: &Admission,
        joins: &'s Semaphore,
    ) -> Result<SemaphorePermit<'s>, String> {
        if !admission.knows_token(&digest(&request.secret)) {
            return Err(TOKEN_REFUSED.into());
        }
        if request.address.parse::<PeerAddress>().is_err() {
            return Err("the address for peers must be HOST:PORT".into());
        }
        joins.try_acquire().map_err(|_| "other nodes are joining at the moment; try again".into())
    }

    /// The issuing CA, and all accepted CAs: from the cluster's state or, before the state has any, from the files of
    /// the node where the cluster was created.
    fn issuer(&self) -> Result<Issuer, String> {
        let failed = |error: io::Error| error.to_string();
        let trust = self.handle.shared().trust.borrow().clone();
        if let Some(issuing) = trust.issuing() {
            let key = issuing.key.as_ref().ok_or("this node cannot open the key of the cluster's CA")?;
            let ca = Ca::from_der(&issuing.certificate, key).map_err(failed)?;
            return Ok(Issuer { ca, ca_pem: roots_text(&trust), is_renewed: true });
        }
        let key = ca_key_of(&self.ca_cert);
        if !key.exists() {
            return Err("this node does not hold the key of the cluster's CA".into());
        }
        let ca = Ca::load_or_make(&self.ca_cert, &key).map_err(failed)?;
        let ca_pem = to_pem(&ca.cert_der());
        Ok(Issuer { ca, ca_pem, is_renewed: false })
    }

    /// Pins the key of the new member before the member gets the key. So no other node can register its own key.
    async fn pin(&self, id: NodeId, issued: &NodeCertificate) -> Result<(), String> {
        if self.handle.shared().trust.borrow().feature_level < PIN_LEVEL {
            return Ok(());
        }
        let cert = CertificateDer::from_pem_slice(issued.cert_pem.as_bytes()).map_err(|error| error.to_string())?;
        let identity = PeerIdentity::of(Some(&[cert])).ok_or("the certificate that was issued cannot be read")?;
        let command = AdminCommand::Trust(TrustCommand::AddPin { id, pin: identity.pin });
        self.handle.admin(command).await.map(|_| ()).map_err(|error| CommandFailed::from(error).error.to_owned())
    }

    async fn admit(&self, request: &JoinRequest) -> Result<JoinGrant, String> {
        let Issuer { ca, ca_pem, is_renewed } = self.issuer()?;
        let stopping = "the node is stopping";
        // This check comes before the token is used up.
        level_refusal(request.feature_level, self.handle.status(WithZones::No).await.ok_or(stopping)?.feature_level)?;
        let command = AdminCommand::Join { digest: digest(&request.secret), address: request.address.clone() };
        let reply = self.handle.admin(command).await;
        let AdminReply::Joined { id } = reply.map_err(|error| CommandFailed::from(error).error.to_owned())? else {
            return Err("the cluster assigned no id".into());
        };
        let failed = |error: io::Error| error.to_string();
        let now_s = self.handle.shared().clock.now_s();
        let issued = if is_renewed { ca.issue_at(id, now_s) } else { ca.issue_without_end(id) };
        let issued = issued.map_err(failed)?;
        if let Err(why) = self.pin(id, &issued).await {
            // A member without a pinned key must not stay: any node with the CA's key could impersonate it.
            let _ = self.handle.admin(AdminCommand::RemoveNode { id }).await;
            return Err(why);
        }
        let keys = self.data_key_file.load().map_err(failed)?;
        let current = self.handle.shared().trust.borrow().data_key;
        let base64 = |key: &Key| data_encoding::BASE64.encode(key);
        let members = self.handle.status(WithZones::No).await.ok_or(stopping)?.members;
        Ok(JoinGrant {
            id,
            cert_pem: issued.cert_pem,
            key_pem: issued.key_pem,
            ca_pem,
            cluster_id: Some(cluster_id::to_text(self.cluster_id)),
            data_key: keys.keys.get(&current).map(base64).ok_or("this node does not hold the data key")?,
            data_keys: keys.keys.iter().map(|(number, key)| (*number, base64(key))).collect(),
            clients: base64(&keys.clients),
            api_token: self.api_token.reveal(),
            members: members
                .into_iter()
                .map(|of| of.member)
                .filter(|member| member.id != id)
                .map(|member| (member.id, member.address))
                .collect(),
        })
    }
}

/// Why a node did not join.
#[derive(Debug)]
pub(crate) enum NotJoined {
    /// No answer, or no leader: the token remains valid.
    Unreachable(String),
    /// The cluster refuses, or the token is damaged.
    Refused(String),
    /// The outcome is unknown.
    Unknown(String),
}

/// The joiner's side. `wait` covers the change of membership.
///
/// # Errors
/// Why there is no grant.
pub(crate) async fn ask(token: &JoinToken, own_address: &PeerAddress, wait: Duration) -> Result<JoinGrant, NotJoined> {
    use NotJoined::{Refused, Unknown, Unreachable};
    let failed = |error: io::Error| format!("{}: {error}", token.address);
    let damaged = |why: &str| Refused(format!("the token is damaged{why}"));
    let ca = data_encoding::BASE64.decode(token.ca.as_bytes()).map_err(|_| damaged(""))?;
    let client = session::joiner(CertificateDer::from(ca)).map_err(|error| damaged(&format!(": {error}")))?;
    let limit = Duration::from_millis(PEER_HANDSHAKE_MS);
    let connect = async {
        let stream = super::resolve::connect(&token.address.to_string()).await?;
        let name = session::server_name(node_number(token.member));
        tokio_rustls::TlsConnector::from(client).connect(name, stream).await
    };
    let late = |_| format!("{}: no answer in time", token.address);
    let connected = tokio::time::timeout(limit, connect).await.map_err(|elapsed| Unreachable(late(elapsed)))?;
    let mut stream = connected.map_err(|error| {
        let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if !matches!(of_tls, Some(rustls::Error::InvalidCertificate(_))) {
            return Unreachable(failed(error));
        }
        Refused(format!(
            "{}: the server does not belong to the cluster that made the token, or the cluster has replaced its CA \
             since ({error})",
            token.address,
        ))
    })?;
    let message = JoinRequest {
        secret: token.secret.clone(),
        address: own_address.to_string(),
        feature_level: replica::peer::FEATURE_LEVEL,
    };
    let reply =
        tokio::time::timeout(wait, request::<Result<JoinGrant, String>>(&mut stream, JOIN_KIND, &message)).await;
    let reply = reply.map_err(|elapsed| Unknown(late(elapsed)))?;
    reply.map_err(|error| Unknown(failed(error)))?.map_err(|reason| match &*reason {
        text if is_without_leader(text) => Unreachable(reason),
        text if is_outcome_unknown(text) => Unknown(reason),
        _ => Refused(reason),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_text_and_back() {
        let token =
            JoinToken { ca: "AAAA".into(), member: 1, address: "127.0.0.1:5380".parse().unwrap(), secret: "s".into() };
        let text = token.to_text();
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        assert!(JoinToken::from_text(&format!(" {text}\n")) == Some(token));
        assert!(JoinToken::from_text(&text[1..]).is_none());
        assert!(JoinToken::from_text("").is_none());
    }

    #[test]
    fn software_below_the_level_of_the_cluster_does_not_join() {
        assert_eq!(level_refusal(2, 2), Ok(()));
        assert_eq!(level_refusal(3, 2), Ok(()));
        let refused = level_refusal(1, 2).unwrap_err();
        assert!(refused.contains("feature level 2") && refused.contains("knows 1"), "{refused}");
        let old: JoinRequest = serde_json::from_str(r#"{"secret":"s","address":"a"}"#).unwrap();
        assert_eq!(old.feature_level, 1);
    }
}
