//! Queries the daemons of `external` rules in BIND's protocol, on separate threads, so that no update thread blocks.
//!
//! ```text
//!   update thread --ExternalClient--> query each daemon, one connection per question
//!                                     --UpdateQueue::policy_answered--> the same update thread
//! ```
//! An update is denied if a daemon is down, slow, or answers neither yes nor no. If the queue is full, the daemons are
//! not queried and the client gets SERVFAIL, so that it can retry.

mod queue;

use crate::limits::{EXTERNAL_QUEUE_MS, EXTERNAL_THREADS, EXTERNAL_WAIT_MS};
use crate::listen::counters::ListenCounters;
use crate::metrics::Counter;
use crate::update_queue::{ExternalAnswers, QueuedMessage, UpdateQueue};
use metrics_text::{Kind, Page};
use policy::{Question, Requestor};
use queue::{QueueKey, RequestQueue};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tsig::KeyAlgorithm;

use wire::name::NameRef;

/// Interval between log lines about daemons that do not answer.
const EXTERNAL_LOG_MS: u64 = 10_000;
/// Version of BIND's protocol.
const VERSION: u32 = 1;

/// The requestor in the format of BIND's protocol.
pub(crate) struct RequestorFields {
    signer: String,
    /// Empty over UDP: a datagram's address can be forged.
    address: String,
    key: String,
}

