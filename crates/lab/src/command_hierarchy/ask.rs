//! Questions to a resolver, one after the other, and what each made it ask upstream.

use super::profile::{ADDRESS, PORT};
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
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{Message, Section};
use wire::{Name, Rcode};

/// After so long without an answer a question counts as unanswered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// A resolver that has asked nothing for so long has all that it wanted to know.
const SETTLED: Duration = Duration::from_millis(60);
/// How long that is waited for.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);
/// What the resolver may send (EDNS).
const PAYLOAD_BYTES: u16 = 1_232;

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) name: Name,
    pub(super) rtype: Rtype,
}

/// What became of one.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answered {
    /// Its name and type.
    question: String,
    /// The RCODE, or why there is none.
    rcode: String,
    /// Records in the answer section.
    answers: u16,
    /// AD: the resolver has validated it (RFC 6840 5.8).
    authenticated: bool,
    /// TC: there was no room for all of it in a datagram.
    truncated: bool,
    latency_ms: f64,
    /// Queries to the servers of the hierarchy from the question on, until the resolver was silent again.
    upstream: u64,
    /// Zone cuts on the way from the root to the name.
    cuts: usize,
}

/// What became of a question, and the bytes of its answer.
type AnswerAndBytes = (Answered, Option<Vec<u8>>);

/// All of them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct QuestionTotals {
    pub(super) questions: usize,
    pub(super) upstream: u64,
    pub(super) upstream_per_question: f64,
    /// Upstream queries for each zone cut on the way to the names.
    pub(super) upstream_per_cut: f64,
    /// The same without the first question, which finds the resolver without any server.
    pub(super) upstream_per_later_question: Option<f64>,
    pub(super) unanswered: usize,
    pub(super) all: Vec<Answered>,
}

/// Reads questions: a name and a type in each line, A without one; `;` and `#` begin comments.
pub(super) fn read(path: &Path) -> Result<Vec<Question>, Box<dyn Error>> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::metadata(path).map_err(|error| said(&error))?.len();
    if bytes > QUESTIONS_BYTES_MAX {
        return Err(said(&format_args!("{bytes} bytes; the limit is {QUESTIONS_BYTES_MAX}")).into());
    }
    let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
    let questions = parse(&text).map_err(|error| said(&error))?;
    match questions.len() {
        0 => Err(said(&"no questions; write `www.example.com A` in a line").into()),
        1..=RESOLVER_QUESTIONS_MAX => Ok(questions),
        count => Err(said(&format_args!("{count} questions; the limit is {RESOLVER_QUESTIONS_MAX}")).into()),
    }
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
            rtype: lab::trace::rtype(rtype).ok_or_else(|| format!("line {number}: {rtype} is not a type"))?,
        });
    }
    Ok(questions)
}

/// Asks them all, and shows each answer; ends early when the user wishes to stop.
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

/// Over TCP, where datagrams have no room.
fn ask_again(question: &Question, id: u16) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((ADDRESS, PORT))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let query = MessageBuilder::query(id, question.name.as_ref(), question.rtype).header(|header| header.rd = true);
    let query = query.edns(PAYLOAD_BYTES, false).build();
    // RFC 7766 8: length and message together.
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
    let Received { rcode, answers, authenticated, truncated, bytes } = receive(socket, id, start)?;
    let latency_ms = start.elapsed().as_secs_f64() * 1e3;
    settle(emulated);
    let answered = Answered {
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
struct Received {
    rcode: String,
    answers: u16,
    authenticated: bool,
    truncated: bool,
    bytes: Option<Vec<u8>>,
}

/// What stands in place of an RCODE where nothing came.
const NO_ANSWER: &str = "no answer";
/// The same where nobody listens.
const PORT_CLOSED: &str = "port closed";

fn receive(socket: &UdpSocket, id: u16, start: Instant) -> Result<Received, Box<dyn Error>> {
    let none = |why: &str| {
        Ok(Received { rcode: why.to_owned(), answers: 0, authenticated: false, truncated: false, bytes: None })
    };
    let mut bytes = vec![0; usize::from(u16::MAX)];
    while start.elapsed() < ANSWER_TIMEOUT {
        let count = match socket.recv(&mut bytes) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return none(PORT_CLOSED),
            Err(error) => return Err(error.into()),
        };
        // An answer to a question before this one comes late.
        let Ok(message) = Message::parse(&bytes[..count]) else { continue };
        if message.header().id == id {
            let Rcode(number) = message.rcode();
            let rcode = Rcode(number).mnemonic().map_or_else(|| number.to_string(), str::to_owned);
            let (answers, header) = (message.header().counts[Section::Answer as usize], message.header());
            let (authenticated, truncated) = (header.ad, header.tc);
            let bytes = Some(bytes[..count].to_vec());
            return Ok(Received { rcode, answers, authenticated, truncated, bytes });
        }
    }
    none(NO_ANSWER)
}

/// Waits until the resolver asks nothing any more.
fn settle(emulated: &Emulated) {
    let start = Instant::now();
    let (mut count, mut since) = (emulated.query_count(), Instant::now());
    while since.elapsed() < SETTLED && start.elapsed() < SETTLES_WITHIN {
        sleep(LOOK);
        let now = emulated.query_count();
        if now != count {
            (count, since) = (now, Instant::now());
        }
    }
}

fn summed(all: Vec<Answered>) -> QuestionTotals {
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
        all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_a_name_and_a_type_in_each_line() {
        let questions = parse("www.example.com A\n; nothing\n\nexample.com\tMX # mail\nexample.org\n").unwrap();
        let shown: Vec<_> = questions.iter().map(|asked| format!("{} {:?}", asked.name, asked.rtype)).collect();
        assert_eq!(shown, ["www.example.com. A", "example.com. MX", "example.org. A"]);
        assert!(parse("a b c\n").unwrap_err().contains("line 1"));
        assert!(parse("\na..b A\n").unwrap_err().contains("line 2: a..b is not a name"));
        assert!(parse("a NOTHING\n").unwrap_err().contains("NOTHING is not a type"));
    }

    fn answered(upstream: u64, cuts: usize, rcode: &str) -> Answered {
        Answered {
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
        let asked = summed(all);
        assert_eq!((asked.questions, asked.upstream, asked.unanswered), (3, 18, 0));
        assert_eq!((asked.upstream_per_question, asked.upstream_per_cut), (6.0, 18.0 / 8.0));
        assert_eq!(asked.upstream_per_later_question, Some(3.0));
        // Of one question there is no later one, and a name in the root is below no cut.
        let one = summed(vec![answered(5, 0, "NOERROR")]);
        assert_eq!((one.upstream_per_question, one.upstream_per_cut), (5.0, 5.0));
        assert_eq!(one.upstream_per_later_question, None);
        let none = summed(Vec::new());
        assert_eq!((none.questions, none.upstream_per_question, none.upstream_per_later_question), (0, 0.0, None));
    }

    #[test]
    fn a_closed_port_is_no_answer_either() {
        let asked = summed(vec![answered(0, 1, NO_ANSWER), answered(0, 1, PORT_CLOSED), answered(1, 1, "REFUSED")]);
        assert_eq!(asked.unanswered, 2);
    }
}
