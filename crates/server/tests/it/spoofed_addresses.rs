//! UDP queries from source addresses spread over a network. However many addresses are used, each of their prefixes has
//! a limit.

use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::message::name;
use std::fmt::Write;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Names of the zone: every query of a flood is different.
const NAMES: usize = 4_000;
/// Time without a response that ends a flood.
const SILENCE: Duration = Duration::from_millis(300);

/// Responses per second for an address and for a /24 network. The burst is one second's worth.
const ADDRESS: u64 = 10;
const NETWORK: u64 = 100;

/// A node with one worker, whose rate limit also applies to loopback.
fn start(test: &str) -> (Cluster, Scratch) {
    let scratch = Scratch::new(test);
    let mut zone = "$ORIGIN many.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\n".to_owned();
    (0..NAMES).for_each(|number| writeln!(zone, "n{number} TXT {number:0200}").unwrap());
    let zone = format!("many.test={}", scratch.file("many", &zone));
    let mut cluster = Cluster::start(test, 1, &["--zone", &zone]);
    assert_eq!(cluster.end("TERM"), Some(0));
    for (from, to) in [
        ("\"127.0.0.0/8\"", "\"192.0.2.0/24\""),
        ("\nudp_workers = 0\n", "\nudp_workers = 1\n"),
        ("\naddress_per_second = 100\n", &format!("\naddress_per_second = {ADDRESS}\n")),
        ("\naddress_burst = 250\n", &format!("\naddress_burst = {ADDRESS}\n")),
        ("\nall_per_second = 1600\n", &format!("\nall_per_second = {NETWORK}\n")),
        ("\nall_burst = 4000\n", &format!("\nall_burst = {NETWORK}\n")),
    ] {
        cluster.configure(1, from, to);
    }
    cluster.resume(&[]);
    wait_for("the node to serve", || cluster.status(1).filter(|status| status["serving"] == "yes"));
    (cluster, scratch)
}

/// The outcome of a flood.
#[derive(Debug)]
struct Outcome {
    whole: u64,
    short: u64,
    seconds: f64,
}

/// Sends queries from each of these addresses in turn, all for different names, and reads the responses.
fn flood(to: SocketAddr, from: impl Iterator<Item = Ipv4Addr>, count: usize) -> Outcome {
    let sockets: Vec<UdpSocket> = from.map(|address| UdpSocket::bind((address, 0)).unwrap()).collect();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    let mut outcome = Outcome { whole: 0, short: 0, seconds: 0.0 };
    let take = |outcome: &mut Outcome| {
        let mut bytes = [0; 4_096];
        let mut any = false;
        for socket in &sockets {
            loop {
                match socket.recv(&mut bytes) {
                    Ok(_) if bytes[2] & 2 == 0 => outcome.whole += 1,
                    Ok(_) => outcome.short += 1,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
                any = true;
            }
        }
        any
    };
    let begun = Instant::now();
    for number in 0..count {
        let query = MessageBuilder::query(1, name(&format!("n{number}.many.test.")).as_ref(), Rtype::TXT).build();
        sockets[number % sockets.len()].send_to(&query, to).unwrap();
        // The number in flight stays within the buffers of both sides.
        if number % 16 == 15 {
            std::thread::sleep(Duration::from_millis(1));
            take(&mut outcome);
        }
    }
    let mut heard_at = Instant::now();
    while heard_at.elapsed() < SILENCE {
        if take(&mut outcome) {
            heard_at = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    outcome.seconds = (heard_at - begun).as_secs_f64();
    outcome
}

#[test]
fn each_prefix_is_limited_however_many_addresses_a_flood_uses() {
    let (cluster, _zone) = start("spoofed");
    let addresses = |base: [u8; 4], networks: u32, each: u32| {
        let base = u32::from(Ipv4Addr::from(base));
        (0..networks).flat_map(move |network| (1..=each).map(move |host| Ipv4Addr::from(base + (network << 8) + host)))
    };
    // Each case uses its own /16, so that they share no limit. Queries beyond the limit get truncated responses.
    for (what, from, count, rate) in [
        ("one address", addresses([127, 61, 0, 0], 1, 1), 500, ADDRESS),
        ("a /24", addresses([127, 62, 0, 0], 1, 200), 2_000, NETWORK),
        ("a /20", addresses([127, 63, 0, 0], 16, 25), NAMES, 4 * NETWORK),
        ("a /18", addresses([127, 64, 0, 0], 64, 7), NAMES, 8 * NETWORK),
    ] {
        let outcome = flood(cluster.dns(1), from, count);
        println!("{what}: {outcome:?}");
        // The burst is one second's worth.
        let bound = (rate as f64 * (1.0 + outcome.seconds)) as u64 + 1;
        assert!(outcome.whole <= bound, "{what}: more than {bound} of {outcome:?}");
        assert!(outcome.whole >= rate * 9 / 10, "{what}: too few whole answers, {outcome:?}");
        assert!(outcome.whole + outcome.short > count as u64 / 2, "{what}: too few answers, {outcome:?}");
    }
}
