//! The daemons of `external` rules, asked in BIND's protocol by threads of their own: no update thread waits for them.
//!
//! ```text
//!   update thread --Asker--> ask each daemon, one connection a question --Desk::asked--> the same update thread
//! ```
//! A daemon that is away, slow, or says something else than yes or no has not answered; what has no answer is denied.
//! An update for which nobody could be asked in time is not: its client hears SERVFAIL, and may try again.

mod turns;

use super::deferred::{Deferred, Desk};
use crate::limits::{EXTERNAL_LOG_MS, EXTERNAL_THREADS, EXTERNAL_TURN_MS, EXTERNAL_WAIT_MS};
use crate::listen::counters::ListenCounters;
use crate::metrics::Counter;
use crate::metrics::text::{Kind, Page};
use policy::{External, Question, Requestor};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tsig::KeyAlgorithm;
use turns::{Turn, Turns};
use wire::name::NameRef;

/// Of the request; BIND's.
const VERSION: u32 = 1;

/// What was said about a message so far.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) external: External,
    /// A daemon did not answer: there is no use in asking more.
    pub(crate) is_silent: bool,
    /// Nobody was asked, since too many others wait for that.
    pub(crate) had_no_turn: bool,
}

impl Asked {
    /// Whether no more is to be asked.
    pub(crate) fn is_over(&self) -> bool {
        self.is_silent || self.external.len() >= policy::limits::EXTERNAL_QUESTIONS_MAX
    }
}

/// Who asks, in the daemon's words.
pub(crate) struct Who {
    signer: String,
    /// Empty when it does not come over a connection: the address of a datagram is anybody's.
    address: String,
    key: String,
}

impl Who {
    pub(crate) fn new(requestor: Requestor<'_>, algorithm: Option<KeyAlgorithm>) -> Self {
        let signer = shown(requestor.key.to_canonical().as_ref());
        let address = if requestor.is_connected { requestor.source.to_canonical().to_string() } else { String::new() };
        // The numbers that BIND has for them. Where it shows a sum of the secret's bytes there is a zero here.
        let number = match algorithm {
            Some(KeyAlgorithm::HmacMd5) => 157,
            Some(KeyAlgorithm::HmacSha1) => 161,
            Some(KeyAlgorithm::HmacSha224) => 162,
            Some(KeyAlgorithm::HmacSha256) => 163,
            Some(KeyAlgorithm::HmacSha384) => 164,
            Some(KeyAlgorithm::HmacSha512) => 165,
            None => 0,
        };
        Self { key: format!("{signer}/{number}/0"), signer, address }
    }
}

/// A name without the dot at its end.
fn shown(name: NameRef<'_>) -> String {
    let text = name.to_name().to_string();
    if name.is_root() { text } else { text.trim_end_matches('.').to_owned() }
}

/// A message for which daemons are to be asked.
pub(crate) struct Ask {
    /// Which update thread it goes back to.
    pub(crate) thread: u64,
    pub(crate) message: Deferred,
    pub(crate) asked: Asked,
    pub(crate) questions: Vec<Question>,
    pub(crate) who: Who,
}

/// What was asked and said.
#[derive(Default, Debug)]
pub(crate) struct ExternalCounters {
    granted: Counter,
    denied: Counter,
    silent: Counter,
    full: Counter,
}

impl ExternalCounters {
    pub(crate) fn write(&self, page: &mut Page) {
        let help = "Questions to the daemons of external rules; full: updates for which there was no room to ask.";
        let mut family = page.family("catamaran_external_questions_total", Kind::Counter, help);
        family.series(&[("answer", "granted")], self.granted.get());
        family.series(&[("answer", "denied")], self.denied.get());
        family.series(&[("answer", "none")], self.silent.get());
        family.series(&[("answer", "full")], self.full.get());
    }
}

/// Where update threads put down what is to be asked.
#[derive(Clone)]
pub(crate) struct Asker {
    turns: Arc<Turns<Box<Ask>>>,
    counters: Arc<ExternalCounters>,
}

impl Asker {
    /// An asker, and what its threads do: each is to be run by a thread of its own.
    pub(crate) fn new(
        desk: &Desk,
        counters: &Arc<ExternalCounters>,
        listen: &Arc<ListenCounters>,
    ) -> (Self, Vec<impl FnOnce() + Send + 'static + use<>>) {
        let turns = Arc::<Turns<_>>::default();
        let complaint = Arc::<Mutex<Option<Instant>>>::default();
        let worker = |_| {
            let (turns, complaint) = (turns.clone(), complaint.clone());
            let (desk, counters, listen) = (desk.clone(), counters.clone(), listen.clone());
            move || Worker { turns, complaint, desk, counters, listen }.run()
        };
        let workers = (0..EXTERNAL_THREADS).map(worker).collect::<Vec<_>>();
        (Self { turns, counters: counters.clone() }, workers)
    }