impl RequestorFields {
    pub(crate) fn new(requestor: Requestor<'_>, algorithm: Option<KeyAlgorithm>) -> Self {
        let signer = without_dot(requestor.key.to_canonical().as_ref());
        let address = if requestor.is_connected { requestor.source.to_canonical().to_string() } else { String::new() };
        // BIND's numbers of the algorithms. BIND adds a sum of the secret's bytes; here it is zero.
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

/// A name without its final dot.
fn without_dot(name: NameRef<'_>) -> String {
    let text = name.to_name().to_string();
    if name.is_root() { text } else { text.trim_end_matches('.').to_owned() }
}

/// An update that needs answers of daemons.
pub(crate) struct ExternalRequest {
    /// The update thread that it returns to.
    pub(crate) thread: u64,
    pub(crate) message: QueuedMessage,
    pub(crate) answers: ExternalAnswers,
    pub(crate) questions: Vec<Question>,
    pub(crate) requestor: RequestorFields,
}

/// Counts questions by their answers.
#[derive(Default, Debug)]
pub(crate) struct ExternalCounters {
    granted: Counter,
    denied: Counter,
    silent: Counter,
    full: Counter,
}

impl ExternalCounters {
    pub(crate) fn write(&self, page: &mut Page) {
        let help =
            "Questions to daemons of external rules, by answer; full: updates refused because the queue was full.";
        let mut family = page.family("catamaran_external_questions_total", Kind::Counter, help);
        family.series(&[("answer", "granted")], self.granted.get());
        family.series(&[("answer", "denied")], self.denied.get());
        family.series(&[("answer", "none")], self.silent.get());
        family.series(&[("answer", "full")], self.full.get());
    }
}

/// Queues requests to daemons.
#[derive(Clone)]
pub(crate) struct ExternalClient {
    queue: Arc<RequestQueue<Box<ExternalRequest>>>,
    counters: Arc<ExternalCounters>,
}

impl ExternalClient {
    /// A client, and the loops of its threads.
    pub(crate) fn new(
        update_queue: &UpdateQueue,
        counters: &Arc<ExternalCounters>,
        listen: &Arc<ListenCounters>,
    ) -> (Self, Vec<impl FnOnce() + Send + 'static + use<>>) {
        let queue = Arc::<RequestQueue<_>>::default();
        let failure_logged = Arc::<Mutex<Option<Instant>>>::default();
        let worker = |_| {
            let (queue, failure_logged) = (queue.clone(), failure_logged.clone());
            let (update_queue, counters, listen) = (update_queue.clone(), counters.clone(), listen.clone());
            move || Worker { queue, failure_logged, update_queue, counters, listen }.run()
        };
        let workers = (0..EXTERNAL_THREADS).map(worker).collect::<Vec<_>>();
        (Self { queue, counters: counters.clone() }, workers)
    }

    /// Queues a request; returns it when the queue is full.
    pub(crate) fn submit(&self, request: Box<ExternalRequest>) -> Result<(), Box<ExternalRequest>> {
        // Each request has at least one question.
        let Some(first) = request.questions.first() else { return Err(request) };
        let key = QueueKey { socket: first.socket.clone(), signer: request.requestor.signer.clone() };
        self.queue.put(key, request).inspect_err(|_| self.counters.full.one_shared())
    }
}

struct Worker {
    queue: Arc<RequestQueue<Box<ExternalRequest>>>,
    /// When a failure was last logged, by any worker.
    failure_logged: Arc<Mutex<Option<Instant>>>,
    update_queue: UpdateQueue,
    counters: Arc<ExternalCounters>,
    listen: Arc<ListenCounters>,
}

impl Worker {
    fn run(self) {
        loop {
            let (key, request) = self.queue.take();
            let reply = request.message.reply.clone();
            // A panic is a bug. It costs only this message, whose client is released.
            if catch_unwind(AssertUnwindSafe(|| self.query(*request))).is_err() {
                self.listen.panics.one_shared();
                reply.give_up();
            }
            self.queue.end(&key);
        }
    }

    fn query(&self, request: ExternalRequest) {
        let ExternalRequest { thread, message, mut answers, questions, requestor } = request;
        if message.received_at.elapsed() > Duration::from_millis(EXTERNAL_QUEUE_MS) {
            self.counters.full.one_shared();
            return self.update_queue.policy_answered(
                thread,
                message,
                ExternalAnswers { was_queue_full: true, ..answers },
            );
        }
        let until = Instant::now() + Duration::from_millis(EXTERNAL_WAIT_MS);
        for question in questions {
            match query_daemon(&question, &requestor, until) {
                Ok(is_granted) => {
                    let counter = if is_granted { &self.counters.granted } else { &self.counters.denied };
                    counter.one_shared();
                    answers.external.insert(question, is_granted);
                }
                Err(error) => {
                    self.counters.silent.one_shared();
                    self.log_failure(&question, &error);
                    answers.has_failed = true;
                    break;
                }
            }
        }
        self.update_queue.policy_answered(thread, message, answers);
    }

    /// Logs a failure, at most once per interval.
    fn log_failure(&self, question: &Question, error: &io::Error) {
        let mut last = self.failure_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= Duration::from_millis(EXTERNAL_LOG_MS)) {
            *last = Some(Instant::now());
            let socket = question.socket.path();
            tracing::warn!(socket, %error, "an update policy daemon did not answer: update denied");
        }
    }
}

/// Sends one question to one daemon.
fn query_daemon(question: &Question, requestor: &RequestorFields, until: Instant) -> io::Result<bool> {
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.connect_timeout(&SockAddr::unix(question.socket.path())?, left()?)?;
    let mut stream = UnixStream::from(OwnedFd::from(socket));
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(&request(question, requestor))?;
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

/// The request, as BIND's manual defines it: version, total length, then signer, name, address, type and key, each
/// ended by a NUL, then the length of the TKEY token, which is always zero here.
fn request(question: &Question, requestor: &RequestorFields) -> Vec<u8> {
    let rtype = match question.rtype.mnemonic() {
        Some(mnemonic) => mnemonic.to_owned(),
        None => format!("TYPE{}", question.rtype.0),
    };
    let name = without_dot(question.owner.as_ref());
    let mut bytes = [VERSION.to_be_bytes(), [0; 4]].concat();
    for text in [&requestor.signer, &name, &requestor.address, &rtype, &requestor.key] {
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
    use crate::listen::{DeferredResponse, Reply, Transport};
    use policy::SocketPath;
    use std::os::unix::net::UnixListener;
    use std::thread::JoinHandle;
    use wire::number::Rtype;

    fn requestor(is_connected: bool) -> RequestorFields {
        let key: wire::Name = "Dhcp.Example.".parse().unwrap();
        let source = "::ffff:192.0.2.7".parse().unwrap();
        RequestorFields::new(Requestor { key: key.as_ref(), source, is_connected }, Some(KeyAlgorithm::HmacSha256))
    }

    fn question(path: &str) -> Question {
        let socket = SocketPath::new(path).expect("a path for a socket");
        Question { socket, owner: "www.example.test.".parse().unwrap(), rtype: Rtype(65_280) }
    }

    /// A daemon that runs `say` on its first connection, at its own path.
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
        // There is no update thread, so returning a message panics.
        let (update_queue, listen) = (UpdateQueue::new(0).0, Arc::<ListenCounters>::default());
        let (external, workers) = ExternalClient::new(&update_queue, &Arc::default(), &listen);
        std::thread::spawn(workers.into_iter().next().unwrap());
        // One more than the threads that may query the same daemon.
        for _ in 0..=EXTERNAL_THREADS_PER_SOCKET_MAX {
            let (connection, mut late) = tokio::sync::mpsc::channel(1);
            let peer = ([192, 0, 2, 1], 1).into();
            let reply = Reply::Stream { peer, transport: Transport::Tcp, transfers: false, connection };
            let message = QueuedMessage { bytes: Vec::new(), reply, received_at: Instant::now() };
            let questions = vec![question("/nonexistent/socket")];
            let request = ExternalRequest {
                thread: 0,
                message,
                answers: ExternalAnswers::default(),
                questions,
                requestor: requestor(true),
            };
            assert!(external.submit(Box::new(request)).is_ok());
            let start = Instant::now();
            while !matches!(late.try_recv(), Ok(DeferredResponse::Close)) {
                assert!(
                    start.elapsed() < Duration::from_secs(5),
                    "the client still waits after {} panics",
                    listen.panics.get()
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert_eq!(listen.panics.get(), EXTERNAL_THREADS_PER_SOCKET_MAX as u64 + 1);
    }

    #[test]
    fn a_request_matches_the_manual_of_bind() {
        let bytes = request(&question("/s"), &requestor(true));
        let text = b"dhcp.example\0www.example.test\x00192.0.2.7\0TYPE65280\0dhcp.example/163/0\0";
        let expected = [&[0, 0, 0, 1, 0, 0, 0, bytes.len() as u8][..], text, &[0; 4]].concat();
        assert_eq!(bytes, expected);
        let over_udp = request(&question("/s"), &requestor(false));
        assert_eq!(over_udp.len(), bytes.len() - "192.0.2.7".len());
    }

    #[test]
    fn yes_and_no_are_read_even_when_split() {
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
            assert_eq!(query_daemon(&question(&path), &requestor(false), until).unwrap(), answer == 1);
            thread.join().unwrap();
        }
    }

    #[test]
    fn other_answers_and_failures_are_errors() {
        type DaemonReply = fn(UnixStream);
        let cases: [(&str, DaemonReply, ErrorKind); 3] = [
            ("other", |mut stream| stream.write_all(&[0, 0, 0, 2]).unwrap(), ErrorKind::InvalidData),
            ("short", |mut stream| stream.write_all(&[0, 0, 0]).unwrap(), ErrorKind::UnexpectedEof),
            // The kernel reports a socket timeout as "would block".
            ("slow", |mut stream| drop(stream.read_to_end(&mut Vec::new())), ErrorKind::WouldBlock),
        ];
        for (test, say, kind) in cases {
            let (path, thread) = daemon(test, say);
            let error = query_daemon(&question(&path), &requestor(false), soon()).unwrap_err();
            let resets = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::TimedOut];
            assert!(error.kind() == kind || resets.contains(&error.kind()), "{test}: {error:?}");
            thread.join().unwrap();
        }
        let away = query_daemon(&question("/nonexistent/socket"), &requestor(false), soon()).unwrap_err();
        assert_eq!(away.kind(), ErrorKind::NotFound);
        let late = query_daemon(&question("/nonexistent/socket"), &requestor(false), Instant::now()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
    }
}
