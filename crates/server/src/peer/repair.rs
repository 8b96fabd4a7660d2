//! Sends parts of a damaged log or checkpoint from member to member.
//!
//! ```text
//!   client:  "catamaran-peer\0\x01"  0xFB  length(4)  RepairRequest (JSON)
//!   member:  length(4)  Result<null, reason> (JSON)
//!   client:  ( length(4)  kind(1)  question )*
//!   member:  to 1, entries:       length(4)  the answer of `replica::log`
//!            to 2, a checkpoint:  length(4)  size of the file (8), zero if there is none
//!                                 ( length(4)  a part of the file )*
//! ```
//!
//! Running nodes answer, and so do nodes under repair: each sends the intact data on its disk. Older software closes
//! the connection.

use super::admission::Admission;
use super::frame::{Greeting, Hello, REPAIR_KIND, append, read_len, read_message, request, write_message};
use super::keepalive;
use super::pending::{Pending, PendingSlot};
use super::resolve::connect_to_known_member;
use crate::limits::{
    PEER_HANDSHAKE_MS, REPAIR_CHECKPOINT_BYTES_MAX, REPAIR_IDLE_MS, REPAIR_PART_BYTES, REPAIR_SESSIONS_MAX,
};
use crate::listen::connection_table::client_of;
use crate::replica_host::disk::StartReads;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::CurrentTls;
use replica::checkpoint::checkpoint_file;
use replica::io::{Member, NodeId};
use replica::log::{EntriesRequest, EntriesResponse, Salvage};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

const KIND_ENTRIES: u8 = 1;
const KIND_CHECKPOINT: u8 = 2;

#[derive(Debug, Serialize, Deserialize)]
struct RepairRequest {
    /// The raft id of the node that asks.
    from: NodeId,
}

/// The answering side.
#[derive(Clone)]
pub(crate) struct RepairHandler {
    dir: PathBuf,
    /// Limits the sessions, because each one reads the whole log.
    sessions: Arc<Semaphore>,
}

impl RepairHandler {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), sessions: Arc::new(Semaphore::new(REPAIR_SESSIONS_MAX)) }
    }

    /// Answers one member, whose TLS identity is `identity`.
    pub(super) async fn serve(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        admission: &Admission,
        identity: &PeerIdentity,
    ) -> io::Result<()> {
        let limit = Duration::from_millis(PEER_HANDSHAKE_MS);
        let request: RepairRequest = timeout(limit, read_message(stream)).await??;
        // Membership is checked first, so that another process cannot use up a session.
        let permit = match admission.check(request.from, identity) {
            Err(refusal) => Err(refusal.to_string()),
            Ok(()) => self.sessions.try_acquire().map_err(|_| "it is busy answering other nodes".to_owned()),
        };
        write_message(stream, &permit.as_ref().map(|_| ()).map_err(Clone::clone)).await?;
        let Ok(_permit) = permit else { return Ok(()) };
        let dir = self.dir.clone();
        let examined = spawn_blocking(move || Salvage::examine(&StartReads::new(&dir))).await?;
        let salvage = Arc::new(examined.map_err(io::Error::other)?);
        let idle = Duration::from_millis(REPAIR_IDLE_MS);
        while let Some(question) = timeout(idle, read_frame(stream)).await?? {
            timeout(idle, self.answer(stream, &salvage, &question)).await??;
        }
        Ok(())
    }

    async fn answer(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        salvage: &Arc<Salvage>,
        question: &[u8],
    ) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        match question.split_first().ok_or_else(invalid)? {
            (&KIND_ENTRIES, ask) => {
                let ask = EntriesRequest::decode(ask).map_err(|_| invalid())?;
                let (salvage, dir) = (salvage.clone(), self.dir.clone());
                let answer = spawn_blocking(move || salvage.answer(&StartReads::new(&dir), &ask)).await?;
                write_frame(stream, &answer.map_err(io::Error::other)?.encode()).await
            }
            (&KIND_CHECKPOINT, []) => self.send_checkpoint(stream, salvage).await,
            _ => Err(invalid()),
        }
    }

    async fn send_checkpoint(&self, stream: &mut (impl AsyncWrite + Unpin), salvage: &Salvage) -> io::Result<()> {
        let path = self.dir.join(checkpoint_file(&salvage.checkpoint()));
        // An open file stays complete, even after a newer checkpoint replaces it.
        let Ok(file) = File::open(path) else { return write_frame(stream, &[0; 8]).await };
        let bytes = file.metadata()?.len();
        let file = Arc::new(file);
        write_frame(stream, &bytes.to_be_bytes()).await?;
        let mut at = 0;
        while at < bytes {
            let (file, len) = (file.clone(), (bytes - at).min(REPAIR_PART_BYTES as u64));
            let read = move || {
                let mut part = vec![0; len as usize];
                file.read_exact_at(&mut part, at).map(|()| part)
            };
            write_frame(stream, &spawn_blocking(read).await??).await?;
            at += len;
        }
        Ok(())
    }
}

