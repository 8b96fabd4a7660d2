//! Clients that attack with the messages that they send, each kind separately, and clients that just send as much as
//! they can over connections. Meanwhile a UDP client keeps its rate, and memory stays bounded.

use super::floods::frame;
use super::query;
use crate::support::closed_loop::ClosedLoop;
use crate::support::cluster::{Cluster, PATIENCE};
use crate::support::dns::{Transport, exchange, framed, read_message, tcp_from};
use crate::support::encrypted::{Doh, Doq, WAIT, ask, tls, trust};
use crate::support::legitimate::{Legitimate, Phase, RATE, assert_left, in_turn};
use crate::support::message::{name, sign};
use crate::support::rss::Growth;
use crate::support::tools::is_full;
use rustls::client::Resumption;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Number of times that each attack is made, and the duration of each time.
const ROUNDS: usize = 3;
const ATTACK: Duration = Duration::from_millis(600);
/// How long the UDP client's rate is measured before and after each attack.
const STILL: Duration = Duration::from_millis(400);
/// The part of the rate before that the UDP client must keep.
const LEFT_MIN: f64 = 0.9;
/// The part of its rate that a closed loop must keep, although attackers and their connections use the same cores.
const CLOSED_MIN: f64 = 0.1;
/// Slow readers. Each may have 1 MiB of responses waiting, in buffers that grow by doubling, and 128 requests in
/// progress.
const SLOW: usize = 16;
/// Maximum growth of the node for each kind.
const GROWTH_KIB_MAX: u64 = 128 << 10;

type Attack = fn(&Cluster);

const ATTACKS: [(&str, Attack); 10] = [
    ("as much as there are answers for over TCP and TLS", busy_connections),
    ("resets of TCP", resets_of_tcp),
    ("resets of handshakes", resets_of_handshakes),
    ("handshakes to their end", whole_handshakes),
    ("resets of HTTP/2", resets_of_http),
    ("resets of QUIC streams", resets_of_quic),
    ("malformed messages", malformed_messages),
    ("malformed records and frames", malformed_frames),
    ("malformed packets of QUIC", malformed_packets),
    ("slow readers", slow_readers),
];

/// Repeats until the time is over.
fn go_on(mut one: impl FnMut()) {
    go_on_to(0, || {
        one();
        0
    });
}

/// Repeats until the time is over and the sum of what `one` returned is at least `min`. Returns the sum.
fn go_on_to(min: u64, mut one: impl FnMut() -> u64) -> u64 {
    let (begin, mut sum) = (Instant::now(), 0);
    while begin.elapsed() < ATTACK || sum < min {
        sum += one();
        assert!(begin.elapsed() < PATIENCE, "{sum} of {min} are no load");
    }
    sum
}

/// Pipelined queries over some connections of each kind. When all are answered, the same number follows.
fn busy_connections(cluster: &Cluster) {
    const EACH: usize = 4;
    const PIPELINED: usize = 64;
    let message = framed(&query("www.example.test.", Rtype::A).build());
    let (together, config) = (message.repeat(PIPELINED), Arc::new(trust(cluster, &["dot"])));
    let mut plain: Vec<TcpStream> = (0..EACH).map(|_| TcpStream::connect(cluster.dns(1)).unwrap()).collect();
    let mut encrypted: Vec<_> = (0..EACH).map(|_| tls(cluster.dot(1), &config).unwrap()).collect();
    let answers = go_on_to(5_000, || {
        plain.iter_mut().for_each(|stream| stream.write_all(&together).unwrap());
        encrypted.iter_mut().for_each(|stream| stream.write_all(&together).unwrap());
        let mut answers = 0;
        for _ in 0..PIPELINED {
            let all = plain.iter_mut().map(|stream| read_message(stream).unwrap());
            let all = all.chain(encrypted.iter_mut().map(|stream| read_message(stream).unwrap()));
            answers += all.filter(|answer| answer[7] == 1).count() as u64;
        }
        answers
    });
    println!("{answers} answers over TCP and TLS");
}

/// Closes with RST. Data that was sent before may be lost.
fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

fn resets_of_tcp(cluster: &Cluster) {
    let message = framed(&query("www.example.test.", Rtype::A).build());
    go_on(|| {
        if let Ok(mut stream) = tcp_from(Ipv4Addr::new(127, 0, 0, 6), cluster.dns(1)) {
            let _ = stream.write_all(&message.repeat(8));
            reset(stream);
        }
    });
}

