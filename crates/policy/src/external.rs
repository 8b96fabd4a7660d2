//! What the daemons of `external` rules are asked, and what they said. Whoever takes an update asks those of its own
//! machine; the answers go with the update to the leader, which knows no sockets.

use crate::limits::{EXTERNAL_QUESTIONS_MAX, SOCKET_PATH_BYTES_MAX};
use core::fmt;
use std::collections::BTreeMap;
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::codec::{DecodeError, Decoder, Encoder};

/// The shortest answer: a path and its length, the root, a type, yes or no.
const ANSWER_BYTES_MIN: usize = 4 + 1 + 1 + 2 + 1;

/// Where a daemon listens: a Unix socket, by its absolute path, on each machine that takes updates.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SocketPath(String);

impl SocketPath {
    /// A path; `None` when it is not absolute, too long for a socket, or not to be written as one word.
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

/// As the identity of a rule has it.
impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local:{}", self.0)
    }
}

/// One question: may this be written? Who asks is the same for a whole update.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Question {
    /// Who is asked.
    pub socket: SocketPath,
    /// The owner, in lower case.
    pub owner: Name,
    /// The type.
    pub rtype: Rtype,
}

/// What daemons said about one update. What none said anything about is denied.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct External {
    answers: BTreeMap<Question, bool>,
}

impl External {
    /// Notes an answer; one more than [`EXTERNAL_QUESTIONS_MAX`] is dropped.
    pub fn put(&mut self, question: Question, is_granted: bool) {
        if self.answers.len() < EXTERNAL_QUESTIONS_MAX {
            self.answers.insert(question, is_granted);
        }
    }

    /// What was said of it.
    #[must_use]
    pub fn said(&self, socket: &SocketPath, owner: NameRef<'_>, rtype: Rtype) -> Option<bool> {
        if self.answers.is_empty() {
            return None;
        }
        let question = Question { socket: socket.clone(), owner: owner.to_canonical(), rtype };
        self.answers.get(&question).copied()
    }

    /// How much was said.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether nobody was asked, or nobody said anything.
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
    /// [`DecodeError`] when these are not its bytes.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let count = from.count(EXTERNAL_QUESTIONS_MAX, ANSWER_BYTES_MIN)?;
        let mut answers = BTreeMap::new();
        for _ in 0..count {
            let socket = decode_socket(from)?;
            let owner = from.name()?;
            let question = Question { socket, rtype: Rtype(from.u16()?), owner };
            // One way to write each: in order, and in lower case.
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
