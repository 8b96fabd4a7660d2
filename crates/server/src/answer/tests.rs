//! Responses of one worker: batches, limits and a full queue.

use super::batch::question_of;
use super::*;
use crate::answer::context::AnswerOptions;
use crate::answer::cookies::SecretSource;
use crate::answer::counters::{self, TransportCounters};
use crate::limits::UPDATE_QUEUE_MAX;
use crate::listen::DeferredResponse;
use crate::listen::handler::ConnectionLimits;
use crate::published::readers::Readers;
use crate::published::serving::ServingState;
use crate::update_queue::UpdateQueue;
use config::Tcp;
use config::limits::UDP_RESPONSE_BYTES_MAX;
use config::rate_limit::RateLimit;
use metrics_text::Page;
use wire::builder::MessageBuilder;
use wire::limits::HEADER_BYTES;
use wire::{Name, Rtype};
use zone::set::{StoreConfig, ZoneSet, ZoneSetConfig};

/// The zone `test.` with two addresses.
fn zones() -> ZoneSet {
    let store = StoreConfig { huge_pages: false, ..StoreConfig::default() };
    let mut zones = ZoneSet::new(ZoneSetConfig { store }).unwrap();
    let record = |owner: &str, rtype, rdata: &[u8]| zone::record::Record {
        owner: owner.parse().unwrap(),
        rtype,
        ttl: 60,
        rdata: rdata.into(),
    };
    let records = [
        record("test.", Rtype::SOA, &[&[0, 0][..], &[0; 20]].concat()),
        record("first.test.", Rtype::A, &[192, 0, 2, 1]),
        record("second.test.", Rtype::A, &[192, 0, 2, 2]),
    ];
    let id = zone::record::ZoneId { view: 0, apex: "test.".parse().unwrap() };
    let mut edit = zones.edit();
    edit.add_records(&id, &records).unwrap();
    edit.commit_stage(&id).unwrap();
    let version = edit.seal();
    zones.publish(version);
    zones
}

/// A responder, and the counters' page.
fn responder() -> (QueryResponder, impl Fn() -> String) {
    let zones = zones();
    let counters = Arc::<WorkerCounters>::default();
    let service = Service {
        options: AnswerOptions { udp_payload: 1232, ..AnswerOptions::default() },
        update_queue: UpdateQueue::new(1).0,
        connections: ConnectionLimits::new(&Tcp::default(), &[]),
    };
    let (readers, state) = (Arc::<Readers>::default(), Arc::<ServingState>::default());
    state.set(replica::io::Serving::Yes);
    let responder = QueryResponder {
        service: Arc::new(service),
        zones: readers.add(zones.reader()),
        serving: ServingReader::new(state, Arc::default()),
        counters: counters.clone(),
        batch: Batch::new(),
        cookies: None,
        rate_limit: None,
        started_at: Instant::now(),
    };
    let page = move || {
        let mut page = Page::default();
        counters::write(&mut page, &[TransportCounters { transport: "udp", workers: vec![counters.clone()] }]);
        page.finish()
    };
    (responder, page)
}

#[test]
fn row_1_source_port_0_gets_no_answer_and_is_counted() {
    let (mut responder, page) = responder();
    let query = MessageBuilder::query(1, Name::root().as_ref(), Rtype::SOA).build();
    let mut out = [0; 512];
    let mut pinned = responder.pin();
    let from = |port| SocketAddr::from(([192, 0, 2, 1], port));
    assert_eq!(pinned.respond(&query, from(0), Transport::Udp, &mut out), Action::Silent);
    assert!(matches!(pinned.respond(&query, from(1), Transport::Udp, &mut out), Action::Respond(_)));
    assert!(page().contains("catamaran_drops_total{transport=\"udp\",reason=\"source_port_zero\"} 1\n"));
}

#[test]
fn question_of_finds_only_the_question_of_a_query() {
    let name: wire::Name = "www.example.test.".parse().unwrap();
    let query = MessageBuilder::query(1, name.as_ref(), Rtype::A).edns(1232, true).build();
    let question = question_of(&query).unwrap();
    assert_eq!((question.qname, question.qtype, question.end()), (name.as_ref(), Rtype::A, 12 + 18 + 4));
    for end in 0..query.len() {
        // A complete question is enough, even if the rest of the message is cut off.
        assert_eq!(question_of(&query[..end]).is_some(), end >= question.end(), "{end}");
    }
    for (at, byte) in [(2, 0x80), (2, 0x28), (5, 0), (5, 2), (4, 1), (12, 0xC0), (12, 0x40)] {
        let mut other = query.clone();
        other[at] = byte;
        assert_eq!(question_of(&other), None, "{byte:#x} at {at}");
    }
}

