//! The response to each kind of message: the 21 rows, in order, over all transports, with the counter that increases.

// The cases, row by row.
mod message;
mod refused;
mod tsig;
// Rows that need more than one node, or more than a socket.
mod source_port;
mod unservable;

use crate::support::cluster::Cluster;
use crate::support::dns::{SILENCE, Transport, exchange_once};
use crate::support::encrypted::{Doh, Doq, ask, tls, trust};
use crate::support::http;
use crate::support::message::{describe, name, sign};
use ::tsig::KeyAlgorithm;
use ::tsig::client::ClientKey;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::{Class, Opcode, Rtype};

/// The keys of the messages.
struct Keys {
    /// Granted on all zones.
    good: ClientKey,
    /// The same name with another secret.
    wrong_secret: ClientKey,
    /// The same name and secret with another algorithm.
    wrong_algorithm: ClientKey,
    /// Another name.
    unknown: ClientKey,
    /// Known, without grants.
    granted_nothing: ClientKey,
}

/// How long a client waits for a response.
const ANSWER: Duration = Duration::from_secs(20);

/// One case.
struct Case {
    /// The row of the table, and which of its messages.
    row: &'static str,
    message: fn(&Keys) -> Vec<u8>,
    /// `none`, or the response in words.
    response: &'static str,
    /// The family and the label value of the counter that increases by one.
    counter: (&'static str, &'static str),
}

const DROPS: &str = "catamaran_drops_total";
const REJECTS: &str = "catamaran_rejects_total";
const ANSWERS: &str = "catamaran_answers_total";
const UPDATES: &str = "catamaran_updates_total";
const RESPONSES: &str = "catamaran_responses_total";
const NOT_GRANTED: (&str, &str) = (REJECTS, "not_granted");
const SIGNED_NOT_SUPPORTED: &str = "REFUSED, question, opt, ede 21, tsig noerror, mac";
const SIGNED_PROHIBITED: &str = "REFUSED, question, opt, ede 18, tsig noerror, mac";

fn query(qtype: Rtype) -> MessageBuilder {
    MessageBuilder::query(0x1234, name("www.example.test.").as_ref(), qtype).header(|header| header.rd = true)
}

fn add_record(zone: &str) -> MessageBuilder {
    MessageBuilder::update(0x4321, name(zone).as_ref()).add(
        name("golden.example.test.").as_ref(),
        Rtype::A,
        60,
        &[192, 0, 2, 9],
    )
}

/// An OPT record without options, except for owner and class.
fn opt(owner: &[u8], rdata: &[u8]) -> Vec<u8> {
    [owner, &[0, 41, 4, 208, 0, 0, 0, 0], &(rdata.len() as u16).to_be_bytes(), rdata].concat()
}

fn with_counts(mut message: Vec<u8>, section: usize, count: u16) -> Vec<u8> {
    message[4 + 2 * section..6 + 2 * section].copy_from_slice(&count.to_be_bytes());
    message
}

fn question_of_class(qclass: Class) -> Vec<u8> {
    let builder = MessageBuilder::new(Default::default());
    builder.question(name("www.example.test.").as_ref(), Rtype::A, qclass).build()
}

fn opcode(opcode: u8) -> Vec<u8> {
    query(Rtype::A).header(|header| header.opcode = Opcode(opcode)).build()
}

/// The TSIG record of a signed message, without the message.
fn tsig_of(key: &ClientKey) -> Vec<u8> {
    let plain = query(Rtype::A).build();
    sign(key, plain.clone(), 0)[plain.len()..].to_vec()
}

