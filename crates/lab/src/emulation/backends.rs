//! Servers under test behind the addresses of a hierarchy, one for each level.

use crate::limits::{BACKEND_PORT, BACKEND_PORT_COUNT, BACKEND_TIMEOUT};
use hierarchy::Folder;
use hierarchy::serve::{Backend, Directory, Transport};
use sockets::frame;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Instant;
use testbed::{Kind, Peer, PeerError, ServedZone, Setup, start};
use wire::name::Name;
use wire::parse::FirstQuestion;

/// Running servers. They are stopped on drop.
pub struct Backends {
    peers: Vec<Peer>,
}

/// The address of the server of a level, in its namespace.
fn address(level: usize) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, BACKEND_PORT + BACKEND_PORT_COUNT * level as u16).into()
}

impl Backends {
    /// Starts a server for each level of a hierarchy in the namespace of the calling thread, and waits until each
    /// answers for its zones.
    ///
    /// # Errors
    /// If the folder cannot be read, or [`PeerError`] as an I/O error.
    pub fn start(kind: Kind, folder: &Path, directory: &Directory, out_folder: &Path) -> io::Result<Self> {
        // The servers run in their own folders.
        let (folder, out_folder) = (std::path::absolute(folder)?, std::path::absolute(out_folder)?);
        let mut levels: Vec<Vec<ServedZone>> = Vec::new();
        for entry in Folder::read(&folder)?.zones {
            let apex: Name = entry.name.parse().map_err(|_| io::ErrorKind::InvalidData)?;
            // `zones_above` counts the zone itself.
            let level = directory.zones_above(apex.as_ref()).saturating_sub(1);
            levels.resize_with(levels.len().max(level + 1), Vec::new);
            levels[level].push(ServedZone::new(entry.name, folder.join(entry.file)));
        }
        let run = |(level, zones): (usize, Vec<ServedZone>)| {
            let folder = out_folder.join(format!("level-{level}"));
            start(kind, &Setup::new(folder, address(level), zones))
        };
        let served = levels.into_iter().enumerate().filter(|(_, zones)| !zones.is_empty());
        let peers: Result<Vec<Peer>, PeerError> = served.map(run).collect();
        Ok(Self { peers: peers.map_err(io::Error::other)? })
    }

    /// The number of servers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.peers.len()
    }

    /// Whether all servers run.
    pub fn are_alive(&mut self) -> bool {
        self.peers.iter_mut().all(Peer::is_running)
    }
}

/// The sockets of one thread for these servers. They are opened on first use.
#[derive(Default)]
pub struct ToBackends {
    levels: Vec<Level>,
}

#[derive(Default)]
struct Level {
    datagrams: Option<UdpSocket>,
    stream: Option<TcpStream>,
}

impl Backend for ToBackends {
    fn exchange(&mut self, level: usize, transport: Transport, query: &[u8], out: &mut [u8]) -> usize {
        self.levels.resize_with(self.levels.len().max(level + 1), Level::default);
        let (sockets, server) = (&mut self.levels[level], address(level));
        let answered = match transport {
            Transport::Udp => sockets.by_datagram(server, query, out),
            // The server may have closed the connection, which only shows on use.
            Transport::Tcp => sockets.by_stream(server, query, out).or_else(|_| sockets.by_stream(server, query, out)),
        };
        // On an error there is no answer.
        answered.unwrap_or(0)
    }
}

impl Level {
    fn by_datagram(&mut self, server: SocketAddr, query: &[u8], out: &mut [u8]) -> io::Result<usize> {
        let socket = match self.datagrams.take() {
            Some(socket) => socket,
            None => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.connect(server)?;
                socket
            }
        };
        let until = Instant::now() + BACKEND_TIMEOUT;
        socket.send(query)?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.datagrams = Some(socket);
                return Ok(0);
            }
            socket.set_read_timeout(Some(left))?;
            match socket.recv(out) {
                // A late answer to an earlier query.
                Ok(length) if is_answer(query, &out[..length]) => {
                    self.datagrams = Some(socket);
                    return Ok(length);
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn by_stream(&mut self, server: SocketAddr, query: &[u8], out: &mut [u8]) -> io::Result<usize> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&server, BACKEND_TIMEOUT)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(BACKEND_TIMEOUT))?;
                stream.set_write_timeout(Some(BACKEND_TIMEOUT))?;
                stream
            }
        };
        let mut framed = Vec::with_capacity(query.len() + 2);
        frame(&mut framed, query);
        stream.write_all(&framed)?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let answer = out.get_mut(..usize::from(u16::from_be_bytes(length))).ok_or(io::ErrorKind::InvalidData)?;
        stream.read_exact(answer)?;
        let length = if is_answer(query, answer) { answer.len() } else { 0 };
        self.stream = Some(stream);
        Ok(length)
    }
}

/// Compares ID, QR and, if the answer has one, the question.
fn is_answer(query: &[u8], answer: &[u8]) -> bool {
    let is_response = answer.len() >= 12 && answer[..2] == query[..2] && answer[2] & 0x80 != 0;
    let question =
        |message| FirstQuestion::read(message).ok().map(|question| (question.qname.to_canonical(), question.qtype));
    is_response && (answer[4..6] == [0, 0] || question(query) == question(answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::builder::MessageBuilder;
    use wire::number::Rtype;

    #[test]
    fn an_answer_has_the_id_and_the_question() {
        let message = |id: u16, name: &str, qr: bool| {
            let name: Name = name.parse().unwrap();
            MessageBuilder::query(id, name.as_ref(), Rtype::A).header(|header| header.qr = qr).build()
        };
        let query = message(7, "a.test.", false);
        assert!(is_answer(&query, &message(7, "A.test.", true)));
        assert!(!is_answer(&query, &message(7, "a.test.", false)));
        assert!(!is_answer(&query, &message(8, "a.test.", true)));
        assert!(!is_answer(&query, &message(7, "b.test.", true)));
        // FORMERR without a question.
        assert!(is_answer(&query, &[0, 7, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!is_answer(&query, &[0, 7]));
    }
}
