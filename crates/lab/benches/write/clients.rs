//! Clients that send queries or updates to one node at a constant rate, whether or not it answers.

use super::sockets::wait;
use super::zone::APEX;
use load::workload::{Signer, TsigKey};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::name::Name;
use wire::number::Rtype;

/// Maximum number of messages per client. Each has its own ID.
const MESSAGES_MAX: usize = 60_000;
/// Bytes kept of a message.
const MESSAGE_BYTES: usize = 4_096;

/// The messages of a client.
#[derive(Clone)]
pub(crate) enum Work {
    /// Updates of this zone, each with a new name that begins with `prefix`.
    Updates { apex: String, prefix: String, key: Box<TsigKey> },
    /// Queries for this many existing names of the zone, in turn.
    Queries { names: u64 },
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    /// When NOERROR arrived.
    pub(crate) done: Option<Instant>,
    /// Whether another RCODE arrived.
    pub(crate) is_refused: bool,
}

/// The results of all messages.
pub(crate) struct ClientRecord {
    pub(crate) node: u64,
    pub(crate) messages: Vec<Sent>,
    prefix: String,
}

impl ClientRecord {
    /// Whether its messages were updates.
    pub(crate) fn is_of_updates(&self) -> bool {
        !self.prefix.is_empty()
    }

    /// When the first update sent after `since` was acknowledged.
    pub(crate) fn first_done(&self, since: Instant) -> Option<Instant> {
        self.messages.iter().filter(|sent| sent.at >= since).filter_map(|sent| sent.done).min()
    }

    /// The first labels of acknowledged updates.
    pub(crate) fn acknowledged(&self) -> BTreeSet<String> {
        let done = self.messages.iter().enumerate().filter(|(_, sent)| sent.done.is_some());
        done.map(|(number, _)| format!("{}{number}", self.prefix)).collect()
    }

    /// The first labels of updates answered with an RCODE other than NOERROR. They must not be applied (RFC 2136
    /// 3.4.2), not even after SERVFAIL.
    pub(crate) fn refused(&self) -> BTreeSet<String> {
        let refused = self.messages.iter().enumerate().filter(|(_, sent)| sent.is_refused && sent.done.is_none());
        refused.map(|(number, _)| format!("{}{number}", self.prefix)).collect()
    }

    /// The sorted times of answers from one time to another, including both.
    fn answers(&self, from: Instant, to: Instant) -> Vec<Instant> {
        let mut all: Vec<Instant> = self.messages.iter().filter_map(|sent| sent.done).collect();
        all.retain(|at| (from..to).contains(at));
        all.extend([from, to]);
        all.sort();
        all
    }

    /// The longest time between two answers.
    pub(crate) fn gap(&self, from: Instant, to: Instant) -> Duration {
        self.answers(from, to).windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

/// A running client.
pub(crate) struct Client {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<ClientRecord, String>>,
}

impl Client {
    /// Starts a client with this rate per second.
    pub(crate) fn start(node: u64, to: SocketAddr, rate: u64, work: Work) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let its_stop = Arc::clone(&stop);
        let pause = Duration::from_secs(1) / rate.max(1) as u32;
        let thread = std::thread::spawn(move || run(node, to, pause, work, &its_stop));
        Self { stop, thread }
    }

    /// Stops it and waits.
    pub(crate) fn finish(self) -> Result<ClientRecord, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "a client panicked".to_owned())?
    }
}

fn run(node: u64, to: SocketAddr, pause: Duration, work: Work, stop: &AtomicBool) -> Result<ClientRecord, String> {
    let wrong = |error: std::io::Error| format!("a client of {to}: {error}");
    // Not connected, so that ICMP errors from a stopped node do not end the reading.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(wrong)?;
    socket.set_nonblocking(true).map_err(wrong)?;
    let mut writer = Writer::new(work)?;
    let mut messages: Vec<Sent> = Vec::new();
    let mut next = Instant::now();
    let mut bytes = vec![0; MESSAGE_BYTES];
    while !stop.load(Ordering::Relaxed) && messages.len() < MESSAGES_MAX {
        while Instant::now() >= next && messages.len() < MESSAGES_MAX {
            next += pause;
            let message = writer.write(messages.len(), &mut bytes);
            messages.push(Sent { at: Instant::now(), done: None, is_refused: false });
            // A full queue drops the message, as a network may.
            let _sent = socket.send_to(message, to);
        }
        let left = next.saturating_duration_since(Instant::now());
        wait(std::slice::from_ref(&socket), left.as_millis().max(1) as i32);
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let number = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
            // IDs start at 1.
            let sent = number.checked_sub(1).and_then(|number| messages.get_mut(number));
            if let Some(sent) = sent.filter(|_| from == to && length >= 12) {
                match bytes[3] & 0x0F {
                    0 => _ = sent.done.get_or_insert_with(Instant::now),
                    _ => sent.is_refused = true,
                }
            }
        }
    }
    Ok(ClientRecord { node, messages, prefix: writer.prefix })
}

/// Writes successive messages.
struct Writer {
    apex: Name,
    prefix: String,
    names: u64,
    signer: Option<Signer>,
}

impl Writer {
    fn new(work: Work) -> Result<Self, String> {
        let name = |text: &str| text.parse::<Name>().map_err(|error| format!("{text}: {error:?}"));
        Ok(match work {
            Work::Updates { apex, prefix, key } => {
                Self { apex: name(&apex)?, prefix, names: 0, signer: Some(Signer::new(*key)) }
            }
            Work::Queries { names } => Self { apex: name(APEX)?, prefix: String::new(), names, signer: None },
        })
    }

    /// Writes the message with this number, which starts at 0. Its ID is one higher.
    fn write<'m>(&mut self, number: usize, bytes: &'m mut [u8]) -> &'m [u8] {
        let id = number as u16 + 1;
        let Some(signer) = &mut self.signer else {
            let owner = self.below(&format!("q{}", number as u64 % self.names.max(1)));
            let message = MessageBuilder::query(id, owner.as_ref(), Rtype::A).build();
            bytes[..message.len()].copy_from_slice(&message);
            return &bytes[..message.len()];
        };
        let owner: Name = format!("{}{number}.{}", self.prefix, self.apex).parse().expect("a label and a name");
        let message = MessageBuilder::update(id, self.apex.as_ref())
            .add(owner.as_ref(), Rtype::A, 60, &Ipv4Addr::from(0x0A00_0000 | number as u32).octets())
            .build();
        bytes[..message.len()].copy_from_slice(&message);
        // The signer also counts IDs from 1.
        let length = signer.sign(bytes, message.len());
        &bytes[..length]
    }

    fn below(&self, label: &str) -> Name {
        format!("{label}.{}", self.apex).parse().expect("a label and a name")
    }
}