/// The value of one label of a family, summed over transports.
fn count(cluster: &Cluster, (family, label): (&str, &str)) -> u64 {
    let page = http::get(cluster.api(1), "/metrics").unwrap().text();
    let wanted = format!("\"{label}\"");
    let series = page.lines().filter(|line| line.starts_with(&format!("{family}{{")) && line.contains(&wanted));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// By how much a counter has increased. Waits until it has, because a node may count after it responds.
fn increase(cluster: &Cluster, counter: (&str, &str), before: u64) -> u64 {
    const COUNTED: Duration = Duration::from_secs(10);
    let start = Instant::now();
    loop {
        let increase = count(cluster, counter) - before;
        if increase > 0 || start.elapsed() > COUNTED {
            return increase;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn keys(cluster: &Cluster) -> Keys {
    let text = std::fs::read_to_string(cluster.update_key()).unwrap();
    let quoted: Vec<&str> = text.split('"').collect();
    let (own, secret) = (name(quoted[1]), data_encoding::BASE64.decode(quoted[3].as_bytes()).unwrap());
    let key = |name: &wire::Name, algorithm, secret: &[u8]| ClientKey::new(name.as_ref(), algorithm, secret).unwrap();
    Keys {
        good: key(&own, KeyAlgorithm::HmacSha256, &secret),
        wrong_secret: key(&own, KeyAlgorithm::HmacSha256, b"another secret of some length..."),
        wrong_algorithm: key(&own, KeyAlgorithm::HmacSha512, &secret),
        unknown: key(&name("nobody."), KeyAlgorithm::HmacSha256, &secret),
        granted_nothing: {
            let made = cluster.run(&["key", "add", "idle"]);
            let text = String::from_utf8(made.stdout).unwrap();
            let secret = data_encoding::BASE64.decode(text.split('"').nth(3).unwrap().as_bytes()).unwrap();
            key(&name("idle."), KeyAlgorithm::HmacSha256, &secret)
        },
    }
}

/// Sends a message over a transport, on a new connection. Returns the bytes sent, and the response.
fn send(cluster: &Cluster, transport: &str, mut message: Vec<u8>, wait: Duration) -> (Vec<u8>, Option<Vec<u8>>) {
    let response = match transport {
        "udp" => exchange_once(Transport::Udp, cluster.dns(1), &message, wait),
        "tcp" => exchange_once(Transport::Tcp, cluster.dns(1), &message, wait),
        "dot" => ask(&mut tls(cluster.dot(1), &Arc::new(trust(cluster, &["dot"]))).unwrap(), &message).ok(),
        "doh" => {
            let answer = Doh::connect(cluster.doh(1), trust(cluster, &["h2"])).post(&message).unwrap();
            // Messages without a response on other transports get an HTTP error here.
            assert!([200, 400].contains(&answer.status), "{answer:?}");
            (answer.status == 200).then_some(answer.body)
        }
        _ => {
            // RFC 9250 4.2.1: the ID is zero. A signature covers the ID in TSIG (RFC 8945 5.3.1).
            message.iter_mut().take(2).for_each(|byte| *byte = 0);
            Doq::connect(cluster.dot(1), trust(cluster, &["doq"])).unwrap().ask(&message).ok()
        }
    };
    (message, response)
}

#[test]
fn each_row_gets_its_answer_over_each_transport_and_moves_its_counter() {
    let cluster = Cluster::start_encrypted("rows", 1);
    let keys = keys(&cluster);
    let mut wrong = Vec::new();
    let cases: Vec<&Case> = [message::CASES, tsig::CASES, refused::CASES].into_iter().flatten().collect();
    let transports = ["udp", "tcp", "dot", "doh", "doq"];
    for case in &cases {
        for transport in transports {
            let before = count(&cluster, case.counter);
            let wait = if case.response == "none" { SILENCE } else { ANSWER };
            let (message, response) = send(&cluster, transport, (case.message)(&keys), wait);
            let described = response.map_or_else(|| "none".to_owned(), |response| describe(&message, &response));
            let moved = increase(&cluster, case.counter, before);
            if described != case.response || moved != 1 {
                wrong.push(format!(
                    "row {} over {transport}\n  wanted {}, and {:?} to move by 1\n  \
                     got    {described}, and it moved by {moved}",
                    case.row, case.response, case.counter
                ));
            }
        }
    }
    let count = transports.len() * cases.len();
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn row_18_transfers_by_transport_and_grant_and_row_15_names_that_are_configured() {
    let mut cluster = Cluster::start("rows-18", 1, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let file = cluster.dir.join("node-1/catamaran.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace("[dns]\n", "[dns]\nchaos_id = \"one\"\n")).unwrap();
    cluster.resume(&[]);
    let keys = keys(&cluster);
    // The query asks for both options: no transfer has ZONEVERSION, and each has EXPIRE (RFC 7314 3).
    let wanted =
        |qtype| MessageBuilder::query(9, name("example.test.").as_ref(), qtype).option(19, &[]).option(9, &[]).build();
    let chaos = |qname: &str| {
        MessageBuilder::new(Default::default()).question(name(qname).as_ref(), Rtype::TXT, Class::CH).build()
    };
    for (transport, message, response, counter) in [
        // AXFR over UDP does not exist (RFC 5936 4.2).
        (Transport::Udp, sign(&keys.good, wanted(Rtype::AXFR), 0), SIGNED_NOT_SUPPORTED, (ANSWERS, "refused")),
        // IXFR over UDP gets the current SOA (RFC 1995 2).
        (
            Transport::Udp,
            sign(&keys.good, wanted(Rtype::IXFR), 0),
            "NOERROR, question, answer 1, opt, expire 604800, tsig noerror, mac",
            (RESPONSES, "noerror"),
        ),
        (Transport::Udp, sign(&keys.granted_nothing, wanted(Rtype::IXFR), 0), SIGNED_PROHIBITED, NOT_GRANTED),
        (Transport::Tcp, sign(&keys.granted_nothing, wanted(Rtype::AXFR), 0), SIGNED_PROHIBITED, NOT_GRANTED),
        (Transport::Tcp, sign(&keys.granted_nothing, wanted(Rtype::IXFR), 0), SIGNED_PROHIBITED, NOT_GRANTED),
        (
            Transport::Tcp,
            sign(&keys.good, wanted(Rtype::AXFR), 0),
            "NOERROR, question, answer 14, opt, expire 604800, tsig noerror, mac",
            (RESPONSES, "noerror"),
        ),
        // Without the client's serial, IXFR is a full transfer.
        (
            Transport::Tcp,
            sign(&keys.good, wanted(Rtype::IXFR), 0),
            "NOERROR, question, answer 14, opt, expire 604800, tsig noerror, mac",
            (RESPONSES, "noerror"),
        ),
        (
            Transport::Tcp,
            sign(&keys.good, MessageBuilder::query(9, name("nowhere.").as_ref(), Rtype::AXFR).build(), 0),
            "NOTAUTH, question, tsig noerror, mac",
            (REJECTS, "zone_unknown"),
        ),
        (Transport::Udp, chaos("id.server."), "NOERROR, question, answer 1", (ANSWERS, "chaos")),
        (Transport::Tcp, chaos("Hostname.Bind."), "NOERROR, question, answer 1", (ANSWERS, "chaos")),
        (Transport::Udp, chaos("version.bind."), "REFUSED, question", (ANSWERS, "refused")),
    ] {
        let before = count(&cluster, counter);
        let got = exchange_once(transport, cluster.dns(1), &message, ANSWER);
        assert_eq!(describe(&message, &got.unwrap()), response, "{transport:?} {counter:?}");
        assert_eq!(increase(&cluster, counter, before), 1, "{transport:?} {counter:?}");
    }
}
