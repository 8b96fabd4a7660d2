//! A worker with real sockets and real zones, once it is warm: it allocates nothing, whatever it is asked.

use super::UdpWorker;
use crate::allocations;
use crate::combiner::Dispatch;
use crate::config::Tcp;
use crate::config::rate_limit::RateLimit;
use crate::files::zone_load::load_text;
use crate::listen::Transport;
use crate::listen::batch::BatchSocket;
use crate::listen::handler::ConnectionLimits;
use crate::listen::sockets::{self, Sharing};
use crate::listen::{Action, PinnedResponder, Reply, Responder};
use crate::node::readers::Readers;
use crate::service::answer::{AnswerOptions, PinnedQueryResponder, QueryResponder, Service};
use crate::service::cookies::{Cookies, SecretSource};
use crate::service::limiter::shared::RateLimitWatch;
use crate::service::serving::{ServingReader, ServingState};
use crate::service::update_thread::UpdateQueue;
use crate::stop::Stop;
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

/// Tells how much its thread has allocated whenever a batch begins.
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

    fn respond_prepared(&mut self, index: usize, bytes: &[u8], peer: SocketAddr, out: &mut [u8]) -> Option<Action> {
        self.0.respond_prepared(index, bytes, peer, out)
    }

    fn prefetch_limits(&mut self, undecided: u64) {
        self.0.prefetch_limits(undecided);
    }

    fn apply_limit(&mut self, index: usize, bytes: &[u8], peer: SocketAddr, out: &mut [u8]) -> Action {
        self.0.apply_limit(index, bytes, peer, out)
    }

    fn defer(&mut self, bytes: &[u8], reply: Reply, dispatch: Dispatch, out: &mut [u8]) -> Action {
        self.0.defer(bytes, reply, dispatch, out)
    }

    fn prepare<'m>(&mut self, messages: impl Iterator<Item = &'m [u8]>) {
        self.0.prepare(messages);
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A zone with a delegation, an alias, a wildcard, names below another and a name with more than fits; and one that is
/// signed.
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

/// What a zone that is signed is asked by who wants to see signatures: what is there, what is not, wildcards,
/// delegations to zones that are signed and are not, names below another.
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

/// One of each kind of message that a worker answers by itself; of cookies one that it gave to this client, and one
/// that it did not.
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

/// The cookie that a server gives to this client, which shows then that it is good.
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
        assert!(given.len() == CLIENT_COOKIE.len() || given == cookie, "what is good goes back as it came");
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
    // Everybody is limited, so that the way beyond the limit is taken too.
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
        // Of the batch after the last message nothing is known until there is one more.
        allocated.load(Ordering::SeqCst)
    };
    let warm = ask(50);
    let after = ask(500);
    stop.order();
    thread.join().unwrap();
    assert!(warm > 0, "the worker made its buffers");
    assert_eq!(after, warm, "allocations in {} messages", 500 * messages.len());
}
