//! Sends questions to a resolver one by one and counts its upstream queries.

use hierarchy::serve::Directory;
use indicatif::{ProgressBar, ProgressStyle};
use lab::emulation::Emulated;
use lab::limits::{QUESTIONS_BYTES_MAX, RESOLVER_QUESTIONS_MAX};
use links::Namespace;
use serde::Serialize;
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::resolver::{ADDRESS, PORT};
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{Message, Section};
use wire::{Name, Rcode};

/// Timeout of a question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// A resolver is idle after this time without upstream queries.
const SETTLED: Duration = Duration::from_millis(60);
/// Maximum time to wait for an idle resolver.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of the check.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Largest UDP response from the resolver (EDNS).
const PAYLOAD_BYTES: u16 = 1_232;

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) name: Name,
    pub(super) rtype: Rtype,
}

/// The result of a question.
#[derive(Clone, Debug, Serialize)]
pub(super) struct QuestionResult {
    /// Its name and type.
    question: String,
    /// The RCODE, or why there is none.
    rcode: String,
    /// Records in the answer section.
    answers: u16,
    /// AD: the resolver validated the answer (RFC 6840 5.8).
    authenticated: bool,
    /// TC: the answer did not fit into a datagram.
    truncated: bool,
    latency_ms: f64,
    /// Queries to the servers of the hierarchy, from the question until the resolver was idle.
    upstream: u64,
    /// Zone cuts on the way from the root to the name.
    cuts: usize,
}

/// The result of a question, and the bytes of its answer.
type AnswerAndBytes = (QuestionResult, Option<Vec<u8>>);

/// Totals of all questions.
#[derive(Clone, Debug, Serialize)]
pub(super) struct QuestionTotals {
    pub(super) questions: usize,
    pub(super) upstream: u64,
    pub(super) upstream_per_question: f64,
    /// Upstream queries for each zone cut on the way to the names.
    pub(super) upstream_per_cut: f64,
    /// Upstream queries per question without the first one, when the resolver knows no server.
    pub(super) upstream_per_later_question: Option<f64>,
    pub(super) unanswered: usize,
    /// Questions that the resolver answered with SERVFAIL.
    pub(super) servfail: usize,
    pub(super) all: Vec<QuestionResult>,
}

/// Reads questions: a name and an optional type per line. The default type is A. `;` and `#` begin comments. All are
/// asked once in each round.
pub(super) fn read(path: &Path, rounds: u16) -> Result<Vec<Question>, Box<dyn Error>> {
    let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::metadata(path).map_err(|error| with_path(&error))?.len();
    if bytes > QUESTIONS_BYTES_MAX {
        return Err(with_path(&format_args!("{bytes} bytes; the limit is {QUESTIONS_BYTES_MAX}")).into());
    }
    let text = std::fs::read_to_string(path).map_err(|error| with_path(&error))?;
    let questions = parse(&text).map_err(|error| with_path(&error))?;
    let count = questions.len().saturating_mul(rounds.into());
    if count > RESOLVER_QUESTIONS_MAX {
        return Err(with_path(&format_args!("{count} questions; the limit is {RESOLVER_QUESTIONS_MAX}")).into());
    }
    if questions.is_empty() {
        return Err(with_path(&"no questions; write `www.example.com A` in a line").into());
    }
    Ok((0..rounds).flat_map(|_| questions.iter().cloned()).collect())
}

fn parse(text: &str) -> Result<Vec<Question>, String> {
    let mut questions = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split([';', '#']).next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let rtype = words.next().unwrap_or("A");
        if let Some(word) = words.next() {
            return Err(format!("line {number}: unexpected {word}; write a name and a type"));
        }
        questions.push(Question {
            name: name.parse().map_err(|_| format!("line {number}: {name} is not a name"))?,
            rtype: trace::rtype(rtype).ok_or_else(|| format!("line {number}: {rtype} is not a type"))?,
        });
    }
    Ok(questions)
}

