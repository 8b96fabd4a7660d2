//! Responses over UDP to unverified clients, from a thread whose replica accepts every update and never answers.

use super::*;
use crate::answer::context::AnswerOptions;
use crate::answer::cookies::SecretSource;
use crate::answer::counters::{TransportCounters, write};
use crate::listen::DeferredResponse;
use crate::listen::batch::BatchSocket;
use crate::listen::handler::ConnectionLimits;
use crate::listen::sockets::{self, Sharing};
use crate::published::readers::Readers;
use crate::update_queue::UpdateQueue;
use crate::update_queue::fair_quota::FairQuota;
use config::Tcp;
use config::rate_limit::RateLimit;
use metrics_text::Page;
use replica::io::Serving;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Mutex;
use tokio::sync::oneshot;
use tsig::client::ClientKey;
use tsig::{KeyAlgorithm, KeyTable, TsigKey};
use wire::builder::MessageBuilder;
use wire::{Name, Rtype};
use zone::set::{Frozen, StoreConfig, ZoneSet, ZoneSetConfig};

/// Burst of responses to one network. The rate is so low that no more follow.
const BURST: u32 = 5;
/// The lower bits of BADCOOKIE, which are in the header.
const BADCOOKIE_LOW: u8 = 7;
const SECRET: &[u8; 32] = b"a secret of thirty-two bytes....";

/// Accepts updates, and counts them.
#[derive(Default)]
struct UpdateRecorder {
    /// Fails in two ways: see [`UpdateRecorder::submit`].
    is_faulty: bool,
    rights: Arc<Rights>,
    updates: Mutex<usize>,
    quota: Arc<FairQuota>,
}

impl Submit for UpdateRecorder {
    fn submit(&self, _request: UpdateRequest, flow: &Flow) -> Result<QuotaPermit, Refusal> {
        let number = {
            let mut updates = self.updates.lock().unwrap();
            *updates += 1;
            *updates
        };
        let permit = self.quota.permit(flow, None).ok_or(Refusal::ShareTaken)?;
        match (self.is_faulty, number) {
            (true, 1) => panic!("panic of the test"),
            // The permit is released too early. Dropping it with the outcome then panics.
            (true, 2) => self.quota.release(flow),
            _ => {}
        }
        Ok(permit)
    }

    fn rights(&self) -> Arc<Rights> {
        self.rights.clone()
    }