    /// Has daemons asked; gives it back when too many wait.
    pub(crate) fn ask(&self, ask: Box<Ask>) -> Result<(), Box<Ask>> {
        // Nothing is put here without a question.
        let Some(first) = ask.questions.first() else { return Err(ask) };
        let turn = Turn { socket: first.socket.clone(), signer: ask.who.signer.clone() };
        self.turns.put(turn, ask).inspect_err(|_| self.counters.full.one_shared())
    }
}

struct Worker {
    turns: Arc<Turns<Box<Ask>>>,
    /// When one of them last said that a daemon does not answer.
    complaint: Arc<Mutex<Option<Instant>>>,
    desk: Desk,
    counters: Arc<ExternalCounters>,
    listen: Arc<ListenCounters>,
}

impl Worker {
    fn run(self) {
        loop {
            let (turn, ask) = self.turns.take();
            let reply = ask.message.reply.clone();
            // A panic is a bug of ours; it costs the message that met it, never the thread nor its turn. Its client
            // waits for no response.
            if catch_unwind(AssertUnwindSafe(|| self.answer(*ask))).is_err() {
                self.listen.panics.one_shared();
                reply.give_up();
            }
            self.turns.end(&turn);
        }
    }

    fn answer(&self, ask: Ask) {
        let Ask { thread, message, mut asked, questions, who } = ask;
        if message.received_at.elapsed() > Duration::from_millis(EXTERNAL_TURN_MS) {
            self.counters.full.one_shared();
            return self.desk.asked(thread, message, Asked { had_no_turn: true, ..asked });
        }
        let until = Instant::now() + Duration::from_millis(EXTERNAL_WAIT_MS);
        for question in questions {
            match put_to(&question, &who, until) {
                Ok(is_granted) => {
                    let counter = if is_granted { &self.counters.granted } else { &self.counters.denied };
                    counter.one_shared();
                    asked.external.put(question, is_granted);
                }
                Err(error) => {
                    self.counters.silent.one_shared();
                    self.complain(&question, &error);
                    asked.is_silent = true;
                    break;
                }
            }
        }
        self.desk.asked(thread, message, asked);
    }

    /// Not for each update: there may be many.
    fn complain(&self, question: &Question, error: &io::Error) {
        let mut last = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= Duration::from_millis(EXTERNAL_LOG_MS)) {
            *last = Some(Instant::now());
            let socket = question.socket.path();
            tracing::warn!(socket, %error, "a daemon of update policies did not answer: denied");
        }
    }
}