#[test]
fn a_batch_is_answered_as_its_messages_are_alone() {
    let (mut responder, _) = responder();
    let query = |qname: &str, qtype| MessageBuilder::query(1, qname.parse::<Name>().unwrap().as_ref(), qtype).build();
    let [soa, first, second, nowhere, none, elsewhere] = [
        query(".", Rtype::SOA),
        query("first.test.", Rtype::A),
        query("SECOND.test.", Rtype::A),
        query("third.test.", Rtype::A),
        query("first.test.", Rtype::TXT),
        query("first.example.", Rtype::A),
    ];
    let messages: Vec<&[u8]> = vec![
        &soa,
        &first,
        b"",
        &second,
        b"short",
        &nowhere,
        &[0xFF; 512],
        &none,
        &elsewhere,
        &first,
        &soa[..14],
        &second,
    ];
    let peer = SocketAddr::from(([192, 0, 2, 1], 5));
    let mut answers = |together: bool| -> Vec<(Action, Vec<u8>)> {
        let mut pinned = responder.pin();
        if together {
            let mut batch = DatagramBatch::of(&messages, peer);
            pinned.respond_batch(&mut batch);
            let outcome = |index| batch.outcome(index);
            return (0..messages.len()).map(outcome).map(|(action, out)| (action, out.to_vec())).collect();
        }
        let mut answer = |message: &&[u8]| {
            let mut out = vec![0; UDP_RESPONSE_BYTES_MAX];
            (pinned.respond(message, peer, Transport::Udp, &mut out), out)
        };
        messages.iter().map(&mut answer).collect()
    };
    let (alone, together) = (answers(false), answers(true));
    assert_eq!(alone, together);
    // Each of the answers found has its own address.
    for (index, last) in [(1, 1), (3, 2), (9, 1), (11, 2)] {
        let (Action::Respond(len), bytes) = &together[index] else { panic!("no response to {index}") };
        assert_eq!(bytes[len - 4..*len], [192, 0, 2, last], "{index}");
    }
}

#[test]
fn a_full_queue_is_servfail_and_counted() {
    let (mut responder, page) = responder();
    let update = MessageBuilder::update(77, Name::root().as_ref()).build();
    let (connection, _late) = tokio::sync::mpsc::channel::<DeferredResponse>(1);
    let peer = SocketAddr::from(([192, 0, 2, 1], 5));
    let reply = Reply::Stream { peer, transport: Transport::Tcp, transfers: true, connection };
    let mut out = [0; 512];
    let mut pinned = responder.pin();
    assert_eq!(pinned.respond(&update, peer, Transport::Tcp, &mut out), Action::Defer);
    // The receiving end of the queue is gone, so nothing can be queued.
    let Action::Respond(len) = pinned.defer(&update, reply.clone(), Dispatch::Queued, &mut out) else {
        panic!("no response")
    };
    assert_eq!((&out[..2], out[3] & 0x0F, len), (&[0, 77][..], 2, 12 + 5));
    // A queue that no thread empties fills up: one network may use half of it, several networks all of it.
    let (update_queue, _queues) = UpdateQueue::new(1);
    let put = |network: usize| {
        let Reply::Stream { transport, connection, .. } = reply.clone() else { unreachable!("made above") };
        let peer = SocketAddr::from(([10, (network >> 8) as u8, network as u8, 1], 5));
        let reply = Reply::Stream { peer, transport, transfers: true, connection };
        update_queue.put(QueuedMessage { bytes: update.clone(), reply, received_at: Instant::now() }, Dispatch::Queued)
    };
    assert!((0..UPDATE_QUEUE_MAX / 2).all(|_| put(0)) && !put(0));
    assert_eq!(update_queue.waiting(), UPDATE_QUEUE_MAX as u64 / 2);
    let others = (1..).take(UPDATE_QUEUE_MAX).filter(|&network| put(network)).count();
    assert_eq!(others, UPDATE_QUEUE_MAX / 2);
    assert!(!put(UPDATE_QUEUE_MAX + 1));
    assert_eq!(update_queue.waiting(), UPDATE_QUEUE_MAX as u64);
    assert!(page().contains("reason=\"queue_full\"} 1\n"));
}

