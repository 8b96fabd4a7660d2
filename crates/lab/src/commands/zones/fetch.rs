//! Queries a resolver for data missing in the trace, once per question.

use hierarchy::construct::{Assembly, Survey};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::Message;
use wire::{Name, limits};

/// Timeout of a question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// EDNS payload size.
const PAYLOAD: u16 = 1_232;

/// The connection to a resolver.
pub(super) struct Fetcher {
    socket: UdpSocket,
    resolver: SocketAddr,
    sent_count: u16,
    answered: u16,
}

impl Fetcher {
    pub(super) fn new(resolver: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let unspecified = if resolver.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let with_resolver = |error: std::io::Error| format!("{resolver}: {error}");
        let socket = UdpSocket::bind(unspecified).map_err(with_resolver)?;
        socket.connect(resolver).map_err(with_resolver)?;
        Ok(Self { socket, resolver, sent_count: 0, answered: 0 })
    }

    /// Queries NS where the servers change, to find zone cuts.
    pub(super) fn probe(&mut self, survey: &mut Survey) -> Result<(), Box<dyn Error>> {
        for (name, rtype) in survey.wanted_cuts() {
            self.ask(&name, rtype)?.iter().for_each(|bytes| survey.add_probed(bytes));
        }
        Ok(())
    }

    /// Fetches missing name servers of zones, then missing addresses. Prints the number of questions.
    pub(super) fn fetch(mut self, assembly: &mut Assembly) -> Result<(), Box<dyn Error>> {
        assembly.adopt_probed();
        for wanted in [Assembly::wanted_name_servers, Assembly::wanted_addresses] {
            for (name, rtype) in wanted(assembly) {
                self.ask(&name, rtype)?.iter().for_each(|bytes| assembly.add_fetched(bytes));
            }
        }
        let Self { resolver, sent_count, answered, .. } = self;
        eprintln!("sent {sent_count} questions to {resolver}, {answered} were answered");
        Ok(())
    }

    fn ask(&mut self, name: &Name, rtype: Rtype) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        self.sent_count = self.sent_count.wrapping_add(1);
        let bytes =
            ask(&self.socket, self.sent_count, name, rtype).map_err(|error| format!("{}: {error}", self.resolver))?;
        self.answered += u16::from(bytes.is_some());
        Ok(bytes)
    }
}

/// Sends one question. Returns `None` if it times out.
fn ask(socket: &UdpSocket, id: u16, name: &Name, rtype: Rtype) -> std::io::Result<Option<Vec<u8>>> {
    let query = MessageBuilder::query(id, name.as_ref(), rtype).header(|header| header.rd = true);
    socket.send(&query.edns(PAYLOAD, false).build())?;
    let until = Instant::now() + ANSWER_TIMEOUT;
    let mut bytes = vec![0; limits::MESSAGE_BYTES_MAX];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        let len = match socket.recv(&mut bytes) {
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return Err(error),
            // Timeout, or an ICMP error.
            Err(_) => continue,
        };
        let is_ours = Message::parse(&bytes[..len]).is_ok_and(|message| {
            let question = message.question();
            let is_same = question.is_some_and(|first| first.qname.as_ref() == name.as_ref() && first.qtype == rtype);
            message.header().qr && message.header().id == id && is_same
        });
        if is_ours {
            bytes.truncate(len);
            return Ok(Some(bytes));
        }
    }
}
