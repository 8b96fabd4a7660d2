//! A warm worker with real sockets and real zones allocates nothing, whatever the query.

use super::UdpWorker;
use crate::allocations;
use crate::answer::context::{AnswerOptions, Service};
use crate::answer::cookies::{Cookies, SecretSource};
use crate::answer::limiter::shared::RateLimitWatch;
use crate::answer::{PinnedQueryResponder, QueryResponder};
use crate::combiner::Dispatch;
use crate::listen::batch::{BatchSocket, DatagramBatch};
use crate::listen::handler::ConnectionLimits;
use crate::listen::sockets::{self, Sharing};
use crate::listen::{Action, PinnedResponder, Reply, Responder, Transport};
use crate::published::readers::Readers;
use crate::published::serving::{ServingReader, ServingState};
use crate::update_queue::UpdateQueue;
use config::Tcp;
use config::files::zone_load::load_text;
use config::rate_limit::RateLimit;
use process::stop::Stop;
use replica::io::Serving;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::parse::{DropReason, Message};
use wire::{Name, Rtype};
use zone::answer::Batch;
use zone::record::{Record, ZoneId};
use zone::set::{StoreConfig, ZoneSet, ZoneSetConfig};

const COOKIE: u16 = 10;
const CLIENT_COOKIE: [u8; 8] = [1; 8];

/// Reports how much its thread has allocated, at the start of each batch.
struct Watched {
    responder: QueryResponder,
    allocated: Arc<AtomicU64>,
}

impl Responder for Watched {
    type Pinned<'a> = WatchedBatch<'a>;

    fn pin(&mut self) -> WatchedBatch<'_> {
        self.allocated.store(allocations::count(), Ordering::SeqCst);
        WatchedBatch(self.responder.pin())
    }

    fn offline(&mut self) {
        self.responder.offline();
    }
}

struct WatchedBatch<'a>(PinnedQueryResponder<'a>);

