//! Whether an id that this node has never heard of is a member's: a node that was away, or has just joined, does not
//! know the members added since, and one of them may lead. It asks the members that it knows.
//!
//! ```text
//!   asker:   "catamaran-peer\0\x01"  0xFD  length(4)  VouchRequest (JSON)
//!   member:  length(4)  Result<Vouched, reason> (JSON)
//! ```

use super::admission::{Admission, Refusal};
use super::join::{read, write};
use super::resolve::connect_to_member;
use crate::limits::PEER_VOUCH_MS;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::CurrentTls;
use replica::io::{Member, NodeId};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::server::TlsStream;

/// The byte in the place of a lane that asks about a member.
pub(super) const VOUCH_LANE: u8 = 0xFD;

#[derive(Debug, Serialize, Deserialize)]
struct VouchRequest {
    /// The raft id of the node that asks.
    from: NodeId,
    /// The raft id that it is told.
    about: NodeId,
    /// The certificate that it is shown: the names and the pin of the key.
    names: Vec<String>,
    pin: String,
}

/// What a member knows of an id and its certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Vouched {
    /// A member, and where its peers connect to it.
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
    asker: &PeerIdentity,
) -> io::Result<()> {
    let request: VouchRequest = read(stream).await?;
    let result = match admission.check(request.from, asker) {
        Ok(()) if !admission.has_state() => Ok(Vouched::Unknown),
        Ok(()) => Ok(find(&request, admission, own)),
        Err(refusal) => Err(refusal.to_string()),
    };
    write(stream, &result).await
}

fn find(request: &VouchRequest, admission: &Admission, own: NodeId) -> Vouched {
    let pin = data_encoding::HEXLOWER.decode(request.pin.as_bytes()).ok().and_then(|pin| pin.try_into().ok());
    let Some(pin) = pin.filter(|_| request.about != own) else { return Vouched::Refused };
    match admission.check(request.about, &PeerIdentity::claimed(request.names.clone(), pin)) {
        Ok(()) => admission.address_of(request.about).map_or(Vouched::Unknown, |address| Vouched::Member { address }),
        Err(Refusal::Unknown) => Vouched::Unknown,
        Err(_) => Vouched::Refused,
    }
}

/// Asks all members that this node knows, side by side. One that knows better refuses for all: a member that is behind
/// itself may still count a member that was removed. Gives where to reach it.
pub(super) async fn ask_all(
    tls: &CurrentTls,
    own: NodeId,
    admission: &Admission,
    about: NodeId,
    identity: &PeerIdentity,
) -> Option<String> {
    let others = admission.members().into_iter().filter(|member| member.id != own && member.id != about);
    let mut asked = tokio::task::JoinSet::new();
    for member in others {
        let request = VouchRequest {
            from: own,
            about,
            names: identity.all_names().to_vec(),
            pin: data_encoding::HEXLOWER.encode(&identity.pin),
        };
        let (client, admission) = (tls.get().client, admission.clone());
        asked.spawn(async move {
            let limit = Duration::from_millis(PEER_VOUCH_MS);
            let answer = tokio::time::timeout(limit, ask(client, &admission, &member, &request));
            answer.await.ok().and_then(Result::ok)
        });
    }
    let mut found = None;
    while let Some(answer) = asked.join_next().await {
        match answer.ok().flatten() {
            Some(Vouched::Refused) => return None,
            Some(Vouched::Member { address }) => found = Some(address),
            Some(Vouched::Unknown) | None => {}
        }
    }
    found
}

async fn ask(
    client: Arc<ClientConfig>,
    admission: &Admission,
    member: &Member,
    request: &VouchRequest,
) -> io::Result<Vouched> {
    let mut stream = connect_to_member(&member.address, member.id, client, admission).await?;
    super::frame::write_magic(&mut stream).await?;
    stream.write_u8(VOUCH_LANE).await?;
    write(&mut stream, request).await?;
    read::<Result<Vouched, String>>(&mut stream).await?.map_err(io::Error::other)
}