/// Asks one daemon one question.
fn put_to(question: &Question, who: &Who, until: Instant) -> io::Result<bool> {
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.connect_timeout(&SockAddr::unix(question.socket.path())?, left()?)?;
    let mut stream = UnixStream::from(OwnedFd::from(socket));
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(&request(question, who))?;
    let (mut answer, mut len) = ([0; 4], 0);
    while len < answer.len() {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut answer[len..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => len += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    match u32::from_be_bytes(answer) {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(io::Error::new(ErrorKind::InvalidData, format!("it answered {other}"))),
    }
}

/// The request as BIND's manual has it: version, length of the whole, signer, name, address, type and key, each with a
/// NUL behind it, and the token of TKEY, of which there is none here.
fn request(question: &Question, who: &Who) -> Vec<u8> {
    let rtype = match question.rtype.mnemonic() {
        Some(mnemonic) => mnemonic.to_owned(),
        None => format!("TYPE{}", question.rtype.0),
    };
    let name = shown(question.owner.as_ref());
    let mut bytes = [VERSION.to_be_bytes(), [0; 4]].concat();
    for text in [&who.signer, &name, &who.address, &rtype, &who.key] {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    bytes.extend_from_slice(&0u32.to_be_bytes());
    let len = u32::try_from(bytes.len()).expect("five short texts");
    bytes[4..8].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EXTERNAL_THREADS_PER_SOCKET_MAX;
    use crate::listen::{Late, Reply, Transport};
    use policy::SocketPath;
    use std::os::unix::net::UnixListener;
    use std::thread::JoinHandle;
    use wire::number::Rtype;

    fn who(is_connected: bool) -> Who {
        let key: wire::Name = "Dhcp.Example.".parse().unwrap();
        let source = "::ffff:192.0.2.7".parse().unwrap();
        Who::new(Requestor { key: key.as_ref(), source, is_connected }, Some(KeyAlgorithm::HmacSha256))
    }

    fn question(path: &str) -> Question {
        let socket = SocketPath::new(path).expect("a path for a socket");
        Question { socket, owner: "www.example.test.".parse().unwrap(), rtype: Rtype(65_280) }
    }

    /// A daemon that does `say` with the first connection, at a path of its own.
    fn daemon(test: &str, say: impl FnOnce(UnixStream) + Send + 'static) -> (String, JoinHandle<()>) {
        let path = std::env::temp_dir().join(format!("ext-{test}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let at = path.clone();
        let thread = std::thread::spawn(move || {
            say(listener.accept().unwrap().0);
            let _ = std::fs::remove_file(at);
        });
        (path.to_str().unwrap().to_owned(), thread)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(300)
    }

    #[test]
    fn a_panic_costs_one_message_and_not_the_thread() {
        // There is no thread that a message could go back to: whoever brings it panics.
        let (desk, listen) = (Desk::new(0).0, Arc::<ListenCounters>::default());
        let (asker, workers) = Asker::new(&desk, &Arc::default(), &listen);
        std::thread::spawn(workers.into_iter().next().unwrap());
        // More than may ask the same daemon at one time.
        for _ in 0..=EXTERNAL_THREADS_PER_SOCKET_MAX {
            let (connection, mut late) = tokio::sync::mpsc::channel(1);
            let peer = ([192, 0, 2, 1], 1).into();
            let reply = Reply::Stream { peer, transport: Transport::Tcp, transfers: false, connection };
            let message = Deferred { bytes: Vec::new(), reply, received_at: Instant::now() };
            let questions = vec![question("/nonexistent/socket")];
            let ask = Ask { thread: 0, message, asked: Asked::default(), questions, who: who(true) };
            assert!(asker.ask(Box::new(ask)).is_ok());
            let start = Instant::now();
            while !matches!(late.try_recv(), Ok(Late::Close)) {
                assert!(start.elapsed() < Duration::from_secs(5), "its client waits: {}", listen.panics.get());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert_eq!(listen.panics.get(), EXTERNAL_THREADS_PER_SOCKET_MAX as u64 + 1);
    }

    #[test]
    fn a_request_is_what_the_manual_says() {
        let bytes = request(&question("/s"), &who(true));
        let text = b"dhcp.example\0www.example.test\x00192.0.2.7\0TYPE65280\0dhcp.example/163/0\0";
        let expected = [&[0, 0, 0, 1, 0, 0, 0, bytes.len() as u8][..], text, &[0; 4]].concat();
        assert_eq!(bytes, expected);
        let over_udp = request(&question("/s"), &who(false));
        assert_eq!(over_udp.len(), bytes.len() - "192.0.2.7".len());
    }

    #[test]
    fn yes_is_yes_in_pieces_too_and_no_is_no() {
        for (test, answer) in [("yes", 1u32), ("no", 0)] {
            let (path, thread) = daemon(test, move |mut stream| {
                let mut bytes = vec![0; 8];
                stream.read_exact(&mut bytes).unwrap();
                let len = u32::from_be_bytes(bytes[4..8].try_into().unwrap()) as usize;
                bytes.resize(len, 0);
                stream.read_exact(&mut bytes[8..]).unwrap();
                for byte in answer.to_be_bytes() {
                    stream.write_all(&[byte]).unwrap();
                }
            });
            let until = Instant::now() + Duration::from_secs(60);
            assert_eq!(put_to(&question(&path), &who(false), until).unwrap(), answer == 1);
            thread.join().unwrap();
        }
    }

    #[test]
    fn whatever_else_a_daemon_does_is_no_answer() {
        type Say = fn(UnixStream);
        let cases: [(&str, Say, ErrorKind); 3] = [
            ("other", |mut stream| stream.write_all(&[0, 0, 0, 2]).unwrap(), ErrorKind::InvalidData),
            ("short", |mut stream| stream.write_all(&[0, 0, 0]).unwrap(), ErrorKind::UnexpectedEof),
            // The kernel tells a timeout of a socket as one that would block.
            ("slow", |mut stream| drop(stream.read_to_end(&mut Vec::new())), ErrorKind::WouldBlock),
        ];
        for (test, say, kind) in cases {
            let (path, thread) = daemon(test, say);
            let error = put_to(&question(&path), &who(false), soon()).unwrap_err();
            let resets = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::TimedOut];
            assert!(error.kind() == kind || resets.contains(&error.kind()), "{test}: {error:?}");
            thread.join().unwrap();
        }
        let away = put_to(&question("/nonexistent/socket"), &who(false), soon()).unwrap_err();
        assert_eq!(away.kind(), ErrorKind::NotFound);
        let late = put_to(&question("/nonexistent/socket"), &who(false), Instant::now()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
    }
}
