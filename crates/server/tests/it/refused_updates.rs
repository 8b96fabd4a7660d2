//! Refused updates, for each reason and through each node: the response is correct, the counter of the reason
//! increases, and no node changes.

use crate::support::cluster::{Cluster, Scratch};
use crate::support::dns::{Transport, exchange_and_count};
use crate::support::http;
use crate::support::message::{describe, name, now_s, sign, truncate_mac_of};
use crate::support::pipeline::outcome_of;
use serde_json::Value;
use std::time::Duration;
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype};
use wire::parse::Section;

const ALGORITHMS: [(KeyAlgorithm, &str, usize); 3] = [
    (KeyAlgorithm::HmacSha256, "hmac-sha256", 32),
    (KeyAlgorithm::HmacSha384, "hmac-sha384", 48),
    (KeyAlgorithm::HmacSha512, "hmac-sha512", 64),
];

/// One message, its response, and the label of the counter that increases.
struct Case {
    what: String,
    message: Vec<u8>,
    response: String,
    reason: &'static str,
}

fn case(what: impl Into<String>, message: Vec<u8>, response: impl Into<String>, reason: &'static str) -> Case {
    Case { what: what.into(), message, response: response.into(), reason }
}

/// The start of a valid UPDATE.
fn update(zone: &str) -> MessageBuilder {
    MessageBuilder::update(0x2136, name(zone).as_ref())
}