#[test]
fn limited_responses_are_the_same_in_a_batch_and_alone() {
    /// The end of a server cookie.
    const TIME_AND_HASH_BYTES: usize = 4 + 8;
    let (mut responder, page) = responder();
    responder.cookies = Some(Cookies::new(SecretSource::cluster(&[1; 32])));
    let config = RateLimit { per_second: 1, burst: 2, slip: 1, exempt: Vec::new(), ..RateLimit::default() };
    let peer = SocketAddr::from(([192, 0, 2, 1], 5));
    let query = |qname: &str| MessageBuilder::query(1, qname.parse::<Name>().unwrap().as_ref(), Rtype::A);
    let (first, second) = (query("first.test.").build(), query("second.test.").build());
    let cookie = |data: &[u8]| query("first.test.").edns(1232, false).option(10, data).build();
    let (client, malformed) = (cookie(&[1; 8]), cookie(&[1; 3]));
    // The server's cookie, from a response that did not count for the rate limit.
    let mut out = [0; 512];
    let Action::Respond(len) = responder.pin().respond(&client, peer, Transport::Udp, &mut out) else { panic!() };
    let proven = cookie(&out[len - COOKIE_BYTES..len]);
    let messages: [&[u8]; 11] =
        [&first, &second, &first, &first, &proven, &client, &malformed, &second, &second, &first, &proven];
    // The cookie in this response depends on the current second (RFC 9018 4.3).
    let (count, new_cookie) = (messages.len(), 5);
    let mut answers = |together: bool| -> Vec<Vec<u8>> {
        responder.rate_limit = Some(RateLimitWatch::of_one(&config));
        let mut pinned = responder.pin();
        let mut batch = DatagramBatch::of(&messages, peer);
        if together {
            pinned.respond_batch(&mut batch);
        }
        let mut outcome = |index| {
            let mut out = [0; UDP_RESPONSE_BYTES_MAX];
            let (action, out) = match together {
                true => batch.outcome(index),
                false => (pinned.respond(messages[index], peer, Transport::Udp, &mut out), &out[..]),
            };
            let Action::Respond(len) = action else { panic!("no response to {index}") };
            let mut out = out[..len].to_vec();
            if index == new_cookie {
                out[len - TIME_AND_HASH_BYTES..].fill(0);
            }
            out
        };
        (0..count).map(&mut outcome).collect()
    };
    let (alone, together) = (answers(false), answers(true));
    assert_eq!(alone, together);
    // RCODE, TC, records. Two of each kind, then TC; BADCOOKIE for requests with a cookie.
    let rcode = |bytes: &[u8]| bytes[3] & 0x0F;
    let results: Vec<_> = together.iter().map(|bytes| (rcode(bytes), bytes[2] & 2 != 0, bytes[7])).collect();
    let (whole, short, formerr, bad) = ((0, false, 1), (0, true, 0), (1, false, 0), (7, false, 0));
    assert_eq!(results, [whole, whole, whole, short, whole, bad, formerr, whole, short, short, whole]);
    let text = page();
    assert!(text.contains("catamaran_rate_limited_total{transport=\"udp\",instead=\"truncated\"} 6\n"), "{text}");
    assert!(text.contains("catamaran_rate_limited_total{transport=\"udp\",instead=\"badcookie\"} 2\n"), "{text}");
    // Only responses to requests without a valid cookie count for the rate limit.
    let undecided = responder.pin().make_responses(&mut DatagramBatch::of(&messages, peer));
    assert_eq!(undecided.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 5, 7, 8, 9]);
}

#[test]
fn limited_responses_are_no_longer_than_the_query_except_for_the_cookie() {
    let (mut responder, page) = responder();
    responder.cookies = Some(Cookies::new(SecretSource::cluster(&[1; 32])));
    let options = AnswerOptions { udp_payload: 1232, nsid: Some(b"node-1".to_vec()), ..AnswerOptions::default() };
    let update_queue = UpdateQueue::new(1).0;
    let connections = ConnectionLimits::new(&Tcp::default(), &[]);
    responder.service = Arc::new(Service { options, update_queue, connections });
    let config = RateLimit { per_second: 1, burst: 1, exempt: Vec::new(), ..RateLimit::default() };
    let peer = SocketAddr::from(([192, 0, 2, 1], 5));
    let first: Name = "first.test.".parse().unwrap();
    // All queries request NSID. Its value is longer than the option in the query.
    let asks = || MessageBuilder::query(1, first.as_ref(), Rtype::A).edns(1232, false).option(3, &[]);
    let opt_at = MessageBuilder::query(1, first.as_ref(), Rtype::A).build().len();
    let no_opcode = |message: Vec<u8>| {
        // A message with opcode STATUS and no question.
        [&message[..2], &[2 << 3, 0, 0, 0], &message[6..HEADER_BYTES], &message[opt_at..]].concat()
    };
    let other_version = |mut message: Vec<u8>| {
        message[opt_at + 6] = 1;
        message
    };
    let rejected = [
        no_opcode(asks().build()),
        no_opcode(asks().option(10, &[7; 8]).build()),
        other_version(asks().build()),
        other_version(asks().option(10, &[7; 8]).build()),
        asks().option(10, &[7; 1]).build(),
    ];
    let answered =
        [(asks().build(), 0), (asks().option(10, &[7; 8]).build(), 16), (asks().option(10, &[7; 24]).build(), 0)];
    let rejected_count = rejected.len();
    for (message, more) in rejected.into_iter().map(|message| (message, 0)).chain(answered) {
        responder.rate_limit = Some(RateLimitWatch::of_one(&config));
        let mut pinned = responder.pin();
        let mut respond = || {
            let mut out = [0; 1_232];
            match pinned.respond(&message, peer, Transport::Udp, &mut out) {
                Action::Respond(len) => out[..len].to_vec(),
                other => panic!("{other:?}"),
            }
        };
        let (within, beyond) = (respond(), respond());
        assert!(within.len() > message.len(), "{within:?}");
        assert!(beyond.len() <= message.len() + more, "{beyond:?} for {message:?}");
        // The response has the same RCODE, or is the replacement for one.
        assert!(within[3] & 15 == beyond[3] & 15 || within[3] & 15 == 0, "{within:?}, {beyond:?}");
    }
    let text = page();
    let shortened =
        format!("catamaran_rate_limited_total{{transport=\"udp\",instead=\"shortened\"}} {rejected_count}\n");
    assert!(text.contains(&shortened), "{text}");
}
