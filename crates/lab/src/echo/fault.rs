//! What goes wrong, on purpose.

use crate::engine::{Transport, question_of};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A query that an echo was asked.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedQuery<'a> {
    /// The message.
    pub message: &'a [u8],
    /// How it came.
    pub transport: Transport,
    /// From where.
    pub client: SocketAddr,
    /// When, since the server's start.
    pub at: Duration,
    /// Which query of its connection it is, from 0; of the whole server over UDP.
    pub number: u64,
}

/// Bytes of a message header (RFC 1035 4.1.1).
const HEADER_BYTES: usize = 12;

/// What is done with one query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is answered.
    None,
    /// No answer.
    Drop,
    /// Two answers.
    Twice,
    /// The answer to another question.
    OtherQuestion,
    /// The answer has another ID.
    WrongId,
    /// This RCODE.
    Rcode(u8),
    /// These addresses, the last bytes of 192.0.2.0/24 in this order, with this TTL.
    Addresses([u8; 2], u32),
    /// TC, and no more.
    Truncated,
    /// Bytes that are no message.
    Garbage,
    /// Half of the answer; over connections the end of the connection after it.
    Half,
    /// An answer, and the end of the connection after it.
    Close,
    /// The end of the connection, without an answer.
    CloseUnanswered,
    /// The whole server does nothing for as long.
    Pause(Duration),
    /// This answer comes so much later.
    Delay(Duration),
}

/// Decides about each query.
pub type Faults = Arc<dyn Fn(&ReceivedQuery<'_>) -> Fault + Send + Sync>;

/// What goes back for a query.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Whole messages.
    pub(super) messages: Vec<Vec<u8>>,
    /// A part of one more, as bytes of its length and itself.
    pub(super) partial: Option<Vec<u8>>,
    pub(super) closes: bool,
    pub(super) delay: Option<Duration>,
}

impl Reply {
    /// The reply that a fault leaves; a pause has been taken by then.
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

/// The answer with two A records after its question, names compressed (RFC 1035 4.1.4).
fn with_addresses(mut answer: Vec<u8>, last: [u8; 2], ttl: u32) -> Vec<u8> {
    let Some(question) = question_of(&answer) else { return answer };
    let after = answer.split_off(HEADER_BYTES + question.len());
    answer[7] = last.len() as u8;
    for last in last {
        answer.extend_from_slice(&[0xC0, HEADER_BYTES as u8, 0, 1, 0, 1]);
        answer.extend_from_slice(&ttl.to_be_bytes());
        answer.extend_from_slice(&[0, 4, 192, 0, 2, last]);
    }
    answer.extend_from_slice(&after);
    answer
}
