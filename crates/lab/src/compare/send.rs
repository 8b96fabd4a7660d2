//! Sending recorded messages to a server, and collecting what comes back.

use super::response::{Got, Response};
use crate::limits::IN_FLIGHT_MAX;
use crate::trace::{Recorded, Transport};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Silence after which the rest of a batch is asked again, one by one.
const BATCH_SILENCE_MS: u64 = 500;
/// Silence after which one message counts as unanswered.
const SILENCE_MS: u64 = 700;

/// Sends every message to `server`, in order, and gives what came back for each, with the octets of the answer.
///
/// The ID of message `n` is `n` modulo 2^16; nothing else of it is changed.
///
/// # Errors
/// When the socket itself fails.
pub fn ask_all(server: SocketAddr, messages: &[Recorded]) -> io::Result<Vec<Got>> {
    let mut got = vec![Got::Silence; messages.len()];
    let udp: Vec<usize> = (0..messages.len()).filter(|&index| messages[index].transport == Transport::Udp).collect();
    let socket = connect(server)?;
    for batch in udp.chunks(IN_FLIGHT_MAX) {
        let missing = ask_batch(&socket, messages, batch, BATCH_SILENCE_MS, &mut got)?;
        for index in missing {
            // A socket of its own: an answer that comes late cannot be taken for another's.
            ask_batch(&connect(server)?, messages, &[index], SILENCE_MS, &mut got)?;
        }
    }
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| message.transport == Transport::Tcp) {
        got[index] = ask_tcp(server, &with_id(message, index)).unwrap_or(Got::Silence);
    }
    Ok(got)
}

fn connect(server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.connect(server)?;
    Ok(socket)
}

fn with_id(message: &Recorded, index: usize) -> Vec<u8> {
    let mut octets = message.octets.clone();
    for (octet, id) in octets.iter_mut().zip((index as u16).to_be_bytes()) {
        *octet = id;
    }
    octets
}

/// Sends a batch and reads until all have answered or none does any more; gives the indexes without an answer.
fn ask_batch(
    socket: &UdpSocket,
    messages: &[Recorded],
    batch: &[usize],
    silence_ms: u64,
    got: &mut [Got],
) -> io::Result<Vec<usize>> {
    socket.set_read_timeout(Some(Duration::from_millis(silence_ms)))?;
    let mut missing: Vec<usize> = batch.to_vec();
    for &index in batch {
        // A refusal by the peer's kernel shows as silence.
        let _sent = socket.send(&with_id(&messages[index], index));
    }
    let mut buffer = vec![0u8; 65_535];
    while !missing.is_empty() {
        let Ok(length) = socket.recv(&mut buffer) else { break };
        let octets = &buffer[..length];
        let id = octets.get(..2).map(|id| u16::from_be_bytes([id[0], id[1]]));
        let Some(at) = missing.iter().position(|&index| Some(index as u16) == id) else { continue };
        got[missing.swap_remove(at)] = read(octets);
    }
    Ok(missing)
}

fn ask_tcp(server: SocketAddr, message: &[u8]) -> io::Result<Got> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_millis(SILENCE_MS)))?;
    let mut framed = (message.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    stream.write_all(&framed)?;
    let mut length = [0u8; 2];
    stream.read_exact(&mut length)?;
    let mut octets = vec![0u8; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut octets)?;
    Ok(read(&octets))
}

fn read(octets: &[u8]) -> Got {
    Response::parse(octets).map_or_else(|| Got::Garbage(octets.to_vec()), |response| Got::Response(Box::new(response)))
}
