//! A member fetches a data key that another member created over TLS, from any member that has it. Data keys never go
//! through the log.
//!
//! ```text
//!   client:  "catamaran-peer\0\x01"  0xFE  length(4)  KeyRequest (JSON)
//!   member:  length(4)  Result<the key in base64, reason> (JSON)
//! ```

use super::admission::Admission;
use super::frame::{DATA_KEY_KIND, read_message, request, write_message};
use super::resolve::connect_to_known_member;
use crate::limits::PEER_HANDSHAKE_MS;
use crate::replica_host::handle::ReplicaHandle;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::CurrentTls;
use config::files::data_key::{self, DataKeyFile, Key};
use replica::io::{Member, NodeId};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

#[derive(Debug, Serialize, Deserialize)]
struct KeyRequest {
    /// The raft id of the node that asks.
    from: NodeId,
    number: u32,
}

/// The answering side.
pub(crate) struct DataKeyHandler {
    pub(crate) handle: ReplicaHandle,
    pub(crate) data_key_file: DataKeyFile,
    /// The directory of the log and the checkpoints.
    pub(crate) data_dir: std::path::PathBuf,
}

impl DataKeyHandler {
    /// Answers one member, whose TLS identity is `identity`.
    pub(super) async fn serve(
        &self,
        stream: &mut TlsStream<TcpStream>,
        admission: &Admission,
        identity: &PeerIdentity,
    ) -> io::Result<()> {
        let request: KeyRequest = read_message(stream).await?;
        let result = self.find(&request, admission, identity);
        write_message(stream, &result).await
    }

    fn find(&self, request: &KeyRequest, admission: &Admission, identity: &PeerIdentity) -> Result<String, String> {
        if !admission.has_state() {
            return Err("this node has just joined".into());
        }
        admission.check(request.from, identity).map_err(|refusal| format!("{}: {refusal}", request.from))?;
        let trust = self.handle.shared().trust.borrow().clone();
        // A number that the cluster does not know yet could be used after the node was removed.
        if request.number > trust.next_data_key.map_or(trust.data_key, |(next, _)| next) {
            return Err("the cluster has no such key".into());
        }
        let loaded = self.data_key_file.load().map_err(|error| error.to_string())?;
        let keys = &loaded.keys;
        keys.get(&request.number)
            .map(|key| data_encoding::BASE64.encode(key))
            .ok_or_else(|| "this node does not have the key".into())
    }
}

/// Asks one member.
pub(crate) async fn ask(
    tls: &CurrentTls,
    admission: &Admission,
    own: NodeId,
    member: &Member,
    number: u32,
) -> Result<Key, String> {
    let exchange = async {
        let mut stream = connect_to_known_member(member, tls.get().client, admission).await?;
        request::<Result<String, String>>(&mut stream, DATA_KEY_KIND, &KeyRequest { from: own, number }).await
    };
    let answer = tokio::time::timeout(Duration::from_millis(PEER_HANDSHAKE_MS), exchange).await;
    let text = answer.map_err(|_| "no answer in time")?.map_err(|error: io::Error| error.to_string())??;
    data_key::from_base64(text.as_bytes()).ok_or_else(|| "the answer contains no key".into())
}