fn resets_of_handshakes(cluster: &Cluster) {
    let mut turn = 0;
    go_on(|| {
        turn += 1;
        let to = if turn % 2 == 0 { cluster.dot(1) } else { cluster.doh(1) };
        if let Ok(mut stream) = tcp_from(Ipv4Addr::new(127, 0, 0, 6), to) {
            // Only the header of a record with a ClientHello.
            let _ = stream.write_all(&[0x16, 3, 1, 1, 0, 1, 0]);
            reset(stream);
        }
    });
}

/// As many handshakes as one core of an attacker can do: loopback is exempt from the rate limit. No handshake resumes a
/// session, and each is complete, as the answer to a query shows.
fn whole_handshakes(cluster: &Cluster) {
    let message = query("www.example.test.", Rtype::A).build();
    let mut config = trust(cluster, &["dot"]);
    config.resumption = Resumption::disabled();
    let config = Arc::new(config);
    let done = || cluster.metric(1, "catamaran_handshakes_total{transport=\"dot\"}");
    let before = done();
    let count = go_on_to(100, || {
        let mut stream = tls(cluster.dot(1), &config).unwrap();
        assert!(ask(&mut stream, &message).is_ok());
        // RST leaves no client port in TIME_WAIT.
        reset(stream.sock);
        1
    });
    println!("{count} handshakes");
    assert_eq!(done(), before + count);
}

fn resets_of_http(cluster: &Cluster) {
    let message = query("www.example.test.", Rtype::A).build();
    go_on(|| {
        Doh::connect(cluster.doh(1), trust(cluster, &["h2"])).reset(1_000, &message);
    });
    assert!(cluster.metric(1, "catamaran_connections_closed_total{transport=\"doh\",reason=\"excess\"}") > 0);
}

fn resets_of_quic(cluster: &Cluster) {
    let message = framed(&query("www.example.test.", Rtype::A).build());
    let doq = Doq::connect(cluster.dot(1), trust(cluster, &["doq"])).unwrap();
    go_on(|| {
        doq.wait(async {
            let (mut send, mut receive) = doq.connection.open_bi().await.unwrap();
            send.write_all(&message[..10]).await.unwrap();
            let _ = send.reset(3u32.into());
            let _ = receive.stop(3u32.into());
        });
    });
}

fn malformed_messages(cluster: &Cluster) {
    let good = query("www.example.test.", Rtype::A).build();
    let mut turn = 0usize;
    go_on(|| {
        let mut stream = TcpStream::connect(cluster.dns(1)).unwrap();
        stream.set_nonblocking(true).unwrap();
        for _ in 0..64 {
            turn += 1;
            let mut message = good.clone();
            let at = turn % message.len();
            message[at] ^= 1 << (turn % 8);
            message.truncate(good.len() - turn % 3);
            let _ = stream.write_all(&framed(&message));
        }
        let _ = stream.read(&mut [0; 4_096]);
    });
}

fn malformed_frames(cluster: &Cluster) {
    let config = Arc::new(trust(cluster, &["h2"]));
    let start = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    go_on(|| {
        // No TLS at all.
        let mut stream = TcpStream::connect(cluster.dot(1)).unwrap();
        let _ = stream.write_all(&[0xFF; 2_000]);
        // A frame that is too long, a frame of an unknown stream, and headers that are not valid HPACK.
        for bad in [frame(0, 0, 1, &vec![0; 16_385]), frame(9, 0, 7, &[0]), frame(1, 4, 1, &[0xFF; 64])] {
            let mut stream = tls(cluster.doh(1), &config).unwrap();
            let _ = stream.write_all(&[&start[..], &bad].concat());
        }
    });
}

fn malformed_packets(cluster: &Cluster) {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 7), 0)).unwrap();
    let mut turn = 0u32;
    go_on(|| {
        turn = turn.wrapping_add(1);
        // A long header of version 1 with connection IDs of all lengths, and no payload that could be decrypted.
        let mut packet = vec![0xC0 | (turn as u8 & 0x3F), 0, 0, 0, 1, (turn % 21) as u8];
        packet.extend(turn.to_be_bytes().repeat(300));
        let _ = socket.send_to(&packet, cluster.dot(1));
        if turn.is_multiple_of(16) {
            std::thread::sleep(Duration::from_micros(500));
        }
    });
}

/// Clients that request much data, and read none.
fn slow_readers(cluster: &Cluster) {
    let many = framed(&query("big.example.test.", Rtype::TXT).build()).repeat(64);
    let config = Arc::new(trust(cluster, &["dot"]));
    let mut unread: Vec<Box<dyn Write>> = Vec::new();
    for index in 0..SLOW {
        if index % 4 == 0 {
            let stream = tls(cluster.dot(1), &config).unwrap();
            stream.sock.set_nonblocking(true).unwrap();
            unread.push(Box::new(stream));
        } else {
            let stream = tcp_from(Ipv4Addr::new(127, 0, 0, 8), cluster.dns(1)).unwrap();
            stream.set_nonblocking(true).unwrap();
            unread.push(Box::new(stream));
        }
    }
    go_on(|| {
        // Writing fails when the server has stopped reading, or has closed the connection.
        unread.iter_mut().for_each(|stream| _ = stream.write(&many));
        std::thread::sleep(Duration::from_millis(5));
    });
}