impl PinnedResponder for WatchedBatch<'_> {
    fn respond(&mut self, bytes: &[u8], peer: SocketAddr, transport: Transport, out: &mut [u8]) -> Action {
        self.0.respond(bytes, peer, transport, out)
    }

    fn ignore(&mut self, reason: DropReason) {
        self.0.ignore(reason);
    }

    fn respond_batch(&mut self, batch: &mut DatagramBatch) {
        self.0.respond_batch(batch);
    }

    fn defer(&mut self, bytes: &[u8], reply: Reply, dispatch: Dispatch, out: &mut [u8]) -> Action {
        self.0.defer(bytes, reply, dispatch, out)
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Two zones. One has a delegation, an alias, a wildcard, a DNAME and an RRset that does not fit a datagram; the other
/// is signed.
fn zones() -> ZoneSet {
    let apex = name("example.test.");
    let id = ZoneId { view: 0, apex: apex.clone() };
    let record = |owner: &str, rtype, rdata: &[u8]| Record { owner: name(owner), rtype, ttl: 60, rdata: rdata.into() };
    let target = |text: &str| name(text).as_bytes().to_vec();
    let soa = [b"\x02ns\x00\x04mail\x00".as_slice(), &[0, 0, 0, 1].repeat(5)].concat();
    let mut records = vec![
        record("example.test.", Rtype::SOA, &soa),
        record("example.test.", Rtype::NS, &target("ns.example.test.")),
        record("ns.example.test.", Rtype::A, &[192, 0, 2, 1]),
        record("alias.example.test.", Rtype::CNAME, &target("ns.example.test.")),
        record("*.wild.example.test.", Rtype::A, &[192, 0, 2, 2]),
        record("short.example.test.", Rtype::DNAME, &target("example.test.")),
        record("below.example.test.", Rtype::NS, &target("ns.below.example.test.")),
        record("ns.below.example.test.", Rtype::A, &[192, 0, 2, 3]),
    ];
    records.extend((0..80).map(|last| record("many.example.test.", Rtype::A, &[10, 0, 0, last])));
    let mut set =
        ZoneSet::new(ZoneSetConfig { store: StoreConfig { huge_pages: false, ..StoreConfig::default() } }).unwrap();
    let mut edit = set.edit();
    edit.add_records(&id, &records).unwrap();
    edit.commit_stage(&id).unwrap();
    let signed = load_text(include_str!("../../../tests/it/signed.zone"), "signed.zone").unwrap();
    let id = ZoneId { view: 0, apex: signed.apex };
    edit.add_records(&id, signed.records.iter()).unwrap();
    edit.commit_stage(&id).unwrap();
    let version = edit.seal();
    set.publish(version);
    set
}

/// DNSSEC queries of the signed zone: existing and missing names, wildcards, signed and unsigned delegations, a DNAME.
const OF_SIGNED: [(&str, Rtype); 14] = [
    ("www.signed.test.", Rtype::A),
    ("www.signed.test.", Rtype::ANY),
    ("signed.test.", Rtype::DNSKEY),
    ("signed.test.", Rtype::NSEC),
    ("alias.signed.test.", Rtype::A),
    ("www.signed.test.", Rtype::MX),
    ("nothing.signed.test.", Rtype::A),
    ("wild.signed.test.", Rtype::A),
    ("any.wild.signed.test.", Rtype::TXT),
    ("any.wild.signed.test.", Rtype::A),
    ("www.below.signed.test.", Rtype::A),
    ("www.safe.signed.test.", Rtype::A),
    ("safe.signed.test.", Rtype::DS),
    ("www.short.signed.test.", Rtype::A),
];

/// One of each kind of message that a worker answers by itself. `given` is a cookie that the server gave this client;
/// one message has a forged cookie instead.
fn messages(given: &[u8]) -> Vec<Vec<u8>> {
    let ask = |text: &str, rtype| MessageBuilder::query(7, name(text).as_ref(), rtype).edns(1232, false).build();
    let with_cookie = |text: &str, cookie: &[u8]| {
        MessageBuilder::query(8, name(text).as_ref(), Rtype::A).edns(1232, false).option(COOKIE, cookie).build()
    };
    let of_signed =
        |(text, rtype): (&str, Rtype)| MessageBuilder::query(9, name(text).as_ref(), rtype).edns(1232, true).build();
    let mut messages = vec![
        ask("ns.example.test.", Rtype::A),
        MessageBuilder::query(7, name("ns.example.test.").as_ref(), Rtype::A).build(),
        ask("ns.example.test.", Rtype::MX),
        ask("nothing.example.test.", Rtype::A),
        ask("alias.example.test.", Rtype::A),
        ask("any.wild.example.test.", Rtype::A),
        ask("www.below.example.test.", Rtype::A),
        ask("many.example.test.", Rtype::A),
        ask("example.test.", Rtype::ANY),
        ask("elsewhere.test.", Rtype::A),
        ask("www.short.example.test.", Rtype::A),
        ask("ns.short.example.test.", Rtype::A),
        ask("wild.example.test.", Rtype::A),
        ask("below.example.test.", Rtype::DS),
        with_cookie("ns.example.test.", &CLIENT_COOKIE),
        with_cookie("ns.example.test.", given),
        with_cookie("nothing.example.test.", given),
        with_cookie("ns.example.test.", &[&given[..23], &[!given[23]]].concat()),
        b"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\xFF".to_vec(),
        b"short".to_vec(),
    ];
    messages.extend(OF_SIGNED.map(of_signed));
    messages
}

/// The cookie that the server gives this client. The second query checks that the server accepts it.
fn cookie(client: &UdpSocket, server: SocketAddr) -> Vec<u8> {
    let mut given = CLIENT_COOKIE.to_vec();
    for _ in 0..2 {
        let query = MessageBuilder::query(8, name("ns.example.test.").as_ref(), Rtype::A);
        let query = query.edns(1232, false).option(COOKIE, &given).build();
        client.send_to(&query, server).unwrap();
        let mut response = [0; 1_232];
        let len = client.recv(&mut response).unwrap();
        let message = Message::parse(&response[..len]).unwrap();
        let cookie = message.edns().unwrap().option(COOKIE).unwrap();
        assert!(given.len() == CLIENT_COOKIE.len() || given == cookie, "a valid cookie comes back unchanged");
        given = cookie.to_vec();
    }
    given
}

#[test]
fn a_warm_worker_allocates_nothing() {
    let zones = zones();
    let serving = Arc::<ServingState>::default();
    serving.set(Serving::Yes);
    let options = AnswerOptions { udp_payload: 1232, ..AnswerOptions::default() };
    // No client is exempt, so that responses over the limit are covered too.
    let rate_limit = RateLimit { per_second: 100, burst: 10, slip: 2, exempt: Vec::new(), ..RateLimit::default() };
    let responder = QueryResponder {
        service: Arc::new(Service {
            options,
            update_queue: UpdateQueue::new(1).0,
            connections: ConnectionLimits::new(&Tcp::default(), &[]),
        }),
        zones: Arc::<Readers>::default().add(zones.reader()),
        serving: ServingReader::new(serving, Arc::default()),
        counters: Arc::default(),
        batch: Batch::new(),
        cookies: Some(Cookies::new(SecretSource::cluster(&[1; 32]))),
        rate_limit: Some(RateLimitWatch::of_one(&rate_limit)),
        started_at: Instant::now(),
    };
    let counters = responder.counters.clone();
    let socket = sockets::udp("127.0.0.1:0".parse().unwrap(), Sharing::Alone).unwrap();
    let server = socket.local_addr().unwrap();
    let socket = BatchSocket::new(socket).unwrap();
    let allocated = Arc::<AtomicU64>::default();
    let watched = Watched { responder, allocated: allocated.clone() };
    let (stop, order) = (Stop::default(), Stop::default());
    let worker = UdpWorker::new(vec![socket], watched, Arc::default());
    let theirs = stop.clone();
    let thread = std::thread::spawn(move || worker.run(&theirs));

    let clients: Vec<UdpSocket> = (0..4).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    clients[0].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let messages = messages(&cookie(&clients[0], server));
    let mut sent = counters.received.get();
    let mut ask = |rounds: usize| {
        for round in 0..rounds {
            let client = &clients[round % clients.len()];
            messages.iter().for_each(|message| assert_eq!(client.send_to(message, server).unwrap(), message.len()));
            sent += messages.len() as u64;
            let until = Instant::now() + Duration::from_secs(10);
            while counters.received.get() < sent {
                assert!(Instant::now() < until, "{} of {sent} arrived", counters.received.get());
                assert!(!order.wait(Duration::from_micros(50)));
            }
        }
        // Allocations of the last batch only show when the next one starts.
        allocated.load(Ordering::SeqCst)
    };
    let warm = ask(50);
    let after = ask(500);
    stop.order();
    thread.join().unwrap();
    assert!(warm > 0, "the worker made its buffers");
    assert_eq!(after, warm, "allocations in {} messages", 500 * messages.len());
}
