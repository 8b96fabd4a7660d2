//! Injected faults.

use measure::Transport;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::limits::HEADER_BYTES;

/// A query that arrived at an echo server.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedQuery<'a> {
    /// The message.
    pub message: &'a [u8],
    /// Its transport.
    pub transport: Transport,
    /// The client.
    pub client: SocketAddr,
    /// Its arrival time since the start of the server.
    pub at: Duration,
    /// Its number on the connection, from 0. Over UDP, its number on the server.
    pub number: u64,
}

/// The handling of one query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A normal answer.
    None,
    /// No answer.
    Drop,
    /// Two answers.
    Twice,
    /// An answer to another question.
    OtherQuestion,
    /// An answer with another ID.
    WrongId,
    /// An answer with this RCODE.
    Rcode(u8),
    /// An answer with these two addresses (last bytes of 192.0.2.0/24, in this order) and this TTL.
    Addresses([u8; 2], u32),
    /// An answer with TC and no records.
    Truncated,
    /// Bytes that are not a message.
    Garbage,
    /// Half of the answer. A connection is closed after it.
    Half,
    /// An answer. The connection is closed after it.
    Close,
    /// No answer. The connection is closed.
    CloseUnanswered,
    /// The whole server pauses for this long.
    Pause(Duration),
    /// The answer is delayed by this time.
    Delay(Duration),
}

/// Chooses the fault of each query.
pub type Faults = Arc<dyn Fn(&ReceivedQuery<'_>) -> Fault + Send + Sync>;

/// The reply to a query.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Complete messages.
    pub(super) messages: Vec<Vec<u8>>,
    /// A part of another message, as its announced length and its bytes.
    pub(super) partial: Option<Vec<u8>>,
    pub(super) closes: bool,
    pub(super) delay: Option<Duration>,
}

impl Reply {
    /// The reply for a fault. A pause has already happened.
    pub(super) fn new(query: &[u8], fault: Fault) -> Self {
        let mut answer = query.to_vec();
        if answer.len() < HEADER_BYTES {
            return Self::default();
        }
        answer[2] |= 0x80;
        let one = |answer: Vec<u8>| Self { messages: vec![answer], ..Self::default() };
        match fault {
            Fault::None => one(answer),
            Fault::Pause(pause) => {
                std::thread::sleep(pause);
                one(answer)
            }
            Fault::Drop => Self::default(),
            Fault::Twice => Self { messages: vec![answer.clone(), answer], ..Self::default() },
            Fault::OtherQuestion => {
                answer[13] ^= 1;
                one(answer)
            }
            Fault::WrongId => {
                answer[0] ^= 0x80;
                one(answer)
            }
            Fault::Rcode(rcode) => {
                answer[3] = rcode & 0x0F;
                one(answer)
            }
            Fault::Addresses(last, ttl) => one(with_addresses(answer, last, ttl)),
            Fault::Truncated => {
                answer[2] |= 0x02;
                one(answer)
            }
            Fault::Garbage => one(vec![0xA5; 7]),
            Fault::Half => {
                let length = (answer.len() as u16).to_be_bytes();
                let partial = [&length[..], &answer[..answer.len() / 2]].concat();
                Self { partial: Some(partial), closes: true, ..Self::default() }
            }
            Fault::Close => Self { closes: true, ..one(answer) },
            Fault::CloseUnanswered => Self { closes: true, ..Self::default() },
            Fault::Delay(delay) => Self { delay: Some(delay), ..one(answer) },
        }
    }
}

/// The answer with two A records after its question, and compressed names (RFC 1035 4.1.4).
fn with_addresses(mut answer: Vec<u8>, last: [u8; 2], ttl: u32) -> Vec<u8> {
    let Some(end) = question_end(&answer) else { return answer };
    let after = answer.split_off(end);
    answer[7] = last.len() as u8;
    for last in last {
        answer.extend_from_slice(&[0xC0, HEADER_BYTES as u8, 0, 1, 0, 1]);
        answer.extend_from_slice(&ttl.to_be_bytes());
        answer.extend_from_slice(&[0, 4, 192, 0, 2, last]);
    }
    answer.extend_from_slice(&after);
    answer
}

/// Where the first question of a message ends, if it is complete.
fn question_end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER_BYTES;
    loop {
        match *message.get(at)? {
            0 => return Some(at + 5).filter(|end| *end <= message.len()),
            length if length < 0x40 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}
