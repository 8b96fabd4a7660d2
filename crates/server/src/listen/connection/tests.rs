//! Framing, order and every limit, over real sockets with a small echo responder.

use super::*;
use crate::combiner::Dispatch;
use crate::limits::UPDATE_FORGET_MS;
use crate::listen::counters::{AllConnections, ConnectionCounters, ListenCounters};
use crate::listen::handler::{ConnectionLimits, OpenConnection};
use crate::listen::sockets::{self, Sharing};
use crate::listen::tcp::{StreamProtocol, TcpService};
use crate::listen::{PinnedResponder, Transport};
use config::Tcp;
use process::stop::Stop;
use std::io::{Read, Write};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Deferred messages, each with the destination of its response.
type QueuedMessage = Arc<Mutex<Vec<(Vec<u8>, Reply)>>>;

/// Time of the most expensive answer: NXDOMAIN in a zone with the maximum of NSEC3 iterations.
const COSTLY: Duration = Duration::from_micros(100);

/// Echoes messages, except: `d...` is deferred until the test takes it from `deferred`; `p` panics; `s` gets no
/// response; `b...` gets the largest possible response; `c...` takes [`COSTLY`].
struct Echo {
    deferred: QueuedMessage,
}

impl Responder for Echo {
    type Pinned<'a> = &'a mut Self;
    fn pin(&mut self) -> &mut Self {
        self
    }
    fn offline(&mut self) {}
}

impl PinnedResponder for &mut Echo {
    fn respond(&mut self, bytes: &[u8], _peer: SocketAddr, _transport: Transport, out: &mut [u8]) -> Action {
        match bytes.first() {
            Some(b'd') => Action::Defer,
            Some(b's') => Action::Silent,
            Some(b'p') => panic!("panic of the test"),
            Some(b'b') => Action::Respond(out.len()),
            _ => {
                let start = std::time::Instant::now();
                while bytes.starts_with(b"c") && start.elapsed() < COSTLY {
                    std::hint::spin_loop();
                }
                out[..bytes.len()].copy_from_slice(bytes);
                Action::Respond(bytes.len())
            }
        }
    }

    fn defer(&mut self, bytes: &[u8], reply: Reply, _dispatch: Dispatch, _out: &mut [u8]) -> Action {
        self.deferred.lock().unwrap().push((bytes.to_vec(), reply));
        Action::Defer
    }
}

struct Server {
    address: SocketAddr,
    counters: Arc<ListenCounters>,
    connections: Arc<ConnectionCounters>,
    limits: ConnectionLimits,
    deferred: QueuedMessage,
    stop: Stop,
}

impl Server {
    fn start(idle_ms: u64, connections_max: usize, per_client_max: usize) -> Self {
        Self::with(&Tcp { connections_max, connections_per_client_max: per_client_max, idle_ms, ..Tcp::default() })
    }

