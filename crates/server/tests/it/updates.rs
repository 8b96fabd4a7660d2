//! Updates: visible soon on every node. Invalid ones leave no trace.

use crate::support::cluster::{Cluster, PATIENCE, kill, wait_for};
use crate::support::dns::{RESPONSE_WITHIN, SILENCE, Transport, exchange, exchange_once};
use crate::support::http;
use crate::support::message::{name, now_s, sign, truncate_mac};
use crate::support::pipeline::outcome_of;
use skip::stalls::StallWatch;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tsig::client::ClientKey;
use wire::Rtype;
use wire::builder::MessageBuilder;

/// A new ID for each message, so that no two messages have the same bytes.
fn next_id() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Adds one address record, signed.
pub(crate) fn add(key: &ClientKey, owner: &str) -> Vec<u8> {
    let message = MessageBuilder::update(next_id(), name("example.test.").as_ref())
        .add(name(owner).as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
        .build();
    sign(key, message, 0)
}

/// Like [`add`], with a text that makes the update larger than a sector of the log.
pub(crate) fn add_text(key: &ClientKey, owner: &str) -> Vec<u8> {
    let text = [[250].as_slice(), &[b'x'; 250], &[250], &[b'x'; 250]].concat();
    let message = MessageBuilder::update(next_id(), name("example.test.").as_ref())
        .add(name(owner).as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
        .add(name(owner).as_ref(), Rtype::TXT, 60, &text)
        .build();
    sign(key, message, 0)
}

/// The RCODE of a response to `message`.
pub(crate) fn rcode(message: &[u8], response: &[u8]) -> u8 {
    assert_eq!(message[..2], response[..2]);
    response[3] & 0x0F
}

/// Whether a node has the name.
pub(crate) fn is_there(socket: &UdpSocket, to: SocketAddr, owner: &str) -> bool {
    let query = MessageBuilder::query(next_id(), name(owner).as_ref(), Rtype::A).build();
    let mut response = [0; 512];
    for _ in 0..20 {
        socket.send_to(&query, to).unwrap();
        while let Ok((len, from)) = socket.recv_from(&mut response) {
            if from == to && len >= 12 && response[..2] == query[..2] {
                return response[3] & 0x0F == 0 && response[7] == 1;
            }
        }
    }
    panic!("{to} does not answer");
}

pub(crate) fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket
}

/// Checks that all acknowledged names are on every node.
pub(crate) fn assert_on_every_node(cluster: &Cluster, names: &[String]) {
    assert!(!names.is_empty());
    let socket = socket();
    for id in cluster.ids() {
        let lost: Vec<&String> = names.iter().filter(|owner| !is_there(&socket, cluster.dns(id), owner)).collect();
        assert!(
            lost.is_empty(),
            "node {id} lost {} of {} acknowledged updates: {:?}",
            lost.len(),
            names.len(),
            &lost[..lost.len().min(5)]
        );
    }
}

/// A client that sends updates one by one to one node, each until it is acknowledged.
pub(crate) struct Stream {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<()>,
}

impl Stream {
    pub(crate) fn start(cluster: &Cluster, node: u64, prefix: &str) -> Self {
        let (stop, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (key, to, prefix) = (cluster.client_key(), cluster.dns(node), prefix.to_owned());
        let (their_stop, theirs) = (stop.clone(), acknowledged.clone());
        let thread = std::thread::spawn(move || {
            let socket = socket();
            for number in 0.. {
                let owner = format!("{prefix}-{number}.example.test.");
                if !Self::update(&socket, to, &key, &owner, &their_stop) {
                    return;
                }
                theirs.lock().unwrap().push(owner);
            }
        });
        Self { stop, acknowledged, thread }
    }

    /// Sends an update until it is acknowledged. Returns false if told to stop before.
    fn update(socket: &UdpSocket, to: SocketAddr, key: &ClientKey, owner: &str, stop: &AtomicBool) -> bool {
        let mut message = add(key, owner);
        let mut response = [0; 65_535];
        while !stop.load(Ordering::Relaxed) {
            // After a node was killed, the socket returns an error once. The next attempt may reach a new process.
            let _ = socket.send_to(&message, to);
            while let Ok((len, from)) = socket.recv_from(&mut response) {
                if from != to || len < 12 || response[..2] != message[..2] {
                    continue;
                }
                match response[3] & 0x0F {
                    0 => return true,
                    // The update was certainly not executed, so a new message may be sent at once.
                    2 => message = add(key, owner),
                    other => panic!("{owner}: RCODE {other}"),
                }
                break;
            }
        }
        false
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Stops. Returns the acknowledged names.
    pub(crate) fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        Arc::try_unwrap(self.acknowledged).unwrap().into_inner().unwrap()
    }
}

/// Waits until each stream has `count` more acknowledged updates. Returns how long that took.
pub(crate) fn wait_for_more(streams: &[Stream], count: usize) -> Duration {
    let start = Instant::now();
    let before: Vec<usize> = streams.iter().map(Stream::acknowledged).collect();
    wait_for("acknowledged updates", || {
        let mut all = streams.iter().zip(&before);
        all.all(|(stream, before)| stream.acknowledged() >= before + count).then_some(())
    });
    start.elapsed()
}

#[test]
fn a_thousand_updates_are_visible_on_all_nodes_soon() {
    const COUNT: usize = 1_000;
    const P99_MAX: Duration = Duration::from_millis(100);
    let cluster = Cluster::start("thousand", 3, &[]);
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let key = cluster.client_key();
    let socket = socket();
    let mut delays = Vec::new();
    for number in 0..COUNT {
        let through = number as u64 % 3 + 1;
        let owner = format!("t{number}.example.test.");
        let message = add(&key, &owner);
        let start = Instant::now();
        assert_eq!(rcode(&message, &outcome_of(Transport::Udp, cluster.dns(through), &message)), 0);
        // An acknowledged update is visible on the node that responded.
        assert!(
            is_there(&socket, cluster.dns(through), &owner),
            "{owner} is not on node {through} that acknowledged it"
        );
        for id in cluster.ids().filter(|id| *id != through) {
            while !is_there(&socket, cluster.dns(id), &owner) {
                assert!(start.elapsed() < PATIENCE, "{owner} is not on node {id}");
            }
        }
        delays.push(start.elapsed());
    }
    delays.sort_unstable();
    let [p50, p99] = [delays[COUNT / 2], delays[COUNT * 99 / 100]];
    println!("sent to visible everywhere: p50 {p50:?}, p99 {p99:?}, worst {:?}", delays[COUNT - 1]);
    if watch.stall("how soon updates are visible").is_none() {
        assert!(p99 <= P99_MAX, "p99 is {p99:?}, may be {P99_MAX:?}");
    }
    cluster.settle();
    for id in cluster.ids() {
        let status = cluster.status(id).unwrap();
        assert_eq!(status["zones"][0]["serial"], COUNT as u64 + 1, "one step for each effective update");
        assert_eq!(cluster.metric(id, "catamaran_panics_total"), 0);
    }
}

#[test]
fn large_updates_work_over_udp_and_tcp() {
    let cluster = Cluster::start("large-updates", 3, &[]);
    let key = cluster.client_key();
    for (transport, count) in [(Transport::Udp, 900_u16), (Transport::Tcp, 1_000)] {
        // 34 bytes or more per record: far more than fits into one packet.
        let builder =
            (0..count).fold(MessageBuilder::update(next_id(), name("example.test.").as_ref()), |builder, n| {
                let owner = format!("{transport:?}-{n}-of-a-large-update.example.test.");
                builder.add(name(&owner).as_ref(), Rtype::A, 60, &[10, 0, (n >> 8) as u8, n as u8])
            });
        let message = sign(&key, builder.build(), 0);
        assert!((30_000..65_507).contains(&message.len()), "{} bytes", message.len());
        let response = outcome_of(transport, cluster.dns(2), &message);
        assert_eq!(rcode(&message, &response), 0, "{transport:?}");
    }
    cluster.settle();
    let status = cluster.status(3).unwrap();
    assert_eq!(status["zones"][0]["records"], 13 + 900 + 1_000);
    // One record more than allowed (the message has no room for more): refused, not truncated.
    let builder = (0..1_001_u16)
        .fold(MessageBuilder::update(next_id(), name("example.test.").as_ref()), |builder, n| {
            builder.add(name("many.example.test.").as_ref(), Rtype::A, 60, &[10, 1, (n >> 8) as u8, n as u8])
        });
    let message = sign(&key, builder.build(), 0);
    assert_eq!(rcode(&message, &outcome_of(Transport::Tcp, cluster.dns(1), &message)), 5);
}

/// An UPDATE that adds TXT records. With its signature it has the maximum size of a message. Also returns the number of
/// records.
fn as_long_as_a_message_may_be(key: &ClientKey) -> (Vec<u8>, u64) {
    let empty = MessageBuilder::update(1, name("example.test.").as_ref()).build();
    let signature = sign(key, empty.clone(), 0).len() - empty.len();
    let room = 65_535 - signature;
    let add = |builder: MessageBuilder, n: u64, text: usize| {
        let rdata = [&[text as u8][..], &vec![b'a' + (n % 26) as u8; text]].concat();
        builder.add(name(&format!("long-{n:03}.example.test.")).as_ref(), Rtype::TXT, 60, &rdata)
    };
    let (mut builder, mut count) = (MessageBuilder::update(next_id(), name("example.test.").as_ref()), 0);
    // The text of the last record fills the rest of the message.
    let of_a_record = |text| add(builder.clone(), 0, text).byte_count() - builder.byte_count();
    let (least, most) = (of_a_record(1), of_a_record(255));
    while room - builder.byte_count() >= most + least {
        builder = add(builder, count, 255);
        count += 1;
    }
    while builder.byte_count() < room {
        let left = room - builder.byte_count();
        let text = if left > most { 100 } else { 1 + left - least };
        builder = add(builder, count, text);
        count += 1;
    }
    (sign(key, builder.build(), 0), count)
}

#[test]
fn an_update_of_maximum_length_works() {
    let cluster = Cluster::start("longest-update", 3, &[]);
    let (message, count) = as_long_as_a_message_may_be(&cluster.client_key());
    assert_eq!(message.len(), 65_535);
    for id in cluster.ids() {
        // To each node: to the leader, and to the followers that forward it.
        let response = outcome_of(Transport::Tcp, cluster.dns(id), &message);
        assert_eq!(rcode(&message, &response), 0, "node {id}");
    }
    cluster.settle();
    for id in cluster.ids() {
        let status = cluster.status(id).unwrap();
        assert_eq!((&status["zones"][0]["records"], &status["zones"][0]["serial"]), (&(13 + count).into(), &2.into()));
        for n in [0, count - 1] {
            let owner = name(&format!("long-{n:03}.example.test."));
            let query = MessageBuilder::query(next_id(), owner.as_ref(), Rtype::TXT).build();
            let response = exchange(Transport::Udp, cluster.dns(id), &query, RESPONSE_WITHIN).unwrap();
            let len = response.len();
            assert_eq!((response[3] & 0x0F, response[7]), (0, 1), "{owner:?} of node {id}: {len} bytes");
        }
    }
}

#[test]
fn a_lone_update_runs_inline_on_the_receiving_threads() {
    let cluster = Cluster::start("alone", 3, &[]);
    let inline = |id| cluster.metric(id, "catamaran_replica_events_inline_total");
    let before = cluster.ids().map(|id| (id, inline(id))).collect::<Vec<_>>();
    let mut names = Vec::new();
    for number in 0..30 {
        let owner = format!("alone-{number}.example.test.");
        let message = add(&cluster.client_key(), &owner);
        assert_eq!(rcode(&message, &outcome_of(Transport::Udp, cluster.dns(1 + number % 3), &message)), 0);
        names.push(owner);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_on_every_node(&cluster, &names);
    // Disk notifications and frames are handled inline, unless a tick or another one was being handled.
    for (id, before) in before {
        assert!(inline(id) >= before + 30, "node {id}: {before}, {}", inline(id));
    }
}

#[test]
fn a_repeat_is_answered_and_changes_nothing() {
    let cluster = Cluster::start("repeat", 3, &[]);
    let message = add(&cluster.client_key(), "repeat.example.test.");
    assert_eq!(rcode(&message, &outcome_of(Transport::Udp, cluster.dns(1), &message)), 0);
    let hash = cluster.settle();
    // The same bytes, from other ports, to every node, over both transports.
    for id in cluster.ids() {
        for transport in [Transport::Udp, Transport::Tcp] {
            assert_eq!(rcode(&message, &outcome_of(transport, cluster.dns(id), &message)), 0);
        }
    }
    assert_eq!(cluster.settle(), hash);
    assert_eq!(cluster.status(2).unwrap()["zones"][0]["serial"], 2);
}

/// Asks each node for the outcome of these bytes, over both transports.
fn outcomes(cluster: &Cluster, message: &[u8]) -> Vec<u8> {
    let all = cluster.ids().flat_map(|id| [(id, Transport::Udp), (id, Transport::Tcp)]);
    all.map(|(id, transport)| {
        // A node that waits for the leader does not respond, and the client sends again.
        let ask = || exchange(transport, cluster.dns(id), message, SILENCE);
        rcode(message, &wait_for("a response to the update", ask))
    })
    .collect()
}

#[test]
fn a_repeat_gets_the_first_rcode_even_if_its_zone_changed() {
    const REFUSED: u8 = 5;
    const NOTAUTH: u8 = 9;
    let cluster = Cluster::start("gone", 3, &[]);
    let key = cluster.client_key();
    let first = add(&key, "first.example.test.");
    assert_eq!(outcomes(&cluster, &first), [0; 6]);
    let call = |method: &str, body: &str| {
        let path = "/v1/zone?zone=example.test.";
        let answer = http::request(cluster.api(1), method, path, Some(&cluster.token()), body.as_bytes()).unwrap();
        assert!(answer.status < 300, "{method}: {} {}", answer.status, answer.text());
        cluster.settle();
    };
    call("DELETE", "");
    assert_eq!(outcomes(&cluster, &first), [0; 6], "its zone went");
    assert_eq!(outcomes(&cluster, &add(&key, "second.example.test.")), [NOTAUTH; 6]);
    // A zone of the same name that is signed elsewhere. It accepts no updates.
    call(
        "POST",
        "$ORIGIN example.test.\n$TTL 60\n@ SOA ns h 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\n@ DNSKEY 257 3 13 AAAA\n",
    );
    assert_eq!(outcomes(&cluster, &first), [0; 6], "another zone of its name came");
    assert_eq!(outcomes(&cluster, &add(&key, "second.example.test.")), [REFUSED; 6]);
    let socket = socket();
    for id in cluster.ids() {
        assert!(!is_there(&socket, cluster.dns(id), "first.example.test."), "it was executed once, in the zone before");
    }
}

#[test]
fn without_a_majority_updates_are_not_acknowledged_and_a_repeat_gets_the_outcome() {
    /// After this time, a node forgets an update and closes the connection.
    const UPDATE_FORGET: Duration = Duration::from_secs(10);
    let cluster = Cluster::start("minority", 3, &[]);
    let (key, leader) = (cluster.client_key(), cluster.leader());
    let others: Vec<u64> = cluster.ids().filter(|id| *id != leader).collect();
    for id in &others {
        kill("KILL", cluster.pid(*id).unwrap());
    }
    let alone = cluster.dns(leader);
    let mut sent = Vec::new();
    // The first update is proposed, and its outcome is unknown. At the second one, the leader may know that it no
    // longer leads.
    for transport in [Transport::Tcp, Transport::Udp] {
        let owner = format!("{transport:?}-minority.example.test.");
        let message = add(&key, &owner);
        let start = Instant::now();
        // RFC 2136 3.4.2: SERVFAIL means that the update was undone. If the outcome is unknown, there is no response.
        // TCP connections are closed, soon enough for the client to continue. The message is sent once: SERVFAIL to a
        // second copy would say nothing about the first.
        let wait = if transport == Transport::Tcp { 2 * UPDATE_FORGET } else { Duration::from_secs(6) };
        let response = exchange_once(transport, alone, &message, wait);
        let is_undone = response.as_ref().map(|response| rcode(&message, response) == 2);
        assert_ne!(is_undone, Some(false), "{transport:?}: {response:02x?}");
        assert!(transport == Transport::Udp || start.elapsed() < UPDATE_FORGET, "the connection stays open");
        println!("{transport:?}: {response:02x?} after {:?}", start.elapsed());
        sent.push((owner, message, is_undone.is_some()));
        // Reads continue.
        let query = MessageBuilder::query(7, name("www.example.test.").as_ref(), Rtype::A).build();
        let answer = exchange(transport, alone, &query, Duration::from_secs(5)).unwrap();
        assert_eq!((answer[3] & 0x0F, answer[7]), (0, 1));
    }
    let back: Vec<Child> = others.iter().map(|id| cluster.serve(*id)).collect();
    cluster.settle();
    for (owner, message, is_undone) in &sent {
        for id in cluster.ids() {
            assert!(!(*is_undone && is_there(&socket(), cluster.dns(id), owner)), "{owner} came to life on node {id}");
        }
        // The same bytes through another node: the update is executed now or was before, and only once.
        wait_for("the outcome", || {
            let response = exchange(Transport::Udp, cluster.dns(others[0]), message, Duration::from_secs(3))?;
            (rcode(message, &response) == 0).then_some(())
        });
    }
    cluster.settle();
    assert_on_every_node(&cluster, &sent.into_iter().map(|(owner, ..)| owner).collect::<Vec<_>>());
    let status = cluster.status(leader).unwrap();
    assert_eq!(status["zones"][0]["serial"], 3, "each was done once");
    for mut child in back {
        kill("TERM", child.id());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn bad_input_leaves_no_trace() {
    let cluster = Cluster::start("bad", 3, &[]);
    let key = cluster.client_key();
    let before = cluster.settle();
    let applied = || {
        let status = cluster.status(1).unwrap();
        ["term", "applied_index"].map(|field| status[field].as_u64().unwrap())
    };
    let [term, index] = applied();
    let good = add(&key, "bad.example.test.");
    let wrong_key =
        ClientKey::new(name("update.catamaran.").as_ref(), tsig::KeyAlgorithm::HmacSha256, b"wrong").unwrap();
    let mut bad: Vec<Vec<u8>> = (0..good.len()).map(|end| good[..end].to_vec()).collect();
    // One flipped bit in each byte. Excluded are the ID, which is not under the MAC (RFC 8945 5.3.1: Original ID is),
    // and the key's name, which is not case-sensitive.
    let tsig = good.len() - 61 - 10 - name("update.catamaran.").as_bytes().len();
    bad.extend((2..good.len()).filter(|at| !(tsig..tsig + 18).contains(at)).map(|at| {
        let mut message = good.clone();
        message[at] ^= 1;
        message
    }));
    bad.push(sign(&key, MessageBuilder::update(1, name("elsewhere.").as_ref()).build(), 0));
    bad.push(
        MessageBuilder::update(1, name("example.test.").as_ref())
            .add(name("x.example.test.").as_ref(), Rtype::A, 1, &[1, 2, 3, 4])
            .build(),
    );
    bad.push(sign(&wrong_key, MessageBuilder::update(1, name("example.test.").as_ref()).build(), 0));
    bad.push(key.sign_with_fudge(add_plain("late.example.test."), now_s() - 5_000, 300).unwrap());
    bad.push(truncate_mac(sign(&key, add_plain("short-mac.example.test."), 0), 16));
    bad.push(sign(&key, add_plain("outside.test."), 0));
    bad.push(vec![0xFF; 65_000]);
    for (index, message) in bad.iter().enumerate() {
        let id = index as u64 % 3 + 1;
        // Most are answered at once. The test does not wait for responses to those that are dropped.
        let wait = if message.len() < 12 { Duration::from_millis(1) } else { SILENCE };
        let response = exchange(Transport::Udp, cluster.dns(id), message, wait);
        if let Some(response) = response {
            assert_ne!(response[3] & 0x0F, 0, "message {index} was taken: {message:02x?}");
        }
    }
    assert_eq!(cluster.settle(), before);
    // An election adds an empty entry.
    let [term_after, index_after] = applied();
    assert!(term_after > term || index_after == index, "nothing went through the log: {index}, {index_after}");
    assert_eq!(cluster.status(1).unwrap()["zones"][0]["serial"], 1);
    let rejected: u64 = cluster.ids().map(|id| cluster.metric(id, "catamaran_rejects_total")).sum();
    let dropped: u64 = cluster.ids().map(|id| cluster.metric(id, "catamaran_drops_total")).sum();
    assert!(rejected + dropped >= bad.len() as u64 - 2, "{rejected} rejected and {dropped} dropped of {}", bad.len());
    assert_eq!(cluster.ids().map(|id| cluster.metric(id, "catamaran_panics_total")).sum::<u64>(), 0);
    // The original message is accepted.
    assert_eq!(rcode(&good, &outcome_of(Transport::Udp, cluster.dns(1), &good)), 0);
    wait_for("the good one on all nodes", || {
        cluster.ids().all(|id| is_there(&socket(), cluster.dns(id), "bad.example.test.")).then_some(())
    });
}

fn add_plain(owner: &str) -> Vec<u8> {
    MessageBuilder::update(next_id(), name("example.test.").as_ref())
        .add(name(owner).as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
        .build()
}
