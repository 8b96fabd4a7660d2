//! The greeting of a connection, and frames.
//!
//! ```text
//!   dialler:  "catamaran-peer\0\x01"  kind(1)  from(8)  to(8)  boot_id(8)
//!   acceptor: "catamaran-peer\0\x01"  id(8)  boot_id(8)
//!   dialler:  ( length(4)  bytes(length) )*
//! ```
//! An acceptor id of 0 means that the dialler was removed from the cluster. An id with all bits set means that its key
//! is not the pinned one. In both cases the connection ends. Numbers are big-endian. The last byte of the magic is the
//! version of this format.
//!
//! Other kinds of connections, such as [`super::join`], continue with a message in JSON after the kind byte, and get a
//! message in return ([`request`]).

use super::{channel_byte, channel_from};
use crate::limits::{PEER_FRAME_BYTES_MAX, PEER_MESSAGE_BYTES_MAX};
use replica::io::{Channel, NodeId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAGIC: &[u8; 16] = b"catamaran-peer\0\x01";

/// The connection kind byte of a join request.
pub(super) const JOIN_KIND: u8 = 0xFF;
/// The connection kind byte of a request for a data key.
pub(super) const DATA_KEY_KIND: u8 = 0xFE;
/// The connection kind byte of a member check.
pub(super) const MEMBER_CHECK_KIND: u8 = 0xFD;
/// The connection kind byte of an announcement.
pub(super) const ANNOUNCE_KIND: u8 = 0xFC;
/// The connection kind byte of a request for parts of a log.
pub(super) const REPAIR_KIND: u8 = 0xFB;
/// The connection kind byte of the message that a cluster is superseded.
pub(super) const SUPERSEDE_KIND: u8 = 0xFA;

/// The greeting of a dialler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub(crate) channel: Channel,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) boot_id: u64,
}

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Greeting {
    /// A channel of a member.
    Channel(Hello),
    /// A new node asks to join.
    Join,
    /// A member asks for a data key.
    DataKey,
    /// A member asks whether another node is a member.
    MemberCheck,
    /// A member announces its address.
    Announce,
    /// A member asks for parts of a log or checkpoint.
    Repair,
    /// Another cluster was made from a member of this cluster and announces that it replaces this cluster.
    Supersede,
}

/// The [`Welcome::id`] for a dialler whose key was replaced or is not its own. No node has an id with all bits set.
pub(crate) const KEY_REFUSED: NodeId = NodeId::MAX;

/// The [`Welcome::id`] for a dialler that was removed. No node has the id zero.
pub(crate) const REMOVED: NodeId = 0;

/// The reply of an acceptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Welcome {
    pub(crate) id: NodeId,
    pub(crate) boot_id: u64,
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

impl Hello {
    pub(crate) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(channel_byte(self.channel));
        for number in [self.from, self.to, self.boot_id] {
            bytes.extend(number.to_be_bytes());
        }
        to.write_all(&bytes).await?;
        to.flush().await
    }

    /// Reads the greeting of a dialler.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Greeting> {
        magic(from).await?;
        let channel = match from.read_u8().await? {
            JOIN_KIND => return Ok(Greeting::Join),
            DATA_KEY_KIND => return Ok(Greeting::DataKey),
            MEMBER_CHECK_KIND => return Ok(Greeting::MemberCheck),
            ANNOUNCE_KIND => return Ok(Greeting::Announce),
            REPAIR_KIND => return Ok(Greeting::Repair),
            SUPERSEDE_KIND => return Ok(Greeting::Supersede),
            byte => channel_from(byte).ok_or_else(|| invalid("unknown kind of connection"))?,
        };
        Ok(Greeting::Channel(Self {
            channel,
            from: from.read_u64().await?,
            to: from.read_u64().await?,
            boot_id: from.read_u64().await?,
        }))
    }
}