    fn freeze(&self) -> oneshot::Receiver<Frozen> {
        oneshot::channel().1
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// One update thread, its socket, and a client.
struct Harness {
    thread: UpdateThread<UpdateRecorder>,
    client: UdpSocket,
    socket: Arc<BatchSocket>,
}

impl Harness {
    fn new(exempt: &[&str]) -> Self {
        let store = StoreConfig { huge_pages: false, ..StoreConfig::default() };
        let zones = ZoneSet::new(ZoneSetConfig { store }).unwrap();
        let exempt = exempt.iter().map(|text| text.parse().unwrap()).collect();
        let rate_limit = RateLimit { per_second: 1, burst: BURST, slip: 1, exempt, ..RateLimit::default() };
        let service = Service {
            options: AnswerOptions { udp_payload: 1232, ..AnswerOptions::default() },
            update_queue: UpdateQueue::new(1).0,
            connections: ConnectionLimits::new(&Tcp::default(), &[]),
        };
        let key = TsigKey::new(name("key.").as_ref(), KeyAlgorithm::HmacSha256, &[SECRET]).unwrap();
        let mut keys = KeyTable::default();
        keys.insert(key).unwrap();
        let rights = Rights::default().with_keys(keys, Vec::new());
        let (external, _) = ExternalClient::new(&service.update_queue, &Arc::default(), &Arc::default());
        let socket = sockets::udp("127.0.0.1:0".parse().unwrap(), Sharing::Alone).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect(socket.local_addr().unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        let state = Arc::<crate::published::serving::ServingState>::default();
        state.set(Serving::Yes);
        let thread = UpdateThread {
            index: 0,
            threads: 1,
            service: Arc::new(service),
            zones: Arc::<Readers>::default().add(zones.reader()),
            serving: ServingReader::new(state, Arc::default()),
            counters: UpdateCounters::default(),
            listen: Arc::default(),
            submit: Arc::new(UpdateRecorder { rights: Arc::new(rights), ..UpdateRecorder::default() }),
            external,
            transfers: Arc::default(),
            transfer_queue: std::sync::mpsc::channel().0,
            out: vec![0; DATAGRAM_BYTES_MAX],
            pending: PendingUpdates::default(),
            cookies: Some(Cookies::new(SecretSource::cluster(&[1; 32]))),
            rate_limit: RateLimitWatch::of_one(&rate_limit),
            started_at: Instant::now(),
        };
        Self { thread, client, socket: Arc::new(BatchSocket::new(socket).unwrap()) }
    }

    /// Passes `count` copies of a message; returns the number of responses, and the last one.
    fn responses(&mut self, count: usize, message: &[u8]) -> (usize, Vec<u8>) {
        let peer = self.client.local_addr().unwrap();
        let (mut buffer, mut last, mut heard) = ([0; 1_232], Vec::new(), 0);
        for _ in 0..count {
            let reply = Reply::Udp { socket: self.socket.clone(), peer, local: None };
            let deferred = QueuedMessage { bytes: message.to_vec(), reply, received_at: Instant::now() };
            self.thread.message(deferred, ExternalAnswers::default());
            // Over loopback a response arrives at once.
            while let Ok(len) = self.client.recv(&mut buffer) {
                (heard, last) = (heard + 1, buffer[..len].to_vec());
            }
        }
        (heard, last)
    }

    fn dropped(&self) -> usize {
        self.limited("dropped")
    }

    /// The number of responses over the limit that were replaced in this way.
    fn limited(&self, instead: &str) -> usize {
        let mut page = Page::default();
        let workers = vec![self.thread.counters.of(Transport::Udp).clone()];
        write(&mut page, &[TransportCounters { transport: "udp", workers }]);
        let series = format!("catamaran_rate_limited_total{{transport=\"udp\",instead=\"{instead}\"}} ");
        let text = page.finish();
        text.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
    }
}

fn client_key(key: &str, secret: &[u8]) -> ClientKey {
    ClientKey::new(name(key).as_ref(), KeyAlgorithm::HmacSha256, secret).unwrap()
}

/// A message of each kind that is not verified, with the RCODE of its response.
fn unverified() -> Vec<(Vec<u8>, Rcode)> {
    let update = || MessageBuilder::update(7, name("test.").as_ref()).build();
    let query = MessageBuilder::query(7, name("test.").as_ref(), Rtype::A).build();
    vec![
        (update(), Rcode::NOTAUTH),
        (client_key("key.", b"another").sign(query.clone(), now_s()).unwrap(), Rcode::NOTAUTH),
        (client_key("nobody.", SECRET).sign(query, now_s()).unwrap(), Rcode::NOTAUTH),
        (client_key("nobody.", SECRET).sign(update(), now_s()).unwrap(), Rcode::NOTAUTH),
    ]
}

#[test]
fn unverified_clients_are_limited() {
    for (message, rcode) in unverified() {
        let mut scene = Harness::new(&[]);
        let (heard, last) = scene.responses(40, &message);
        // Each second that passes allows one more response.
        assert!((BURST as usize..10).contains(&heard), "{heard} responses");
        assert_eq!((u16::from(last[3] & 0x0F), last[2] & 2, scene.dropped()), (rcode.0, 0, 40 - heard));
        // All kinds share one bucket, which is empty now.
        let others = unverified().iter().map(|(message, _)| scene.responses(10, message).0).sum::<usize>();
        assert!(others < 5, "{others} more");
        let mut scene = Harness::new(&["127.0.0.0/8"]);
        assert_eq!((scene.responses(40, &message).0, scene.dropped()), (40, 0));
    }
}

#[test]
fn a_cookie_that_proves_the_address_is_not_limited() {
    let mut scene = Harness::new(&[]);
    let update = |cookie: &[u8]| MessageBuilder::update(7, name("test.").as_ref()).option(10, cookie).build();
    let (heard, last) = scene.responses(1, &update(&[9; 8]));
    assert_eq!(heard, 1);
    let parsed = wire::parse::Message::parse(&last).unwrap();
    let cookie = parsed.edns().unwrap().option(10).unwrap().to_vec();
    assert_eq!((scene.responses(40, &update(&cookie)).0, scene.dropped()), (40, 0));
    scene.responses(40, &update(&[9; 8]));
    assert!(scene.limited("badcookie") > 30, "a client cookie alone proves nothing");
}

#[test]
fn a_panic_costs_one_message_and_its_client_does_not_wait() {
    let mut scene = Harness::new(&[]);
    let rights = scene.thread.submit.rights();
    scene.thread.submit = Arc::new(UpdateRecorder { is_faulty: true, rights, ..UpdateRecorder::default() });
    let panics = scene.thread.listen.clone();
    let key = client_key("key.", SECRET);
    let update = |id: u16| MessageBuilder::update(id, name("test.").as_ref()).build();
    let peer = scene.client.local_addr().unwrap();
    let mut put = |bytes: Vec<u8>| {
        let (connection, late) = tokio::sync::mpsc::channel(4);
        let reply = Reply::Stream { peer, transport: Transport::Tcp, transfers: true, connection };
        let message = QueuedMessage { bytes, reply, received_at: Instant::now() };
        scene.thread.handle(Work::PolicyAnswered(message, ExternalAnswers::default()));
        late
    };
    let mut submitting = put(key.sign(update(1), now_s()).unwrap());
    let mut ending = put(key.sign(update(2), now_s()).unwrap());
    let mut behind = put(update(3));
    // With one thread, ids count from one. The panic used up id 1.
    scene.thread.handle(Work::Outcome(2, Verdict::Answer(Rcode::NOERROR)));
    let given_up = [&mut submitting, &mut ending].map(|late| matches!(late.try_recv(), Ok(DeferredResponse::Close)));
    assert_eq!((given_up, panics.panics.get()), ([true; 2], 2));
    assert!(matches!(behind.try_recv(), Ok(DeferredResponse::Message(_))), "the thread ended");
}

#[test]
fn an_update_that_is_verified_is_never_limited() {
    let mut scene = Harness::new(&[]);
    // The bucket of limited responses is empty now.
    scene.responses(40, &unverified()[0].0);
    let dropped = scene.dropped();
    let key = client_key("key.", SECRET);
    let update = MessageBuilder::update(7, name("test.").as_ref()).build();
    // The replica never answers, so there are no responses. All updates were submitted.
    scene.responses(500, &key.sign(update, now_s()).unwrap());
    assert_eq!(*scene.thread.submit.updates.lock().unwrap(), 500);
    assert_eq!(scene.dropped(), dropped);
}

/// A signed query with these EDNS options. The server has no zone, so a response within the limit is REFUSED.
fn signed_query(rtype: Rtype, options: &[(u16, &[u8])]) -> Vec<u8> {
    let query = MessageBuilder::query(7, name("test.").as_ref(), rtype).edns(1232, false);
    let query = options.iter().fold(query, |query, (code, data)| query.option(*code, data));
    client_key("key.", SECRET).sign(query.build(), now_s()).unwrap()
}

/// Anyone can replay a signed query from any address while its time is valid.
#[test]
fn a_signed_query_is_limited_like_an_unsigned_one() {
    for rtype in [Rtype::A, Rtype::IXFR] {
        let mut scene = Harness::new(&[]);
        let query = signed_query(rtype, &[(3, &[])]);
        let (heard, last) = scene.responses(40, &query);
        let cut = scene.limited("truncated");
        assert!((30..=40 - BURST as usize).contains(&cut), "{cut} of {heard}");
        assert_eq!((heard, scene.dropped()), (40, 0));
        // RFC 8945 5.3: TC, RCODE 0, the question and TSIG, so that the client retries over TCP.
        let verified = client_key("key.", SECRET).verify(&query, &last, now_s()).unwrap();
        assert_eq!((verified.error, last[2] & 2, last[3] & 15), (Rcode::NOERROR, 2, 0));
        assert!(last.len() <= query.len(), "{} bytes for {}", last.len(), query.len());
        let mut scene = Harness::new(&["127.0.0.0/8"]);
        assert_eq!((scene.responses(40, &query).0, scene.limited("truncated")), (40, 0));
    }
}

#[test]
fn a_limited_signed_query_with_a_cookie_gets_badcookie() {
    let mut scene = Harness::new(&[]);
    let key = client_key("key.", SECRET);
    let query = signed_query(Rtype::A, &[(10, &[9; 8])]);
    let (heard, last) = scene.responses(40, &query);
    let bad = scene.limited("badcookie");
    assert!(heard == 40 && (30..=40 - BURST as usize).contains(&bad), "{bad} of {heard}");
    assert_eq!(key.verify(&query, &last, now_s()).unwrap().error, Rcode::NOERROR);
    assert_eq!(last[3] & 15, BADCOOKIE_LOW);
    assert!(last.len() <= query.len() + 16);
    let parsed = wire::parse::Message::parse(&last).unwrap();
    let cookie = parsed.edns().unwrap().option(10).unwrap().to_vec();
    let query = signed_query(Rtype::A, &[(10, &cookie)]);
    assert_eq!((scene.responses(40, &query).0, scene.limited("badcookie")), (40, bad));
    assert_eq!(u16::from(scene.responses(1, &query).1[3] & 15), Rcode::REFUSED.0);
}

/// A replayed message that is too old still gets a signed error.
#[test]
fn errors_to_verified_clients_are_limited_too() {
    let key = client_key("key.", SECRET);
    let update = || MessageBuilder::update(7, name("test.").as_ref()).edns(1232, false).option(3, &[]);
    let query = MessageBuilder::query(7, name("test.").as_ref(), Rtype::A).edns(1232, false).option(3, &[]);
    for message in [update().build(), query.build()] {
        let mut scene = Harness::new(&[]);
        let old = key.sign(message, now_s() - 1_000).unwrap();
        let (heard, last) = scene.responses(40, &old);
        let shortened = scene.limited("shortened");
        assert!(heard == 40 && (30..=40 - BURST as usize).contains(&shortened), "{shortened} of {heard}");
        // It is the same error. A client cannot take it for success.
        assert_eq!((u16::from(last[3] & 15), last[2] & 2), (Rcode::NOTAUTH.0, 0));
        // Six bytes more are the server's time (RFC 8945 5.2.3).
        assert!(last.len() <= old.len() + 6, "{} bytes for {}", last.len(), old.len());
    }
    let mut scene = Harness::new(&[]);
    let old = key.sign(update().option(10, &[9; 8]).build(), now_s() - 1_000).unwrap();
    scene.responses(40, &old);
    assert!(scene.limited("badcookie") >= 30);
}

/// Anyone who has seen an update can replay it from a forged address. The response is BADTIME.
#[test]
fn badtime_responses_are_limited() {
    let mut scene = Harness::new(&[]);
    let update = MessageBuilder::update(7, name("test.").as_ref()).edns(1232, false).option(3, &[]);
    let update = client_key("key.", SECRET).sign(update.build(), now_s()).unwrap();
    let ended = |scene: &mut Harness, verdict: Verdict| {
        scene.responses(40, &update);
        let ids = scene.thread.pending.ids();
        ids.into_iter().for_each(|id| scene.thread.outcome(id, verdict));
        let mut buffer = [0; 1_232];
        std::iter::from_fn(|| scene.client.recv(&mut buffer).ok()).count()
    };
    assert_eq!((ended(&mut scene, Verdict::BadTime), scene.thread.pending.len()), (40, 0));
    let shortened = scene.limited("shortened");
    assert!((30..=40 - BURST as usize).contains(&shortened), "{shortened}");
    // The bucket is empty now, but outcomes are not limited.
    assert_eq!((ended(&mut scene, Verdict::Answer(Rcode::NOERROR)), scene.limited("shortened")), (40, shortened));
}

/// RFC 7873 5.2.3. An UPDATE gets no TC, because the RCODE of a response with TC is that of success.
#[test]
fn a_limited_update_gets_badcookie_with_a_cookie_and_nothing_without() {
    let update = || MessageBuilder::update(7, name("test.").as_ref()).option(10, &[9; 8]).build();
    let strangers = [client_key("key.", b"another"), client_key("nobody.", SECRET)];
    let signed = strangers.iter().map(|key| key.sign(update(), now_s()).unwrap());
    for message in std::iter::once(update()).chain(signed) {
        let mut scene = Harness::new(&[]);
        let (heard, last) = scene.responses(40, &message);
        let bad = scene.limited("badcookie");
        assert!(heard == 40 && (30..=40 - BURST as usize).contains(&bad), "{bad} of {heard}");
        assert!(last.len() <= message.len() + 16, "{} bytes for {}", last.len(), message.len());
        let parsed = wire::parse::Message::parse(&last).unwrap();
        assert_eq!(parsed.edns().unwrap().option(10).unwrap().len(), 24);
        assert_eq!(last[3] & 15, BADCOOKIE_LOW);
    }
}