/// Asks all questions and passes on each answer. Ends early if the user asks to stop.
pub(super) fn ask_all(
    questions: &[Question],
    near: &Namespace,
    emulated: &Emulated,
    directory: &Directory,
    stops: &dyn Fn() -> u8,
    mut each: impl FnMut(&Question, Option<&[u8]>),
) -> Result<QuestionTotals, Box<dyn Error>> {
    let socket = near.inside(|| {
        let socket = UdpSocket::bind((ADDRESS, 0))?;
        socket.connect((ADDRESS, PORT))?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(socket)
    })?;
    settle(emulated);
    let style = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} questions, {eta} to go");
    let bar = ProgressBar::new(questions.len() as u64).with_style(style?);
    let mut all = Vec::new();
    for (number, question) in questions.iter().enumerate() {
        if stops() > 0 {
            break;
        }
        let (answered, mut bytes) = ask(question, number as u16, &socket, emulated, directory)?;
        if answered.truncated {
            bytes = near.inside(|| Ok(ask_again(question, number as u16).ok()))?;
        }
        each(question, bytes.as_deref());
        all.push(answered);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(summed(all))
}

/// Repeats a truncated question over TCP.
fn ask_again(question: &Question, id: u16) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((ADDRESS, PORT))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let query = MessageBuilder::query(id, question.name.as_ref(), question.rtype).header(|header| header.rd = true);
    let query = query.edns(PAYLOAD_BYTES, false).build();
    // Length and message go out together (RFC 7766 8).
    stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn ask(
    question: &Question,
    id: u16,
    socket: &UdpSocket,
    emulated: &Emulated,
    directory: &Directory,
) -> Result<AnswerAndBytes, Box<dyn Error>> {
    let Question { name, rtype } = question;
    // AD in a query asks for AD in the answer (RFC 6840 5.7).
    let query = MessageBuilder::query(id, name.as_ref(), *rtype).header(|header| {
        header.rd = true;
        header.ad = true;
    });
    let before = emulated.query_count();
    let start = Instant::now();
    socket.send(&query.edns(PAYLOAD_BYTES, false).build())?;
    let Answer { rcode, answers, authenticated, truncated, bytes } = receive(socket, id, start)?;
    let latency_ms = start.elapsed().as_secs_f64() * 1e3;
    settle(emulated);
    let answered = QuestionResult {
        question: format!("{name} {rtype:?}"),
        rcode,
        answers,
        authenticated,
        truncated,
        latency_ms,
        upstream: emulated.query_count() - before,
        cuts: directory.zones_above(name.as_ref()).saturating_sub(1),
    };
    Ok((answered, bytes))
}

/// An answer, or why there is none.
struct Answer {
    rcode: String,
    answers: u16,
    authenticated: bool,
    truncated: bool,
    bytes: Option<Vec<u8>>,
}

/// Stands for the RCODE if there is no answer.
const NO_ANSWER: &str = "no answer";
/// The same if the port is closed.
const PORT_CLOSED: &str = "port closed";

fn receive(socket: &UdpSocket, id: u16, start: Instant) -> Result<Answer, Box<dyn Error>> {
    let none = |why: &str| {
        Ok(Answer { rcode: why.to_owned(), answers: 0, authenticated: false, truncated: false, bytes: None })
    };
    let mut bytes = vec![0; usize::from(u16::MAX)];
    while start.elapsed() < ANSWER_TIMEOUT {
        let count = match socket.recv(&mut bytes) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return none(PORT_CLOSED),
            Err(error) => return Err(error.into()),
        };
        // A late answer to an earlier question.
        let Ok(message) = Message::parse(&bytes[..count]) else { continue };
        if message.header().id == id {
            let Rcode(number) = message.rcode();
            let rcode = Rcode(number).mnemonic().map_or_else(|| number.to_string(), str::to_owned);
            let (answers, header) = (message.header().counts[Section::Answer as usize], message.header());
            let (authenticated, truncated) = (header.ad, header.tc);
            let bytes = Some(bytes[..count].to_vec());
            return Ok(Answer { rcode, answers, authenticated, truncated, bytes });
        }
    }
    none(NO_ANSWER)
}

