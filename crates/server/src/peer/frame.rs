//! The greeting of a connection, and frames.
//!
//! ```text
//!   dialler:  "catamaran-peer\0\x01"  kind(1)  from(8)  to(8)  boot_id(8)
//!   acceptor: "catamaran-peer\0\x01"  id(8)  boot_id(8)
//!   dialler:  ( length(4)  bytes(length) )*
//! ```
//! An acceptor id of 0 means that the dialler was removed from the cluster. An id with all bits set means that its key
//! is not the pinned one. In both cases the connection ends. Numbers are big-endian. Other kinds of connections, such
//! as [`super::join`], continue differently after the kind byte. The last byte of the magic is the version of this
//! format.

use super::{channel_byte, channel_from};
use crate::limits::PEER_FRAME_BYTES_MAX;
use replica::io::{Channel, NodeId};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAGIC: &[u8; 16] = b"catamaran-peer\0\x01";

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

/// Stands for [`Welcome::id`] when the dialler's key was replaced, or is not its own: no id of a node has all bits set.
pub(crate) const KEY_REFUSED: NodeId = NodeId::MAX;

/// Stands for [`Welcome::id`] when the dialler was removed: ids of nodes are never zero.
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
            super::join::JOIN_KIND => return Ok(Greeting::Join),
            super::data_keys::DATA_KEY_KIND => return Ok(Greeting::DataKey),
            super::member_check::MEMBER_CHECK_KIND => return Ok(Greeting::MemberCheck),
            super::announce::ANNOUNCE_KIND => return Ok(Greeting::Announce),
            super::repair::REPAIR_KIND => return Ok(Greeting::Repair),
            super::supersede::SUPERSEDE_KIND => return Ok(Greeting::Supersede),
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

/// Writes the magic bytes.
pub(super) async fn write_magic(to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    to.write_all(MAGIC).await
}

async fn magic(from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut bytes = [0; MAGIC.len()];
    from.read_exact(&mut bytes).await?;
    if bytes == *MAGIC { Ok(()) } else { Err(invalid("not a peer, or another version of the protocol")) }
}

/// The length of the next frame, checked before anything is allocated; `None` where the stream ends between frames.
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
