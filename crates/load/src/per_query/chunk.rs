//! Finished queries on their way from a worker to the writer.

use crate::limits::PER_QUERY_CHUNK_ROWS;
use measure::{AnswerCheck, Transport};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use wire::limits::NAME_BYTES_MAX;

/// Room for names in a chunk. With usual names, the rows fill up first.
const NAMES_BYTES: usize = PER_QUERY_CHUNK_ROWS * 48;

/// A query and its outcome. Times are in nanoseconds from the start of the run, unless noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// The planned time.
    pub planned_ns: u64,
    /// When the sender started sending it.
    pub sent_ns: u64,
    /// Time from planned sending to the answer.
    pub latency_ns: Option<u64>,
    /// Time from actual sending to the answer.
    pub service_ns: Option<u64>,
    /// The transport.
    pub transport: Transport,
    /// The server.
    pub server: SocketAddr,
    /// The client of a population, otherwise the connection. `None` over UDP without a population.
    pub client: Option<u64>,
    /// Length of its name in wire format. Zero without a question.
    pub name_bytes: u16,
    /// Its type.
    pub rtype: u16,
    /// Bytes of its message.
    pub bytes: u32,
    /// The answer, including late ones.
    pub answer: Option<Answer>,
    /// How it ended.
    pub fate: Fate,
}

/// The contents of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// RCODE of the header (RFC 1035 4.1.1).
    pub rcode: u8,
    /// TC.
    pub is_truncated: bool,
    /// Bytes of the message.
    pub bytes: u32,
    /// The result of checking it. `None` if it was not checked.
    pub check: Option<AnswerCheck>,
}

/// How a query ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fate {
    /// Answered in time.
    Answered,
    /// Timed out, and answered afterwards.
    Late,
    /// Timed out.
    TimedOut,
    /// Its connection failed or ended.
    ConnectionLost,
    /// In flight when the run was interrupted.
    Interrupted,
}

impl Fate {
    /// The label of the outcome.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Late => "late",
            Self::TimedOut => "timed_out",
            Self::ConnectionLost => "connection_lost",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A limited number of queries. An emptied chunk returns to its worker.
#[derive(Debug)]
pub(super) struct Chunk {
    queries: Vec<Query>,
    /// Their names, one after another.
    names: Vec<u8>,
    give_back: Sender<Chunk>,
}

impl Chunk {
    /// An empty chunk with mapped memory, because mapping it on first use would delay queries.
    pub(super) fn new(give_back: Sender<Self>) -> Self {
        let nobody = Query {
            planned_ns: 1,
            sent_ns: 1,
            latency_ns: None,
            service_ns: None,
            transport: Transport::Udp,
            server: SocketAddr::from(([127, 0, 0, 1], 0)),
            client: None,
            name_bytes: 0,
            rtype: 0,
            bytes: 0,
            answer: None,
            fate: Fate::TimedOut,
        };
        let (mut queries, mut names) = (vec![nobody; PER_QUERY_CHUNK_ROWS], vec![1; NAMES_BYTES]);
        queries.clear();
        names.clear();
        Self { queries, names, give_back }
    }

    pub(super) fn push(&mut self, query: Query, name: &[u8]) {
        debug_assert!(!self.is_full());
        self.queries.push(query);
        self.names.extend_from_slice(name);
    }

    /// Whether the next query may not fit.
    pub(super) fn is_full(&self) -> bool {
        self.queries.len() == PER_QUERY_CHUNK_ROWS || self.names.len() + NAME_BYTES_MAX > NAMES_BYTES
    }

    pub(super) fn len(&self) -> usize {
        self.queries.len()
    }

    /// All queries with their names in wire format.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Query, &[u8])> {
        let mut names = self.names.as_slice();
        self.queries.iter().map(move |query| {
            let (name, rest) = names.split_at(usize::from(query.name_bytes));
            names = rest;
            (query, name)
        })
    }

    /// Empties the chunk and returns it to its worker, unless the worker has ended.
    pub(super) fn return_to_worker(mut self) {
        self.queries.clear();
        self.names.clear();
        let give_back = self.give_back.clone();
        let _gone = give_back.send(self);
    }
}