/// Serves only parts of logs and checkpoints, until the future is dropped. A node under repair runs this.
pub(crate) async fn listen(listener: TcpListener, tls: Arc<CurrentTls>, admission: Admission, handler: RepairHandler) {
    let pending = Pending::default();
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let slot = pending.enter(client_of(address.ip().to_canonical()));
        let ticket = slot.ticket();
        let (tls, admission, handler) = (tls.clone(), admission.clone(), handler.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = greet(stream, slot, &tls, &admission, &handler).await {
                tracing::debug!(%address, %error, "connection from a peer ended");
            }
        });
        pending.set_task(ticket, task.abort_handle());
    }
}

async fn greet(
    stream: TcpStream,
    slot: PendingSlot,
    tls: &CurrentTls,
    admission: &Admission,
    handler: &RepairHandler,
) -> io::Result<()> {
    keepalive::configure(&stream)?;
    let greeted = async {
        let mut stream = TlsAcceptor::from(tls.get().server).accept(stream).await?;
        let greeting = Hello::read(&mut stream).await?;
        io::Result::Ok((stream, greeting))
    };
    let (mut stream, greeting) = timeout(Duration::from_millis(PEER_HANDSHAKE_MS), greeted).await??;
    let identity = PeerIdentity::of(stream.get_ref().1.peer_certificates());
    match (greeting, identity) {
        (Greeting::Repair, Some(identity)) => {
            let (handler, admission) = (handler.clone(), admission.clone());
            drop(slot);
            // This is a separate task, because the connection task is aborted when its slot is needed.
            let serve = async move { handler.serve(&mut stream, &admission, &identity).await };
            tokio::spawn(serve).await.map_err(io::Error::other)?
        }
        _ => Ok(()),
    }
}

/// A connection to a member that answers.
pub(crate) struct Session {
    stream: tokio_rustls::client::TlsStream<TcpStream>,
}

impl Session {
    /// Connects to a member.
    ///
    /// # Errors
    /// [`io::Error`]: the member cannot be reached, closes the connection or refuses.
    pub(crate) async fn open(
        tls: &CurrentTls,
        admission: &Admission,
        own: NodeId,
        member: &Member,
    ) -> io::Result<Self> {
        let opened = async {
            let mut stream = connect_to_known_member(member, tls.get().client, admission).await?;
            let reply: Result<(), String> = request(&mut stream, REPAIR_KIND, &RepairRequest { from: own }).await?;
            reply.map_err(io::Error::other)?;
            Ok(Self { stream })
        };
        timeout(Duration::from_millis(PEER_HANDSHAKE_MS), opened).await?
    }

    /// Asks for entries.
    ///
    /// # Errors
    /// [`io::Error`]: the connection ended, or the answer cannot be read.
    pub(crate) async fn entries(&mut self, ask: &EntriesRequest) -> io::Result<EntriesResponse> {
        let mut question = vec![KIND_ENTRIES];
        question.extend(ask.encode());
        write_frame(&mut self.stream, &question).await?;
        let answer = self.frame().await?;
        EntriesResponse::decode(&answer, ask.first).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Fetches the member's checkpoint into a file. Returns whether the member has one.
    ///
    /// # Errors
    /// [`io::Error`]: the connection ended, or the file cannot be written.
    pub(crate) async fn checkpoint(&mut self, path: &Path) -> io::Result<bool> {
        write_frame(&mut self.stream, &[KIND_CHECKPOINT]).await?;
        let bytes = self.frame().await?.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let mut left = u64::from_be_bytes(bytes);
        if left == 0 || left > REPAIR_CHECKPOINT_BYTES_MAX {
            return Ok(false);
        }
        let mut file = File::create(path)?;
        while left > 0 {
            let part = self.frame().await?;
            left = left.checked_sub(part.len() as u64).ok_or(io::ErrorKind::InvalidData)?;
            file.write_all(&part)?;
        }
        file.sync_all()?;
        Ok(true)
    }

    async fn frame(&mut self) -> io::Result<Vec<u8>> {
        let frame = timeout(Duration::from_millis(REPAIR_IDLE_MS), read_frame(&mut self.stream)).await??;
        frame.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let Some(len) = read_len(from).await? else { return Ok(None) };
    let mut frame = vec![0; len];
    from.read_exact(&mut frame).await?;
    Ok(Some(frame))
}

async fn write_frame(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(frame.len() + 4);
    append(frame, &mut bytes);
    to.write_all(&bytes).await?;
    to.flush().await
}
