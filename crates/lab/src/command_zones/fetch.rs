//! Asks a resolver for what traffic does not hold, each question once.

use hierarchy::construct::{Assembly, Survey};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::Message;
use wire::{Name, limits};

/// How long an answer is waited for; then the question counts as unanswered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// EDNS payload size that is taken.
const PAYLOAD: u16 = 1_232;

/// A resolver that is asked.
pub(super) struct Fetcher {
    socket: UdpSocket,
    resolver: SocketAddr,
    asked: u16,
    answered: u16,
}

impl Fetcher {
    pub(super) fn new(resolver: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let unspecified = if resolver.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let said = |error: std::io::Error| format!("{resolver}: {error}");
        let socket = UdpSocket::bind(unspecified).map_err(said)?;
        socket.connect(resolver).map_err(said)?;
        Ok(Self { socket, resolver, asked: 0, answered: 0 })
    }

    /// Asks for NS where servers change, so that zones are split where they are.
    pub(super) fn probe(&mut self, survey: &mut Survey) -> Result<(), Box<dyn Error>> {
        for (name, rtype) in survey.wanted_cuts() {
            self.ask(&name, rtype)?.iter().for_each(|bytes| survey.add_probed(bytes));
        }
        Ok(())
    }

    /// Fetches name servers of zones that have none, then the addresses of name servers; says what it asked.
    pub(super) fn fetch(mut self, assembly: &mut Assembly) -> Result<(), Box<dyn Error>> {
        assembly.adopt_probed();
        for wanted in [Assembly::wanted_name_servers, Assembly::wanted_addresses] {
            for (name, rtype) in wanted(assembly) {
                self.ask(&name, rtype)?.iter().for_each(|bytes| assembly.add_fetched(bytes));
            }
        }
        let Self { resolver, asked, answered, .. } = self;
        eprintln!("sent {asked} questions to {resolver}, {answered} were answered");
        Ok(())
    }

    fn ask(&mut self, name: &Name, rtype: Rtype) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
        self.asked = self.asked.wrapping_add(1);
        let bytes =
            ask(&self.socket, self.asked, name, rtype).map_err(|error| format!("{}: {error}", self.resolver))?;
        self.answered += u16::from(bytes.is_some());
        Ok(bytes)
    }
}

/// One question; `None` when no answer came in time.
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
            // The time is over, or nothing that is told again.
            Err(_) => continue,
        };
        let is_ours = Message::parse(&bytes[..len]).is_ok_and(|message| {
            let question = message.question();
            let is_same = question.is_some_and(|asked| asked.qname.as_ref() == name.as_ref() && asked.qtype == rtype);
            message.header().qr && message.header().id == id && is_same
        });
        if is_ours {
            bytes.truncate(len);
            return Ok(Some(bytes));
        }
    }
}