/// A name with a response of 8 KiB.
fn add_big(cluster: &Cluster) {
    let big = name("big.example.test.");
    let texts = (0..32).map(|index| [&[249], format!("{index:0249}").as_bytes()].concat());
    let update = MessageBuilder::update(0, name("example.test.").as_ref());
    let update = texts.fold(update, |update, text| update.add(big.as_ref(), Rtype::TXT, 60, &text)).build();
    let response = exchange(Transport::Tcp, cluster.dns(1), &sign(&cluster.client_key(), update, 0), WAIT).unwrap();
    assert_eq!(response[3] & 0x0F, 0);
}

#[test]
fn udp_keeps_its_rate_during_attacks_on_other_transports() {
    let _turn = in_turn();
    let cluster = Cluster::start_encrypted("rates", 1);
    add_big(&cluster);
    let (pid, server): (u32, SocketAddr) = (cluster.pid(1).unwrap(), cluster.dns(1));
    let legitimate = Legitimate::start(server, query("www.example.test.", Rtype::A).build());
    std::thread::sleep(STILL);
    for (what, attack) in ATTACKS {
        let growth = Growth::start(pid);
        for _ in 0..ROUNDS {
            legitimate.next();
            attack(&cluster);
            legitimate.next();
            std::thread::sleep(STILL);
        }
        let grown = growth.peak_kib();
        println!("{what}: {grown} KiB more at most");
        assert!(grown < GROWTH_KIB_MAX, "{what}: {grown} KiB more");
    }
    let phases = legitimate.finish();
    // The load of the machine may have changed since the start, so the phases between the attacks of one kind are
    // compared with them.
    for ((what, _), around) in ATTACKS.into_iter().zip(phases.windows(2 * ROUNDS + 1).step_by(2 * ROUNDS)) {
        let every_second = |from: usize| around.iter().skip(from).step_by(2).copied().collect::<Vec<Phase>>();
        let (quiet, attacked) = (every_second(0), every_second(1));
        let rate = quiet.iter().map(Phase::overall_rate).fold(0.0, f64::max);
        assert!(rate >= RATE / 4.0, "{rate:.0} answers/s are no load: {around:?}");
        assert_left(what, &quiet, &attacked, LEFT_MIN);
    }
    assert_eq!(cluster.metric(1, "catamaran_panics_total"), 0);
    // A client cannot fill the disk: its errors are counted, not logged.
    let log = std::fs::read_to_string(cluster.dir.join("node-1/node.log")).unwrap();
    let lines: Vec<&str> =
        log.lines().filter(|line| ["h2::", "quinn", "rustls"].iter().any(|of| line.contains(of))).collect();
    assert!(lines.is_empty(), "{} lines: {:?}", lines.len(), lines.first());
    // New clients are served over each transport afterwards.
    let message = query("www.example.test.", Rtype::A).build();
    assert!(exchange(Transport::Tcp, server, &message, WAIT).is_some());
    assert_eq!(Doh::connect(cluster.doh(1), trust(&cluster, &["h2"])).get(&message).unwrap().status, 200);
    assert!(Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap().ask(&message).is_ok());
}

/// The attackers run on the same cores, so the rate of a closed loop is what they leave of the machine. It shows the
/// cost of an attack, and varies too much for a regular test.
#[test]
fn closed_loop_rate_during_each_attack() {
    if !is_full("a closed loop beside attacks") {
        return;
    }
    let _turn = in_turn();
    let cluster = Cluster::start_encrypted("capacity", 1);
    add_big(&cluster);
    let start = || ClosedLoop::start(cluster.dns(1), query("www.example.test.", Rtype::A).build());
    let still = || {
        let asking = start();
        std::thread::sleep(ATTACK);
        asking.finish()
    };
    for (what, attack) in ATTACKS {
        let before = still();
        let asking = start();
        attack(&cluster);
        let beside = asking.finish();
        let rate = (before + still()) / 2.0;
        println!("{what}: {:.2} of {rate:.0} answers/s", beside / rate);
        assert!(beside >= CLOSED_MIN * rate, "{what}: {beside:.0} of {rate:.0} answers/s");
    }
}
