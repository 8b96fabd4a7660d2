//! Updates the probe's record with increasing values.

use super::probe::Probe;
use crate::limits::{FRESHNESS_RETRY, FRESHNESS_ROUNDS_MAX, FRESHNESS_TIMEOUT};
use load::workload::Signer;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Maximum size of a signed update.
const UPDATE_BYTES_MAX: usize = 1_232;

/// One update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    pub(super) value: u64,
    pub(super) sent: Instant,
    /// When its answer arrived, and the RCODE. `None` without an answer.
    pub(super) answer: Option<(Instant, u8)>,
}

/// A socket connected to one server.
pub(super) fn socket_to(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    Ok(socket)
}

pub(super) fn new(
    probe: &Probe,
    stop: Arc<AtomicBool>,
) -> io::Result<impl FnOnce() -> Vec<Acknowledged> + Send + use<>> {
    let socket = socket_to(probe.server)?;
    let mut writer = Writer { socket, probe: probe.clone(), signer: probe.key.clone().map(Signer::new), id: 0 };
    Ok(move || writer.run(&stop))
}

struct Writer {
    socket: UdpSocket,
    probe: Probe,
    signer: Option<Signer>,
    id: u16,
}

impl Writer {
    fn run(&mut self, stop: &AtomicBool) -> Vec<Acknowledged> {
        let mut rounds = Vec::new();
        let mut next = Instant::now();
        // Values increase from run to run, so that a value of an earlier run is never mistaken for a new one.
        let first = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_micros();
        while !stop.load(Ordering::Relaxed) && rounds.len() < FRESHNESS_ROUNDS_MAX {
            let value = first as u64 + rounds.len() as u64;
            let sent = Instant::now();
            let answer = self.update(Some(value));
            rounds.push(Acknowledged { value, sent, answer });
            next += self.probe.interval;
            // Sleeps in small steps, so that the end of the run does not have to wait.
            while Instant::now() < next && !stop.load(Ordering::Relaxed) {
                std::thread::sleep((next - Instant::now()).min(Duration::from_millis(20)));
            }
            next = next.max(Instant::now());
        }
        // Deletes the record. A leftover does no harm.
        let _answer = self.update(None);
        rounds
    }

    /// Sends one update, and repeats the same bytes without an answer, as nsupdate does.
    fn update(&mut self, value: Option<u64>) -> Option<(Instant, u8)> {
        self.id = self.id.wrapping_add(1);
        let (owner, zone) = (self.probe.owner.as_ref(), self.probe.zone.as_ref());
        let mut builder = MessageBuilder::update(self.id, zone).delete_rrset(owner, Rtype::TXT);
        if let Some(value) = value {
            let text = value.to_string();
            builder = builder.add(owner, Rtype::TXT, 0, &[&[text.len() as u8], text.as_bytes()].concat());
        }
        let bytes = builder.build();
        let mut message = [0; UPDATE_BYTES_MAX];
        message.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        let length = self.signer.as_mut().map_or(bytes.len(), |signer| signer.sign(&mut message, bytes.len()));
        let id = [message[0], message[1]];
        let start = Instant::now();
        let mut response = [0; UPDATE_BYTES_MAX];
        while start.elapsed() < FRESHNESS_TIMEOUT {
            // The call may return the error of an earlier datagram. Only the answer counts.
            let _sent = self.socket.send(&message[..length]);
            let round = Instant::now();
            while let Some(left) = FRESHNESS_RETRY.checked_sub(round.elapsed()).filter(|left| !left.is_zero()) {
                self.socket.set_read_timeout(Some(left)).ok()?;
                match self.socket.recv(&mut response) {
                    Ok(count) if count >= 12 && response[..2] == id && response[2] & 0x80 != 0 => {
                        return Some((Instant::now(), response[3] & 0x0F));
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        None
    }
}