impl Welcome {
    pub(crate) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.boot_id.to_be_bytes());
        to.write_all(&bytes).await?;
        to.flush().await
    }

    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        magic(from).await?;
        Ok(Self { id: from.read_u64().await?, boot_id: from.read_u64().await? })
    }
}

async fn magic(from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut bytes = [0; MAGIC.len()];
    from.read_exact(&mut bytes).await?;
    if bytes == *MAGIC { Ok(()) } else { Err(invalid("not a peer, or another version of the protocol")) }
}

/// Reads the length of the next frame, and checks it before any allocation. `None` if the stream ends between frames.
pub(crate) async fn read_len(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<usize>> {
    let mut bytes = [0; 4];
    if from.read(&mut bytes[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut bytes[1..]).await?;
    let len = u32::from_be_bytes(bytes) as usize;
    if len == 0 || len > PEER_FRAME_BYTES_MAX {
        return Err(invalid("invalid frame length"));
    }
    Ok(Some(len))
}

/// Appends a frame with its length.
pub(crate) fn append(frame: &[u8], to: &mut Vec<u8>) {
    assert!(!frame.is_empty() && frame.len() <= PEER_FRAME_BYTES_MAX);
    to.extend((frame.len() as u32).to_be_bytes());
    to.extend(frame);
}

/// Sends one message on a new connection of this kind, and reads the reply.
pub(super) async fn request<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    kind: u8,
    message: &impl Serialize,
) -> io::Result<T> {
    stream.write_all(MAGIC).await?;
    stream.write_u8(kind).await?;
    write_message(stream, message).await?;
    read_message(stream).await
}

/// Reads a message in JSON.
pub(super) async fn read_message<T: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin)) -> io::Result<T> {
    read_message_at_most(from, PEER_MESSAGE_BYTES_MAX).await
}

pub(super) async fn read_message_at_most<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> io::Result<T> {
    let len = read_len(from).await?.filter(|len| *len <= bytes_max);
    let mut bytes = vec![0; len.ok_or(io::ErrorKind::InvalidData)?];
    from.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Writes a message in JSON.
pub(super) async fn write_message(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut bytes = Vec::new();
    append(&serde_json::to_vec(message)?, &mut bytes);
    to.write_all(&bytes).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn greetings_read_as_written() {
        block(async {
            for channel in [Channel::Heartbeat, Channel::Normal, Channel::Bulk] {
                let hello = Hello { channel, from: 1 << 32 | 2, to: 3, boot_id: u64::MAX };
                let mut bytes = Vec::new();
                hello.write(&mut bytes).await.unwrap();
                assert_eq!(Hello::read(&mut &bytes[..]).await.unwrap(), Greeting::Channel(hello));
                for end in 0..bytes.len() {
                    assert!(Hello::read(&mut &bytes[..end]).await.is_err());
                }
                bytes[15] = 2;
                assert!(Hello::read(&mut &bytes[..]).await.is_err());
                bytes[15] = 1;
                bytes[16] = 3;
                assert!(Hello::read(&mut &bytes[..]).await.is_err());
            }
            let welcome = Welcome { id: 7, boot_id: 8 };
            let mut bytes = Vec::new();
            welcome.write(&mut bytes).await.unwrap();
            assert_eq!(Welcome::read(&mut &bytes[..]).await.unwrap(), welcome);
        });
    }

    #[test]
    fn lengths_are_bounded() {
        block(async {
            let mut bytes = Vec::new();
            append(b"abc", &mut bytes);
            assert_eq!(read_len(&mut &bytes[..]).await.unwrap(), Some(3));
            assert_eq!(read_len(&mut &b""[..]).await.unwrap(), None);
            for bad in [&[0, 0, 0, 0][..], &[0xFF; 4], &[0, 0, 0], &((PEER_FRAME_BYTES_MAX as u32 + 1).to_be_bytes())] {
                assert!(read_len(&mut &bad[..]).await.is_err());
            }
        });
    }
}