/// Waits until the resolver is idle.
fn settle(emulated: &Emulated) {
    let start = Instant::now();
    let (mut count, mut since) = (emulated.query_count(), Instant::now());
    while since.elapsed() < SETTLED && start.elapsed() < SETTLE_TIMEOUT {
        sleep(POLL_INTERVAL);
        let now = emulated.query_count();
        if now != count {
            (count, since) = (now, Instant::now());
        }
    }
}

fn summed(all: Vec<QuestionResult>) -> QuestionTotals {
    let upstream: u64 = all.iter().map(|answered| answered.upstream).sum();
    let cuts: usize = all.iter().map(|answered| answered.cuts).sum();
    let later: u64 = all.iter().skip(1).map(|answered| answered.upstream).sum();
    let of = |count: usize| upstream as f64 / count.max(1) as f64;
    QuestionTotals {
        questions: all.len(),
        upstream,
        upstream_per_question: of(all.len()),
        upstream_per_cut: of(cuts),
        upstream_per_later_question: (all.len() > 1).then(|| later as f64 / (all.len() - 1) as f64),
        unanswered: all.iter().filter(|answered| [NO_ANSWER, PORT_CLOSED].contains(&&*answered.rcode)).count(),
        servfail: all.iter().filter(|answered| answered.rcode == "SERVFAIL").count(),
        all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_a_name_and_a_type_in_each_line() {
        let questions = parse("www.example.com A\n; nothing\n\nexample.com\tMX # mail\nexample.org\n").unwrap();
        let shown: Vec<_> =
            questions.iter().map(|question| format!("{} {:?}", question.name, question.rtype)).collect();
        assert_eq!(shown, ["www.example.com. A", "example.com. MX", "example.org. A"]);
        assert!(parse("a b c\n").unwrap_err().contains("line 1"));
        assert!(parse("\na..b A\n").unwrap_err().contains("line 2: a..b is not a name"));
        assert!(parse("a NOTHING\n").unwrap_err().contains("NOTHING is not a type"));
    }

    fn answered(upstream: u64, cuts: usize, rcode: &str) -> QuestionResult {
        QuestionResult {
            question: String::new(),
            rcode: rcode.into(),
            answers: 0,
            authenticated: false,
            truncated: false,
            latency_ms: 1.0,
            upstream,
            cuts,
        }
    }

    #[test]
    fn upstream_queries_are_counted_per_question_cut_and_later_question() {
        let all = vec![answered(12, 3, "NOERROR"), answered(2, 3, "NXDOMAIN"), answered(4, 2, "SERVFAIL")];
        let totals = summed(all);
        assert_eq!((totals.questions, totals.upstream, totals.unanswered, totals.servfail), (3, 18, 0, 1));
        assert_eq!((totals.upstream_per_question, totals.upstream_per_cut), (6.0, 18.0 / 8.0));
        assert_eq!(totals.upstream_per_later_question, Some(3.0));
        // A single question has no later one, and a name in the root is below no zone cut.
        let one = summed(vec![answered(5, 0, "NOERROR")]);
        assert_eq!((one.upstream_per_question, one.upstream_per_cut), (5.0, 5.0));
        assert_eq!(one.upstream_per_later_question, None);
        let none = summed(Vec::new());
        assert_eq!((none.questions, none.upstream_per_question, none.upstream_per_later_question), (0, 0.0, None));
    }

    #[test]
    fn a_closed_port_is_no_answer_either() {
        let totals = summed(vec![answered(0, 1, NO_ANSWER), answered(0, 1, PORT_CLOSED), answered(1, 1, "REFUSED")]);
        assert_eq!(totals.unanswered, 2);
    }
}