    fn with(limits: &Tcp) -> Self {
        let listener: StdListener = sockets::tcp("127.0.0.1:0".parse().unwrap(), Sharing::Shared).unwrap();
        let address = listener.local_addr().unwrap();
        let (counters, deferred, stop) = (Arc::<ListenCounters>::default(), Arc::default(), Stop::default());
        let echo = Echo { deferred: Arc::clone(&deferred) };
        let (their_counters, their_stop) = (counters.clone(), stop.clone());
        let all = AllConnections::default();
        let connections = all.of(Transport::Tcp).clone();
        let limits = ConnectionLimits::new(limits, &[]);
        let their_limits = limits.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let handler = TransportHandler::new(Transport::Tcp, echo, &their_limits, &all, their_counters);
            let service = TcpService::new(handler, StreamProtocol::Plain);
            tokio::task::LocalSet::new().block_on(&runtime, async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::task::spawn_local(service.accept(listener));
                while !their_stop.is_ordered() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        });
        Self { address, counters, connections, limits, deferred, stop }
    }

    fn connect(&self) -> StdStream {
        let stream = StdStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..1_000 {
            if is_so(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what} did not happen within ten seconds");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.order();
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

fn read(stream: &mut StdStream) -> Vec<u8> {
    let mut prefix = [0; 2];
    stream.read_exact(&mut prefix).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
    stream.read_exact(&mut message).unwrap();
    message
}

/// Whether the server closes the connection. Anything it still sends is ignored.
fn is_closed(stream: &mut StdStream) -> bool {
    stream.read_to_end(&mut Vec::new()).is_ok()
}

#[test]
fn requests_are_pipelined_and_bytes_may_come_one_by_one() {
    let server = Server::start(5_000, 10, 10);
    let mut stream = server.connect();
    let all: Vec<u8> = (0..500u16).flat_map(|n| framed(&n.to_be_bytes())).collect();
    stream.write_all(&all).unwrap();
    for n in 0..500u16 {
        assert_eq!(read(&mut stream), n.to_be_bytes());
    }
    for byte in framed(b"gently") {
        stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(read(&mut stream), b"gently");
    let largest = vec![7; 65_535];
    stream.write_all(&framed(&largest)).unwrap();
    assert_eq!(read(&mut stream), largest);
    // A client that closed its sending side still gets its responses.
    stream.write_all(&framed(b"last")).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read(&mut stream), b"last");
    assert!(is_closed(&mut stream));
    server.wait_for("the end of the connection", |server| server.connections.open.get() == 0);
}

#[test]
fn a_deferred_response_is_overtaken_and_comes_later() {
    let server = Server::start(5_000, 10, 10);
    let mut stream = server.connect();
    stream.write_all(&[framed(b"d1"), framed(b"x"), framed(b"d2"), framed(b"y")].concat()).unwrap();
    assert_eq!(read(&mut stream), b"x");
    assert_eq!(read(&mut stream), b"y");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let deferred = std::mem::take(&mut *server.deferred.lock().unwrap());
    for (message, reply) in deferred.into_iter().rev() {
        reply.send(message);
    }
    assert_eq!(read(&mut stream), b"d2");
    assert_eq!(read(&mut stream), b"d1");
    assert!(is_closed(&mut stream));
}

#[test]
fn an_outcome_that_never_comes_closes_the_connection() {
    let server = Server::start(5_000, 10, 10);
    let mut stream = server.connect();
    stream.write_all(&framed(b"d")).unwrap();
    server.wait_for("deferral", |server| !server.deferred.lock().unwrap().is_empty());
    let (_, reply) = server.deferred.lock().unwrap().pop().unwrap();
    reply.give_up();
    assert!(is_closed(&mut stream));
}

#[test]
fn requests_in_flight_are_limited() {
    let server = Server::start(5_000, 10, 10);
    let mut stream = server.connect();
    let all: Vec<u8> = (0..TCP_PIPELINE_MAX + 50).flat_map(|_| framed(b"d")).collect();
    stream.write_all(&all).unwrap();
    server.wait_for("the limit", |server| server.deferred.lock().unwrap().len() == TCP_PIPELINE_MAX);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.deferred.lock().unwrap().len(), TCP_PIPELINE_MAX);
    for (message, reply) in std::mem::take(&mut *server.deferred.lock().unwrap()) {
        reply.send(message);
    }
    server.wait_for("the rest", |server| server.deferred.lock().unwrap().len() == 50);
}

/// The client reads nothing, so most responses stay in the queue. They count as memory of the connection too.
#[test]
fn waiting_deferred_responses_count_as_memory() {
    const BYTES: usize = 60_000;
    let unread = |memory_bytes_max: usize| {
        let server = Server::with(&Tcp { memory_bytes_max, ..Tcp::default() });
        let mut stream = server.connect();
        stream.write_all(&framed(b"d").repeat(TCP_PIPELINE_MAX)).unwrap();
        server.wait_for("deferral", |server| server.deferred.lock().unwrap().len() == TCP_PIPELINE_MAX);
        for (_, reply) in std::mem::take(&mut *server.deferred.lock().unwrap()) {
            reply.send(vec![0; BYTES]);
        }
        (server, stream)
    };
    let (server, mut stream) = unread(Tcp::default().memory_bytes_max);
    server.wait_for("memory", |server| server.limits.memory_used() >= 6 << 20);
    assert_eq!(server.connections.closed(CloseReason::Memory), 0);
    for _ in 0..TCP_PIPELINE_MAX {
        assert_eq!(read(&mut stream).len(), BYTES);
    }
    drop(stream);
    server.wait_for("the end", |server| server.limits.memory_used() == 0);
    let (server, _stream) = unread(4 << 20);
    server.wait_for("the cut", |server| server.connections.closed(CloseReason::Memory) == 1);
    server.wait_for("the end", |server| server.limits.memory_used() == 0);
}

#[test]
fn idle_connections_and_incomplete_messages_time_out() {
    let server = Server::start(150, 10, 10);
    let mut silent = server.connect();
    let mut trickling = server.connect();
    let start = std::time::Instant::now();
    let mut writer = trickling.try_clone().unwrap();
    let trickle = std::thread::spawn(move || {
        // One byte each 20 ms, of a message of 100 bytes. It never completes.
        let _ = writer.write_all(&[0, 100]);
        while writer.write_all(b"x").is_ok() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(is_closed(&mut silent));
    let _ = trickling.read_to_end(&mut Vec::new());
    assert!(start.elapsed() < Duration::from_secs(3), "took {:?}", start.elapsed());
    trickle.join().unwrap();
    assert_eq!(server.connections.closed(CloseReason::Idle), 2);
}

/// RFC 7766 3: a connection is not idle while a response is due.
#[test]
fn a_client_that_waits_for_a_response_is_not_idle() {
    let server = Server::start(150, 10, 10);
    let mut stream = server.connect();
    stream.write_all(&[framed(b"d"), framed(b"x")].concat()).unwrap();
    assert_eq!(read(&mut stream), b"x");
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(server.connections.closed(CloseReason::Idle), 0);
    let (message, reply) = server.deferred.lock().unwrap().pop().unwrap();
    reply.send(message);
    assert_eq!(read(&mut stream), b"d");
    assert_eq!(server.connections.closed(CloseReason::Idle), 0);
    // After the response the connection is idle.
    let start = std::time::Instant::now();
    assert!(is_closed(&mut stream));
    assert!((100..2_000).contains(&start.elapsed().as_millis()), "after {:?}", start.elapsed());
    assert_eq!(server.connections.closed(CloseReason::Idle), 1);
}

#[test]
fn a_waiting_client_that_does_not_read_is_closed() {
    let server = Server::start(200, 10, 10);
    let mut stream = server.connect();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let all: Vec<u8> = (0..1_000).flat_map(|_| framed(b"b")).collect();
    let _ = stream.write_all(&[framed(b"d"), all].concat());
    server.wait_for("the cut", |server| server.connections.closed(CloseReason::SlowReader) == 1);
    assert_eq!(server.connections.closed(CloseReason::Idle), 0);
}

#[test]
fn a_lost_response_does_not_block_the_connection_forever() {
    let server = Server::start(150, 10, 10);
    let mut stream = server.connect();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(&framed(b"d")).unwrap();
    server.wait_for("deferral", |server| !server.deferred.lock().unwrap().is_empty());
    let start = std::time::Instant::now();
    server.deferred.lock().unwrap().clear();
    assert!(is_closed(&mut stream));
    let waited = start.elapsed().as_millis() as u64;
    assert!((UPDATE_FORGET_MS..2 * UPDATE_FORGET_MS).contains(&waited), "{waited} ms");
    assert_eq!(server.connections.closed(CloseReason::Idle), 0);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let server = Server::start(200, 10, 10);
    let mut stream = server.connect();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    // Far more responses of 64 KiB than the kernel and the backlog hold.
    let all: Vec<u8> = (0..1_000).flat_map(|_| framed(b"b")).collect();
    let _ = stream.write_all(&all);
    server.wait_for("the cut", |server| server.connections.closed(CloseReason::SlowReader) == 1);
}

/// How a connection ends if its client requests large messages and reads `bytes` bytes every 50 ms. `None` if it is
/// still open after two seconds.
fn read_at(bytes: usize) -> Option<End> {
    let limits = Tcp { idle_ms: 200, ..Tcp::default() };
    let limits = ConnectionLimits::new(&limits, &[]);
    let handler = TransportHandler::new(
        Transport::Tcp,
        Echo { deferred: Arc::default() },
        &limits,
        &AllConnections::default(),
        Arc::default(),
    );
    let handler = Rc::new(handler);
    let open = OpenConnection::enter(&handler, [192, 0, 2, 1].into()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // The pipe between the two ends buffers almost nothing.
        let (mut client, server) = tokio::io::duplex(64);
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let mut connection = Connection::new(&handler, open.reservation(), server, peer, false);
        let mut alarm = Box::pin(tokio::time::sleep_until(handler.limits.next_check(connection.deadline())));
        let serving = poll_fn(|context| connection.poll(context, alarm.as_mut()));
        let reading = async {
            client.write_all(&framed(b"b").repeat(8)).await.unwrap();
            loop {
                let mut piece = vec![0; bytes];
                client.read_exact(&mut piece).await.unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            end = serving => Some(end),
            () = reading => None,
            () = tokio::time::sleep(Duration::from_secs(2)) => None,
        }
    })
}

#[test]
fn a_client_that_reads_too_slowly_is_closed() {
    assert_eq!(read_at(1), Some(End::ByServer(CloseReason::SlowReader)));
    // 2,000 bytes/s, and 16,000 bytes/s.
    assert_eq!(read_at(100), Some(End::ByServer(CloseReason::SlowReader)));
    assert_eq!(read_at(800), None);
}

#[test]
fn large_responses_arrive_without_a_pause() {
    const COUNT: usize = 100;
    let server = Server::start(10_000, 10, 10);
    for is_half_closed in [false, true, false, true] {
        let mut stream = server.connect();
        let start = std::time::Instant::now();
        // Six times what may wait at once.
        stream.write_all(&framed(b"b").repeat(COUNT)).unwrap();
        if is_half_closed {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        for _ in 0..COUNT {
            assert_eq!(read(&mut stream).len(), 65_535);
        }
        assert!(start.elapsed() < Duration::from_secs(1), "half closed: {is_half_closed}, {:?}", start.elapsed());
        assert!(!is_half_closed || is_closed(&mut stream));
    }
}

#[test]
fn a_flooding_connection_does_not_starve_others() {
    let server = Server::start(5_000, 10, 10);
    let (mut flood, mut other) = (server.connect(), server.connect());
    let mut writer = flood.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let costly = framed(b"c").repeat(10_000);
        while writer.write_all(&costly).is_ok() {}
    });
    assert_eq!(read(&mut flood), b"c");
    let mut reader = flood.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while reader.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    let mut latencies: Vec<Duration> = (0..31)
        .map(|_| {
            let start = std::time::Instant::now();
            other.write_all(&framed(b"x")).unwrap();
            assert_eq!(read(&mut other), b"x");
            start.elapsed()
        })
        .collect();
    latencies.sort();
    flood.shutdown(std::net::Shutdown::Both).unwrap();
    writing.join().unwrap();
    reading.join().unwrap();
    assert!(latencies[15] < Duration::from_millis(20), "{latencies:?}");
}

#[test]
fn limits_on_connections_hold() {
    let server = Server::start(5_000, 100, 2);
    let (mut first, mut second) = (server.connect(), server.connect());
    for stream in [&mut first, &mut second] {
        stream.write_all(&framed(b"x")).unwrap();
        assert_eq!(read(stream), b"x");
    }
    assert!(is_closed(&mut server.connect()));
    assert_eq!(server.connections.closed(CloseReason::OverLimit), 1);
    drop(first);
    server.wait_for("a free slot", |server| server.connections.open.get() == 1);
    let mut third = server.connect();
    third.write_all(&framed(b"x")).unwrap();
    assert_eq!(read(&mut third), b"x");
}

#[test]
fn idle_timeout_is_shorter_when_most_slots_are_in_use() {
    let server = Server::start(4_000, 4, 4);
    let start = std::time::Instant::now();
    let _open: Vec<StdStream> = (0..3).map(|_| server.connect()).collect();
    server.wait_for("three connections", |server| server.connections.open.get() == 3);
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(server.connections.closed(CloseReason::Idle), 0, "there is room");
    let mut fourth = server.connect();
    // An active connection stays open; a silent one is closed.
    while server.connections.closed(CloseReason::Idle) == 0 {
        fourth.write_all(&framed(b"x")).unwrap();
        assert_eq!(read(&mut fourth), b"x");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() < Duration::from_millis(3_900), "after {:?}", start.elapsed());
    fourth.write_all(&framed(b"x")).unwrap();
    assert_eq!(read(&mut fourth), b"x");
}

#[test]
fn a_panic_costs_one_connection_only() {
    let server = Server::start(5_000, 10, 10);
    let (mut victim, mut other) = (server.connect(), server.connect());
    victim.write_all(&framed(b"p")).unwrap();
    assert!(is_closed(&mut victim));
    other.write_all(&framed(b"x")).unwrap();
    assert_eq!(read(&mut other), b"x");
    assert_eq!(server.counters.panics.get(), 1);
    let mut speechless = server.connect();
    speechless.write_all(&framed(b"s")).unwrap();
    assert!(is_closed(&mut speechless));
}

#[test]
fn responses_before_a_malformed_message_are_still_sent() {
    let server = Server::start(5_000, 10, 10);
    for mistake in [b"s", b"p"] {
        let mut stream = server.connect();
        // In one segment.
        stream.write_all(&[framed(b"x"), framed(b"y"), framed(mistake), framed(b"z")].concat()).unwrap();
        assert_eq!((read(&mut stream), read(&mut stream)), (b"x".to_vec(), b"y".to_vec()));
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "the message after the malformed one was answered");
    }
}
