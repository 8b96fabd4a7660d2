//! Questions to the daemons of `external` rules, and their answers. The node that receives an update asks the daemons
//! on its own machine. The answers go to the leader with the update; the leader asks no daemon.

use crate::limits::{EXTERNAL_QUESTIONS_MAX, SOCKET_PATH_BYTES_MAX};
use core::fmt;
use std::collections::BTreeMap;
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::codec::{DecodeError, Decoder, Encoder};

/// The shortest answer: a path and its length, the root, a type, yes or no.
const ANSWER_BYTES_MIN: usize = 4 + 1 + 1 + 2 + 1;

/// The absolute path of the Unix socket of a daemon, the same on every machine that receives updates.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SocketPath(String);

impl SocketPath {
    /// Returns `None` for a path that is not absolute, too long for a socket, or not printable as one word.
    #[must_use]
    pub fn new(path: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let is_path = path.starts_with('/') && path.len() <= SOCKET_PATH_BYTES_MAX && path.bytes().all(is_plain);
        is_path.then(|| Self(path.to_owned()))
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }
}

/// The form in the identity of a rule.
impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local:{}", self.0)
    }
}

/// A question to a daemon: may this owner and type be written? The requestor is the same for the whole update.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Question {
    /// The socket of the daemon.
    pub socket: SocketPath,
    /// The owner, in lower case.
    pub owner: Name,
    /// The type.
    pub rtype: Rtype,
}

/// The answers of daemons about one update. A record without an answer is denied.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DaemonAnswers {
    answers: BTreeMap<Question, bool>,
}

impl DaemonAnswers {
    /// Adds an answer, unless there are [`EXTERNAL_QUESTIONS_MAX`] already.
    pub fn insert(&mut self, question: Question, is_granted: bool) {
        if self.answers.len() < EXTERNAL_QUESTIONS_MAX {
            self.answers.insert(question, is_granted);
        }
    }

    /// The answer about this owner and type.
    #[must_use]
    pub fn get(&self, socket: &SocketPath, owner: NameRef<'_>, rtype: Rtype) -> Option<bool> {
        if self.answers.is_empty() {
            return None;
        }
        let question = Question { socket: socket.clone(), owner: owner.to_canonical(), rtype };
        self.answers.get(&question).copied()
    }

    /// Number of answers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there are no answers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Appends the replicated form.
    pub fn encode(&self, out: &mut Encoder) {
        out.count(self.answers.len());
        for (Question { socket, owner, rtype }, is_granted) in &self.answers {
            out.text(socket.path());
            out.name(owner);
            out.u16(rtype.0);
            out.bool(*is_granted);
        }
    }

    /// Reads the replicated form.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not the encoding of answers.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let count = from.count(EXTERNAL_QUESTIONS_MAX, ANSWER_BYTES_MIN)?;
        let mut answers = BTreeMap::new();
        for _ in 0..count {
            let socket = decode_socket(from)?;
            let owner = from.name()?;
            let question = Question { socket, rtype: Rtype(from.u16()?), owner };
            // Ascending order and lower case: each set of answers has one encoding.
            let is_next = answers.last_key_value().is_none_or(|(last, _)| *last < question);
            if !is_next || question.owner.as_bytes().iter().any(u8::is_ascii_uppercase) {
                return Err(DecodeError::Unknown);
            }
            let is_granted = from.bool()?;
            answers.insert(question, is_granted);
        }
        Ok(Self { answers })
    }
}

pub(crate) fn decode_socket(from: &mut Decoder<'_>) -> Result<SocketPath, DecodeError> {
    SocketPath::new(&from.text(SOCKET_PATH_BYTES_MAX)?).ok_or(DecodeError::Unknown)
}