fn good() -> MessageBuilder {
    update("example.test.").add(name("refused.example.test.").as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
}

fn zone_of_class(class: Class) -> Vec<u8> {
    let mut message = good().build();
    let at = 12 + name("example.test.").as_bytes().len() + 2;
    message[at..at + 2].copy_from_slice(&class.0.to_be_bytes());
    message
}

/// The forms that the prescan refuses (RFC 2136 3.2.5, 3.4.1.3), each with its RCODE.
fn malformed() -> Vec<(&'static str, MessageBuilder, &'static str)> {
    let at = name("refused.example.test.");
    let outside = name("elsewhere.test.");
    let record = |section, rtype, class, ttl, rdata: &[u8]| {
        update("example.test.").record(section, at.as_ref(), rtype, class, ttl, rdata)
    };
    let step = |rtype, class, ttl, rdata: &[u8]| record(Section::UPDATE, rtype, class, ttl, rdata);
    let prerequisite = |rtype, class, ttl, rdata: &[u8]| {
        // The message also has an update, which must not be executed.
        record(Section::PREREQUISITE, rtype, class, ttl, rdata).add(at.as_ref(), Rtype::A, 60, &[192, 0, 2, 1])
    };
    let address = [192, 0, 2, 1];
    vec![
        ("rdata that is too short", step(Rtype::A, Class::IN, 60, &[192, 0, 2]), "FORMERR"),
        ("rdata that is too long", step(Rtype::A, Class::IN, 60, &[192, 0, 2, 1, 1]), "FORMERR"),
        ("a digest of a wrong length", step(Rtype::DS, Class::IN, 60, &[0, 1, 13, 2, 7, 7]), "FORMERR"),
        ("a record without rdata", step(Rtype::A, Class::IN, 60, &[]), "FORMERR"),
        ("a record of class CH", step(Rtype::A, Class::CH, 60, &address), "FORMERR"),
        ("a record of type ANY", step(Rtype::ANY, Class::IN, 60, &[]), "FORMERR"),
        ("a record of type AXFR", step(Rtype::AXFR, Class::IN, 60, &[]), "FORMERR"),
        ("deletes an RRset with a TTL", step(Rtype::A, Class::ANY, 60, &[]), "FORMERR"),
        ("deletes an RRset with rdata", step(Rtype::A, Class::ANY, 0, &address), "FORMERR"),
        ("deletes a record with a TTL", step(Rtype::A, Class::NONE, 60, &address), "FORMERR"),
        ("deletes a record of type ANY", step(Rtype::ANY, Class::NONE, 0, &[]), "FORMERR"),
        ("adds RRSIG", step(Rtype::RRSIG, Class::IN, 60, &[0; 20]), "REFUSED"),
        ("deletes NSEC", step(Rtype::NSEC, Class::ANY, 0, &[]), "REFUSED"),
        ("deletes DNSKEY", step(Rtype::DNSKEY, Class::ANY, 0, &[]), "REFUSED"),
        ("a step outside the zone", good().add(outside.as_ref(), Rtype::A, 60, &address), "NOTZONE"),
        ("a prerequisite outside the zone", update("example.test.").name_in_use(outside.as_ref()), "NOTZONE"),
        ("a prerequisite with a TTL", prerequisite(Rtype::A, Class::ANY, 1, &[]), "FORMERR"),
        ("a prerequisite of class ANY with rdata", prerequisite(Rtype::A, Class::ANY, 0, &address), "FORMERR"),
        ("a prerequisite of class NONE with rdata", prerequisite(Rtype::A, Class::NONE, 0, &address), "FORMERR"),
        ("a prerequisite of class CH", prerequisite(Rtype::A, Class::CH, 0, &address), "FORMERR"),
    ]
}

/// Messages that cannot be parsed, messages that are too large, and messages for zones that are not served.
fn of_the_message(key: &ClientKey) -> Vec<Case> {
    let signed = |message: Vec<u8>| sign(key, message, 0);
    let with_count = |section: usize, count: u16| {
        let mut message = good().build();
        message[4 + 2 * section..6 + 2 * section].copy_from_slice(&count.to_be_bytes());
        message
    };
    let loop_in_rdata = {
        let mut message = update("example.test.")
            .add(name("refused.example.test.").as_ref(), Rtype::MX, 60, &[0, 10, 0xC0, 0])
            .build();
        let len = message.len();
        // The pointer points at itself.
        message[len - 2..].copy_from_slice(&(0xC000 | (len as u16 - 2)).to_be_bytes());
        message
    };
    let many = (0..1_001_u16).fold(update("example.test."), |builder, n| {
        builder.add(name("many.example.test.").as_ref(), Rtype::A, 60, &[10, 1, (n >> 8) as u8, n as u8])
    });
    let mut long = good().build();
    long.resize(65_000, 0xAA);
    let mut short = signed(good().build());
    short.truncate(short.len() / 2);
    vec![
        case("more records than are counted", with_count(2, 0), "FORMERR", "left_over"),
        case("fewer records than are counted", with_count(2, 2), "FORMERR", "past_end"),
        case("no zone", with_count(0, 0), "FORMERR", "zone_count"),
        case("two zones", with_count(0, 2), "FORMERR", "zone_count"),
        case("cut in the middle", short, "FORMERR", "past_end"),
        case("65,000 bytes, most of them rubbish", long, "FORMERR", "left_over"),
        case(
            "a name in rdata that points at itself",
            signed(loop_in_rdata),
            "FORMERR, question, tsig noerror, mac",
            "prescan",
        ),
        case("1,001 records", signed(many.build()), "REFUSED, question, tsig noerror, mac", "prescan"),
        case(
            "a zone that is not served",
            signed(update("elsewhere.").build()),
            "NOTAUTH, question, tsig noerror, mac",
            "zone_unknown",
        ),
        case(
            "a name in a zone that is served",
            signed(update("www.example.test.").edns(1232, false).build()),
            "NOTAUTH, question, opt, ede 20, tsig noerror, mac",
            "zone_unknown",
        ),
    ]
}

/// Cases for each algorithm: unknown key, key of another algorithm, wrong MAC, late, early, truncated.
fn of_tsig(keys: &[ClientKey]) -> Vec<Case> {
    let mut cases = Vec::new();
    for ((algorithm, label, mac), key) in ALGORITHMS.into_iter().zip(keys) {
        let plain = || good().build();
        let signed_by = |owner: &str, algorithm, secret: &[u8]| {
            sign(&ClientKey::new(name(owner).as_ref(), algorithm, secret).unwrap(), plain(), 0)
        };
        let other = if algorithm == KeyAlgorithm::HmacSha256 { ALGORITHMS[1].0 } else { ALGORITHMS[0].0 };
        let words = |what: &str| format!("{label}: {what}");
        let full = if mac == 32 { "mac".to_owned() } else { format!("mac of {mac}") };
        let (bad_key, bad_sig) =
            ("NOTAUTH, question, tsig badkey, mac of 0", "NOTAUTH, question, tsig badsig, mac of 0");
        let bad_time = format!("NOTAUTH, question, tsig badtime, {full}, server time");
        let mut flipped = sign(key, plain(), 0);
        // The last byte of the MAC.
        let at = flipped.len() - 7;
        flipped[at] ^= 1;
        let mut changed = sign(key, plain(), 0);
        // A byte of the added address. The MAC covers it.
        let at = plain().len() - 1;
        changed[at] ^= 1;
        cases.extend([
            case(words("a key that nobody has"), signed_by("nobody.", algorithm, b"any"), bad_key, "tsig_bad_key"),
            case(words("another algorithm"), signed_by(label, other, b"any"), bad_key, "tsig_bad_key"),
            case(words("another secret"), signed_by(label, algorithm, b"another"), bad_sig, "tsig_bad_sig"),
            case(words("one bit of the MAC"), flipped, bad_sig, "tsig_bad_sig"),
            case(words("one bit of the message"), changed, bad_sig, "tsig_bad_sig"),
            case(words("expired"), sign(key, plain(), 9_000), &*bad_time, "tsig_bad_time"),
            case(words("not yet"), key.sign(plain(), now_s() + 9_000).unwrap(), &*bad_time, "tsig_bad_time"),
            case(
                words("expired, with a larger fudge"),
                key.sign_with_fudge(plain(), now_s() - 9_000, 9_999).unwrap(),
                bad_time,
                "tsig_bad_time",
            ),
            case(
                words("half of the MAC"),
                truncate_mac_of(sign(key, plain(), 0), mac, mac / 2),
                format!("NOTAUTH, question, tsig badtrunc, {full}"),
                "tsig_bad_trunc",
            ),
            case(
                words("all of the MAC but one byte"),
                truncate_mac_of(sign(key, plain(), 0), mac, mac - 1),
                format!("NOTAUTH, question, tsig badtrunc, {full}"),
                "tsig_bad_trunc",
            ),
            case(
                words("less than half of the MAC"),
                truncate_mac_of(sign(key, plain(), 0), mac, mac / 2 - 1),
                "FORMERR, question",
                "tsig_mac_length",
            ),
        ]);
    }
    cases
}

/// Well formed, with a valid signature or none, and not allowed.
fn of_rights(transfers: &ClientKey, elsewhere: &ClientKey, all: &ClientKey) -> Vec<Case> {
    let refused = "REFUSED, question, tsig noerror, mac";
    let in_signed_zone = || update("signed.test.").add(name("a.signed.test.").as_ref(), Rtype::A, 60, &[192, 0, 2, 1]);
    vec![
        case("without a key", good().build(), "REFUSED, question", "unsigned"),
        case(
            "without a key, with EDNS",
            good().edns(1232, false).build(),
            "REFUSED, question, opt, ede 18",
            "unsigned",
        ),
        case("a key for transfers only", sign(transfers, good().build(), 0), refused, "not_granted"),
        case("a key for another zone", sign(elsewhere, good().build(), 0), refused, "not_granted"),
        case(
            "a key for another zone, with EDNS",
            sign(elsewhere, good().edns(1232, false).build(), 0),
            "REFUSED, question, opt, ede 18, tsig noerror, mac",
            "not_granted",
        ),
        case("a zone that is signed elsewhere", sign(all, in_signed_zone().build(), 0), refused, "presigned"),
        case(
            "class CH",
            sign(all, zone_of_class(Class::CH), 0),
            "NOTAUTH, question, tsig noerror, mac",
            "zone_unknown",
        ),
        case(
            "class NONE",
            sign(all, zone_of_class(Class::NONE), 0),
            "NOTAUTH, question, tsig noerror, mac",
            "zone_unknown",
        ),
        case("class CH, without a key", zone_of_class(Class::CH), "NOTAUTH, question", "zone_unknown"),
    ]
}

/// A key made by the command line, in the form that a client needs.
fn add_key(cluster: &Cluster, own: &str, algorithm: (KeyAlgorithm, &str), arguments: &[&str]) -> ClientKey {
    let made = cluster.run(&[&["key", "add", own, "--algorithm", algorithm.1][..], arguments].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    let secret = data_encoding::BASE64.decode(text.split('"').nth(3).unwrap().as_bytes()).unwrap();
    ClientKey::new(name(own).as_ref(), algorithm.0, &secret).unwrap()
}

/// The state of a node.
#[derive(Clone, PartialEq, Debug)]
struct State {
    term: u64,
    /// The state hash and the zones.
    contents: Value,
    /// The applied index and the commit index. An election adds an empty entry.
    indexes: Value,
}

/// The states of all nodes.
fn state(cluster: &Cluster) -> Vec<State> {
    let of = |status: Value| State {
        term: status["term"].as_u64().unwrap(),
        contents: serde_json::json!([status["state_hash"], status["zones"]]),
        indexes: serde_json::json!([status["applied_index"], status["commit_index"]]),
    };
    cluster.ids().map(|id| of(cluster.status(id).unwrap())).collect()
}

fn contents(states: &[State]) -> Vec<&Value> {
    states.iter().map(|state| &state.contents).collect()
}

fn terms(states: &[State]) -> Vec<u64> {
    states.iter().map(|state| state.term).collect()
}

/// The number of refusals that a node has counted for this reason, over all transports.
fn counted(cluster: &Cluster, id: u64, reason: &str) -> u64 {
    let page = http::get(cluster.api(id), "/metrics").unwrap().text();
    let wanted = format!("reason=\"{reason}\"");
    let rejects = page.lines().filter(|line| line.starts_with("catamaran_rejects_total{") && line.contains(&wanted));
    rejects.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

const SIGNED_ZONE: &str = "$TTL 60\n@ SOA ns h 7 1 2 3 4\n@ NS ns\nns A 192.0.2.53\n@ DNSKEY 256 3 13 \
    mdsswUyr3DPW132mOi8V9xESWE8jTo0dxCjjnopKl+GqJxpVXckHAeF+KkxLbxILfDLUT0rAK9iUzy1L53eKGQ==\n";

#[test]
fn a_refused_update_is_answered_counted_and_leaves_no_trace() {
    let scratch = Scratch::new("refused");
    let cluster = Cluster::start("refused", 3, &[]);
    let added = cluster.run(&["zone", "add", &format!("signed.test={}", scratch.file("db", SIGNED_ZONE))]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let of_algorithms: Vec<ClientKey> = ALGORITHMS
        .into_iter()
        .map(|(algorithm, label, _)| add_key(&cluster, &format!("{label}."), (algorithm, label), &["--update"]))
        .collect();
    let sha256 = (KeyAlgorithm::HmacSha256, "hmac-sha256");
    let transfers = add_key(&cluster, "transfers.", sha256, &["--transfer"]);
    let elsewhere = add_key(&cluster, "elsewhere.", sha256, &["--update", "--zone", "signed.test"]);
    cluster.settle();
    let all = &of_algorithms[0];
    let mut cases = of_the_message(all);
    cases.extend(malformed().into_iter().map(|(what, message, rcode)| {
        case(what, sign(all, message.build(), 0), format!("{rcode}, question, tsig noerror, mac"), "prescan")
    }));
    cases.extend(of_tsig(&of_algorithms));
    cases.extend(of_rights(&transfers, &elsewhere, all));

    let mut before = state(&cluster);
    let mut repeats = 0;
    let mut wrong = Vec::new();
    for Case { what, message, response, reason } in &cases {
        for id in cluster.ids() {
            for transport in [Transport::Udp, Transport::Tcp] {
                let count = counted(&cluster, id, reason);
                let (got, sent_count) = exchange_and_count(transport, cluster.dns(id), message, Duration::from_secs(5));
                // The node may count a repeated datagram later.
                repeats += sent_count - 1;
                let described = got.map_or_else(|| "none".to_owned(), |got| describe(message, &got));
                let moved = counted(&cluster, id, reason) - count;
                if described != *response || !(1..=1 + repeats).contains(&moved) {
                    wrong.push(format!(
                        "{what}, through node {id} over {transport:?}\n  wanted {response}, `{reason}` to move by 1\n  \
                         got    {described}, and it moved by {moved}"
                    ));
                }
            }
        }
        let after = state(&cluster);
        let was_election = terms(&after) != terms(&before);
        if contents(&after) != contents(&before) || (!was_election && after != before) {
            wrong.push(format!("{what}: left a trace: {after:?}"));
        }
        if was_election {
            cluster.settle();
            before = state(&cluster);
        }
    }
    println!("{} messages, through three nodes, over UDP and TCP", cases.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(cluster.ids().map(|id| cluster.metric(id, "catamaran_panics_total")).sum::<u64>(), 0);
    // The same message without a fault is accepted, with each key that has the permission.
    for (key, id) in of_algorithms.iter().zip(cluster.ids()) {
        let message = sign(key, good().build(), 0);
        let response = outcome_of(Transport::Udp, cluster.dns(id), &message);
        assert!(describe(&message, &response).starts_with("NOERROR, question, tsig noerror, mac"));
    }
    assert_ne!(contents(&state(&cluster)), contents(&before));
}
