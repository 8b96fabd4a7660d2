//! Asks other members whether an unknown id is a member. A node that was away, or has just joined, does not know the
//! members added since, and one of them may be the leader.
//!
//! ```text
//!   client:  "catamaran-peer\0\x01"  0xFD  length(4)  MemberCheckRequest (JSON)
//!   member:  length(4)  Result<MemberCheckReply, reason> (JSON)
//! ```

use super::admission::{Admission, Refusal};
use super::frame::{MEMBER_CHECK_KIND, read_message, request, write_message};
use super::resolve::connect_to_known_member;
use crate::limits::MEMBER_CHECK_MS;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::CurrentTls;
use replica::io::{Member, NodeId};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::server::TlsStream;

#[derive(Debug, Serialize, Deserialize)]
struct MemberCheckRequest {
    /// The raft id of the node that asks.
    from: NodeId,
    /// The raft id to check.
    about: NodeId,
    /// The names in the certificate that was shown, and the pin of its key.
    names: Vec<String>,
    pin: String,
}

/// What a member knows about an id and its certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MemberCheckReply {
    /// It is a member with this address.
    Member {
        address: String,
    },
    Refused,
    Unknown,
}

/// Answers a member that asks.
pub(super) async fn serve(
    stream: &mut TlsStream<TcpStream>,
    admission: &Admission,
    own: NodeId,
    client: &PeerIdentity,
) -> io::Result<()> {
    let request: MemberCheckRequest = read_message(stream).await?;
    let result = match admission.check(request.from, client) {
        Ok(()) if !admission.has_state() => Ok(MemberCheckReply::Unknown),
        Ok(()) => Ok(find(&request, admission, own)),
        Err(refusal) => Err(refusal.to_string()),
    };
    write_message(stream, &result).await
}

fn find(request: &MemberCheckRequest, admission: &Admission, own: NodeId) -> MemberCheckReply {
    let pin = data_encoding::HEXLOWER.decode(request.pin.as_bytes()).ok().and_then(|pin| pin.try_into().ok());
    let Some(pin) = pin.filter(|_| request.about != own) else { return MemberCheckReply::Refused };
    match admission.check(request.about, &PeerIdentity::claimed(request.names.clone(), pin)) {
        Ok(()) => admission
            .address_of(request.about)
            .map_or(MemberCheckReply::Unknown, |address| MemberCheckReply::Member { address }),
        Err(Refusal::Unknown) => MemberCheckReply::Unknown,
        Err(_) => MemberCheckReply::Refused,
    }
}

/// Asks all known members in parallel, and returns the address of the node. `None` after a single refusal: a member
/// that is behind may still count a removed member.
pub(super) async fn ask_all(
    tls: &CurrentTls,
    own: NodeId,
    admission: &Admission,
    about: NodeId,
    identity: &PeerIdentity,
) -> Option<String> {
    let others = admission.members().into_iter().filter(|member| member.id != own && member.id != about);
    let mut replies = tokio::task::JoinSet::new();
    for member in others {
        let request = MemberCheckRequest {
            from: own,
            about,
            names: identity.all_names().to_vec(),
            pin: data_encoding::HEXLOWER.encode(&identity.pin),
        };
        let (client, admission) = (tls.get().client, admission.clone());
        replies.spawn(async move {
            let limit = Duration::from_millis(MEMBER_CHECK_MS);
            let answer = tokio::time::timeout(limit, ask(client, &admission, &member, &request));
            answer.await.ok().and_then(Result::ok)
        });
    }
    let mut found = None;
    while let Some(answer) = replies.join_next().await {
        match answer.ok().flatten() {
            Some(MemberCheckReply::Refused) => return None,
            Some(MemberCheckReply::Member { address }) => found = Some(address),
            Some(MemberCheckReply::Unknown) | None => {}
        }
    }
    found
}

async fn ask(
    client: Arc<ClientConfig>,
    admission: &Admission,
    member: &Member,
    message: &MemberCheckRequest,
) -> io::Result<MemberCheckReply> {
    let mut stream = connect_to_known_member(member, client, admission).await?;
    let reply = request::<Result<MemberCheckReply, String>>(&mut stream, MEMBER_CHECK_KIND, message).await?;
    reply.map_err(io::Error::other)
}
