//! Sends questions to a resolver, a few at a time.

use crate::limits::{HARVEST_PAYLOAD, HARVEST_SENDS};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::name::Name;
use wire::number::Rtype;
use wire::parse::FirstQuestion;

/// The results of all questions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarvestCounts {
    /// Answers by RCODE.
    pub rcodes: BTreeMap<u8, u64>,
    /// Questions without an answer after all retries.
    pub unanswered: u64,
}

impl HarvestCounts {
    /// Number of finished questions.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.rcodes.values().sum::<u64>() + self.unanswered
    }
}

/// Interval of the check for timeouts.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A question in flight.
struct Waiting {
    index: usize,
    since: Instant,
    sends: u32,
}

/// Sends each question with RD and DO, `in_flight` at a time, and repeats it up to twice after `timeout`. `each` is
/// called after every answer, and stops the harvest by returning false.
///
/// # Errors
/// If a socket fails. A closed port counts as no answer.
pub fn ask(
    resolver: SocketAddr,
    questions: &[(Name, Rtype)],
    in_flight: usize,
    timeout: Duration,
    mut each: impl FnMut(&HarvestCounts) -> bool,
) -> io::Result<HarvestCounts> {
    let any: SocketAddr = if resolver.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(resolver)?;
    socket.set_read_timeout(Some(POLL_INTERVAL))?;
    let (mut counts, mut waiting, mut next) = (HarvestCounts::default(), HashMap::new(), 0_usize);
    let mut buffer = vec![0; usize::from(u16::MAX)];
    while next < questions.len() || !waiting.is_empty() {
        while next < questions.len() && waiting.len() < in_flight.clamp(1, usize::from(u16::MAX)) {
            let id = next as u16;
            if waiting.contains_key(&id) {
                break;
            }
            send(&socket, id, &questions[next])?;
            waiting.insert(id, Waiting { index: next, since: Instant::now(), sends: 1 });
            next += 1;
        }
        match socket.recv(&mut buffer) {
            Ok(length) => {
                if let Some((id, rcode)) = answer_to(&buffer[..length], &waiting, questions) {
                    waiting.remove(&id);
                    *counts.rcodes.entry(rcode).or_default() += 1;
                }
            }
            Err(error) if is_silence(&error) => {}
            Err(error) => return Err(error),
        }
        let overdue: Vec<u16> =
            waiting.iter().filter(|(_, it)| it.since.elapsed() > timeout).map(|(id, _)| *id).collect();
        for id in overdue {
            let Some(mut again) = waiting.remove(&id) else { continue };
            if again.sends == HARVEST_SENDS {
                counts.unanswered += 1;
                continue;
            }
            send(&socket, id, &questions[again.index])?;
            (again.since, again.sends) = (Instant::now(), again.sends + 1);
            waiting.insert(id, again);
        }
        if !each(&counts) {
            break;
        }
    }
    Ok(counts)
}

fn send(socket: &UdpSocket, id: u16, (name, rtype): &(Name, Rtype)) -> io::Result<()> {
    let query = MessageBuilder::query(id, name.as_ref(), *rtype);
    let query = query.header(|header| header.rd = true).edns(HARVEST_PAYLOAD, true).build();
    match socket.send(&query) {
        Ok(_) => Ok(()),
        Err(error) if is_silence(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The ID and RCODE of a response to a question in flight.
fn answer_to(message: &[u8], waiting: &HashMap<u16, Waiting>, questions: &[(Name, Rtype)]) -> Option<(u16, u8)> {
    let header: &[u8; 12] = message.first_chunk()?;
    let id = u16::from_be_bytes([header[0], header[1]]);
    let (name, rtype) = &questions[waiting.get(&id)?.index];
    let question = FirstQuestion::read(message).ok()?;
    let is_its = header[2] & 0x80 != 0 && question.qname == name.as_ref() && question.qtype == *rtype;
    is_its.then_some((id, header[3] & 0x0F))
}

/// Timeout, or an ICMP error because the resolver does not run.
fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// A server that answers NXDOMAIN: for `b` only on a retry, and never for `c`.
    fn fickle() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        thread::spawn(move || {
            let (mut buffer, mut seen) = ([0; 512], 0);
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                seen += u32::from(buffer[13] == b'b');
                if buffer[13] == b'c' || (buffer[13] == b'b' && seen == 1) {
                    continue;
                }
                buffer[2] |= 0x80;
                buffer[3] = 3;
                // Sends an answer with another ID first, which must be ignored.
                let mut stray = buffer;
                stray[0] ^= 0x55;
                socket.send_to(&stray[..length], from).unwrap();
                socket.send_to(&buffer[..length], from).unwrap();
            }
        });
        address
    }

    #[test]
    fn unanswered_questions_are_retried_then_given_up() {
        let names = ["a", "b", "c", "d"].map(|name| (format!("{name}.test.").parse().unwrap(), Rtype::A));
        let mut last_count = 0;
        let counts = ask(fickle(), &names, 2, Duration::from_millis(60), |counts| {
            last_count = counts.count();
            true
        });
        let counts = counts.unwrap();
        assert_eq!((counts.rcodes, counts.unanswered, last_count), (BTreeMap::from([(3, 3)]), 1, 4));
    }
}
