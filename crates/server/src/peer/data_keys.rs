//! How a member gets a data key that another one created: over TLS, from any member that has it, and not through the
//! log.
//!
//! ```text
//!   client:  "catamaran-peer\0\x01"  0xFE  length(4)  KeyRequest (JSON)
//!   member:  length(4)  Result<the key in base64, reason> (JSON)
//! ```

use super::admission::Admission;
use super::join::{read, write};
use super::resolve::connect_to_member;
use crate::files::data_key::{self, DataKeyFile, Key};
use crate::limits::PEER_HANDSHAKE_MS;
use crate::node::handle::ReplicaHandle;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::CurrentTls;
use replica::io::{Member, NodeId};
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// The connection kind byte of a request for a data key.
pub(super) const DATA_KEY_KIND: u8 = 0xFE;

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
        let request: KeyRequest = read(stream).await?;
        let result = self.find(&request, admission, identity);
        write(stream, &result).await
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
        let mut stream = connect_to_member(&member.address, member.id, tls.get().client, admission).await?;
        super::frame::write_magic(&mut stream).await?;
        stream.write_u8(DATA_KEY_KIND).await?;
        write(&mut stream, &KeyRequest { from: own, number }).await?;
        read::<Result<String, String>>(&mut stream).await
    };
    let answer = tokio::time::timeout(Duration::from_millis(PEER_HANDSHAKE_MS), exchange).await;
    let text = answer.map_err(|_| "no answer in time")?.map_err(|error: io::Error| error.to_string())??;
    data_key::from_base64(text.as_bytes()).ok_or_else(|| "the answer contains no key".into())
}
