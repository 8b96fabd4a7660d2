//! Which answer a message gets: the 21 rows, in their order, over UDP and TCP, with the counter that moves.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{SILENCE, Transport, exchange};
use crate::support::http;
use crate::support::message::{append, describe, name, now_s, patch_before_tsig_rdata, sign, truncate_mac};
use replica::io::KeyAlgorithm;
use replica::update::client::ClientKey;
use std::time::Duration;
use wire::builder::MessageBuilder;
use wire::number::{Class, Opcode, Rtype};
use wire::parse::Section;

/// What messages are made with.
struct Keys {
    /// Granted on all zones.
    good: ClientKey,
    /// Of the same name and another secret.
    wrong_secret: ClientKey,
    /// Of the same name and secret and another algorithm.
    wrong_algorithm: ClientKey,
    /// Of another name.
    unknown: ClientKey,
}

/// One case.
struct Case {
    /// The row of the table, and which of its messages.
    row: &'static str,
    message: fn(&Keys) -> Vec<u8>,
    /// `none`, or the response in words.
    response: &'static str,
    /// The family and the label value of the counter that moves by one.
    counter: (&'static str, &'static str),
}

const DROPS: &str = "catamaran_drops_total";
const REJECTS: &str = "catamaran_rejects_total";
const ANSWERS: &str = "catamaran_answers_total";
const UPDATES: &str = "catamaran_updates_total";

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

/// An OPT record of no options, but for owner and class.
fn opt(owner: &[u8], rdata: &[u8]) -> Vec<u8> {
    [owner, &[0, 41, 4, 208, 0, 0, 0, 0], &(rdata.len() as u16).to_be_bytes(), rdata].concat()
}

fn with_counts(mut message: Vec<u8>, section: usize, count: u16) -> Vec<u8> {
    message[4 + 2 * section..6 + 2 * section].copy_from_slice(&count.to_be_bytes());
    message
}

fn opcode(opcode: u8) -> Vec<u8> {
    query(Rtype::A).header(|header| header.opcode = Opcode(opcode)).build()
}

/// The TSIG record of a signed message, without the message.
fn tsig_of(key: &ClientKey) -> Vec<u8> {
    let plain = query(Rtype::A).build();
    sign(key, plain.clone(), 0)[plain.len()..].to_vec()
}

const CASES: &[Case] = &[
    Case { row: "1 short", message: |_| vec![0; 11], response: "none", counter: (DROPS, "short") },
    Case {
        row: "1 QR",
        message: |_| query(Rtype::A).header(|header| header.qr = true).build(),
        response: "none",
        counter: (DROPS, "response"),
    },
    Case { row: "2 STATUS", message: |_| opcode(2), response: "NOTIMP", counter: (REJECTS, "opcode") },
    Case { row: "2 NOTIFY", message: |_| opcode(4), response: "NOTIMP", counter: (REJECTS, "opcode") },
    Case {
        row: "2 DSO, QDCOUNT 0",
        message: |_| with_counts(opcode(6), 0, 0),
        response: "NOTIMP",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "2 opcode 15, nonsense behind",
        message: |_| [opcode(15), vec![0xFF; 99]].concat(),
        response: "NOTIMP",
        counter: (REJECTS, "opcode"),
    },
    Case {
        row: "3 QDCOUNT 2",
        message: |_| query(Rtype::A).question(name("b.").as_ref(), Rtype::A, Class::IN).build(),
        response: "FORMERR",
        counter: (REJECTS, "question_count_many"),
    },
    Case {
        row: "4 QDCOUNT 0",
        message: |_| query(Rtype::A).build()[..12].to_vec(),
        response: "FORMERR",
        counter: (REJECTS, "past_end"),
    },
    Case {
        row: "4 QDCOUNT 0, empty",
        message: |_| with_counts(query(Rtype::A).build()[..12].to_vec(), 0, 0),
        response: "FORMERR",
        counter: (REJECTS, "question_count_zero"),
    },
    Case {
        row: "4 QDCOUNT 0, COOKIE",
        message: |_| MessageBuilder::new(Default::default()).option(10, &[7; 8]).build(),
        response: "NOERROR, opt",
        counter: (ANSWERS, "cookie_only"),
    },
    Case {
        row: "5 ZOCOUNT 0",
        message: |_| with_counts(opcode(5)[..12].to_vec(), 0, 0),
        response: "FORMERR",
        counter: (REJECTS, "zone_count"),
    },
    Case {
        row: "5 ZOCOUNT 2",
        message: |_| with_counts(add_record("example.test.").build(), 0, 2),
        response: "FORMERR",
        counter: (REJECTS, "zone_count"),
    },
    Case { row: "5 ZTYPE A", message: |_| opcode(5), response: "FORMERR, question", counter: (REJECTS, "zone_type") },
    Case {
        row: "6 past the end",
        message: |_| with_counts(query(Rtype::A).build(), 1, 1),
        response: "FORMERR",
        counter: (REJECTS, "past_end"),
    },
    Case {
        row: "6 left over",
        message: |_| [query(Rtype::A).build(), vec![0]].concat(),
        response: "FORMERR",
        counter: (REJECTS, "left_over"),
    },
    Case {
        row: "6 a name that points at itself",
        message: |_| [&query(Rtype::A).build()[..12], &[0xC0, 12, 0, 1, 0, 1]].concat(),
        response: "FORMERR",
        counter: (REJECTS, "name_malformed"),
    },
    Case {
        row: "7 two OPT",
        message: |_| append(query(Rtype::A).edns(1232, false).build(), &opt(&[0], &[])),
        response: "FORMERR, question",
        counter: (REJECTS, "opt_twice"),
    },
    Case {
        row: "7 OPT not at the root",
        message: |_| append(query(Rtype::A).build(), &opt(&[1, b'a', 0], &[])),
        response: "FORMERR, question",
        counter: (REJECTS, "opt_owner"),
    },
    Case {
        row: "7 OPT in the answer section",
        message: |_| {
            query(Rtype::A).record(Section::Answer, name(".").as_ref(), Rtype::OPT, Class(1232), 0, &[]).build()
        },
        response: "FORMERR, question",
        counter: (REJECTS, "opt_section"),
    },
    Case {
        row: "7 option past the end",
        message: |_| append(query(Rtype::A).build(), &opt(&[0], &[0, 3, 0, 9])),
        response: "FORMERR, question",
        counter: (REJECTS, "opt_options"),
    },
    Case {
        row: "7 COOKIE of 9",
        message: |_| query(Rtype::A).option(10, &[7; 9]).build(),
        response: "FORMERR, question, opt",
        counter: (REJECTS, "cookie_length"),
    },
    Case {
        row: "8 EDNS 1",
        message: |_| query(Rtype::A).edns_version(1).build(),
        response: "BADVERS, question, opt",
        counter: (REJECTS, "edns_version"),
    },
    Case {
        row: "8 EDNS 1, before class",
        message: |_| {
            MessageBuilder::new(Default::default())
                .question(name("a.").as_ref(), Rtype::A, Class::CH)
                .edns_version(9)
                .build()
        },
        response: "BADVERS, question, opt",
        counter: (REJECTS, "edns_version"),
    },
    Case {
        row: "9 TSIG not last",
        message: |keys| {
            append(sign(&keys.good, query(Rtype::A).build(), 0), &[0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4])
        },
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_not_last"),
    },
    Case {
        row: "9 TSIG twice",
        message: |keys| append(sign(&keys.good, query(Rtype::A).build(), 0), &tsig_of(&keys.good)),
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_twice"),
    },
    Case {
        row: "9 TSIG of class IN",
        message: |keys| patch_before_tsig_rdata(sign(&keys.good, query(Rtype::A).build(), 0), 8, &[0, 1]),
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_class"),
    },
    Case {
        row: "9 MAC of 15 octets",
        message: |keys| truncate_mac(sign(&keys.good, query(Rtype::A).build(), 0), 15),
        response: "FORMERR, question",
        counter: (REJECTS, "tsig_mac_length"),
    },
    Case {
        row: "10 unknown key",
        message: |keys| sign(&keys.unknown, query(Rtype::A).build(), 0),
        response: "NOTAUTH, question, tsig badkey, mac of 0",
        counter: (REJECTS, "tsig_bad_key"),
    },
    Case {
        row: "10 another algorithm",
        message: |keys| sign(&keys.wrong_algorithm, add_record("example.test.").build(), 0),
        response: "NOTAUTH, question, tsig badkey, mac of 0",
        counter: (REJECTS, "tsig_bad_key"),
    },
    Case {
        row: "11 wrong secret",
        message: |keys| sign(&keys.wrong_secret, add_record("example.test.").build(), 0),
        response: "NOTAUTH, question, tsig badsig, mac of 0",
        counter: (REJECTS, "tsig_bad_sig"),
    },
    Case {
        row: "11 wrong secret, and late: the MAC comes first",
        message: |keys| sign(&keys.wrong_secret, add_record("example.test.").build(), 9_999),
        response: "NOTAUTH, question, tsig badsig, mac of 0",
        counter: (REJECTS, "tsig_bad_sig"),
    },
    Case {
        row: "12 late",
        message: |keys| sign(&keys.good, add_record("example.test.").build(), 301),
        response: "NOTAUTH, question, tsig badtime, mac, server time",
        counter: (REJECTS, "tsig_bad_time"),
    },
    Case {
        row: "12 late, fudge 3600 is capped",
        message: |keys| keys.good.sign_with_fudge(add_record("example.test.").build(), now_s() - 310, 3_600).unwrap(),
        response: "NOTAUTH, question, tsig badtime, mac, server time",
        counter: (REJECTS, "tsig_bad_time"),
    },
    Case {
        row: "13 MAC of 16 octets",
        message: |keys| truncate_mac(sign(&keys.good, add_record("example.test.").build(), 0), 16),
        response: "NOTAUTH, question, tsig badtrunc, mac",
        counter: (REJECTS, "tsig_bad_trunc"),
    },
    Case {
        row: "14 a signed QUERY",
        message: |keys| sign(&keys.good, query(Rtype::A).build(), 0),
        response: "NOERROR, question, answer 1, tsig noerror, mac",
        counter: (ANSWERS, "positive"),
    },
    Case {
        row: "14 a signed QUERY that is refused",
        message: |keys| {
            sign(&keys.good, MessageBuilder::query(1, name("nowhere.").as_ref(), Rtype::A).edns(1232, false).build(), 0)
        },
        response: "REFUSED, question, opt, ede 20, tsig noerror, mac",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "14 a signed UPDATE",
        message: |keys| sign(&keys.good, add_record("example.test.").edns(1232, false).build(), 0),
        response: "NOERROR, question, opt, tsig noerror, mac",
        counter: (UPDATES, "done"),
    },
    Case {
        row: "15 class CH",
        message: |_| {
            MessageBuilder::new(Default::default()).question(name("id.server.").as_ref(), Rtype::TXT, Class::CH).build()
        },
        response: "REFUSED, question",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "15 class ANY",
        message: |_| {
            MessageBuilder::new(Default::default())
                .question(name("www.example.test.").as_ref(), Rtype::A, Class::ANY)
                .build()
        },
        response: "REFUSED, question",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "16 UPDATE of class CH",
        message: |keys| {
            let header = MessageBuilder::update(5, name(".").as_ref()).build()[..4].to_vec();
            let body = [&[0, 1, 0, 0, 0, 0, 0, 0][..], name("example.test.").octets(), &[0, 6, 0, 3]].concat();
            sign(&keys.good, [header, body].concat(), 0)
        },
        response: "NOTAUTH, question, tsig noerror, mac",
        counter: (REJECTS, "zone_unknown"),
    },
    Case {
        row: "16 UPDATE of what is no apex",
        message: |keys| sign(&keys.good, add_record("www.example.test.").build(), 0),
        response: "NOTAUTH, question, tsig noerror, mac",
        counter: (REJECTS, "zone_unknown"),
    },
    Case {
        row: "16 UPDATE of what is no apex, unsigned: before 21",
        message: |_| add_record("elsewhere.").build(),
        response: "NOTAUTH, question",
        counter: (REJECTS, "zone_unknown"),
    },
    Case {
        row: "17 QTYPE OPT",
        message: |_| query(Rtype::OPT).build(),
        response: "FORMERR, question",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "17 QTYPE TSIG",
        message: |_| query(Rtype::TSIG).build(),
        response: "FORMERR, question",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "17 QTYPE TKEY",
        message: |_| query(Rtype::TKEY).build(),
        response: "FORMERR, question",
        counter: (ANSWERS, "formerr"),
    },
    Case {
        row: "17 QTYPE MAILA",
        message: |_| query(Rtype::MAILA).build(),
        response: "NOTIMP, question",
        counter: (ANSWERS, "notimp"),
    },
    Case {
        row: "17 QTYPE MAILB",
        message: |_| query(Rtype::MAILB).build(),
        response: "NOTIMP, question",
        counter: (ANSWERS, "notimp"),
    },
    Case {
        row: "18 AXFR without key",
        message: |_| MessageBuilder::query(9, name("example.test.").as_ref(), Rtype::AXFR).edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 21",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "18 IXFR without key",
        message: |_| MessageBuilder::query(9, name("example.test.").as_ref(), Rtype::IXFR).edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 21",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "19 no zone",
        message: |_| MessageBuilder::query(9, name("example.org.").as_ref(), Rtype::A).edns(1232, false).build(),
        response: "REFUSED, question, opt, ede 20",
        counter: (ANSWERS, "refused"),
    },
    Case {
        row: "21 UPDATE without key",
        message: |_| add_record("example.test.").build(),
        response: "REFUSED, question",
        counter: (REJECTS, "unsigned"),
    },
];

/// The value of one label of a family, summed over transports.
fn count(cluster: &Cluster, (family, label): (&str, &str)) -> u64 {
    let page = http::get(cluster.api(1), "/metrics").unwrap().text();
    let wanted = format!("\"{label}\"");
    let series = page.lines().filter(|line| line.starts_with(&format!("{family}{{")) && line.contains(&wanted));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
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
    }
}

#[test]
fn each_row_gets_its_answer_over_udp_and_tcp_and_moves_its_counter() {
    let cluster = Cluster::start("rows", 1, &[]);
    let keys = keys(&cluster);
    let mut wrong = Vec::new();
    for case in CASES {
        for transport in [Transport::Udp, Transport::Tcp] {
            let message = (case.message)(&keys);
            let before = count(&cluster, case.counter);
            let wait = if case.response == "none" { SILENCE } else { Duration::from_secs(5) };
            let response = exchange(transport, cluster.dns(1), &message, wait);
            let said = response.map_or_else(|| "none".to_owned(), |response| describe(&message, &response));
            let moved = count(&cluster, case.counter) - before;
            if said != case.response || moved != 1 {
                wrong.push(format!(
                    "row {} over {transport:?}\n  wanted {}, and {:?} to move by 1\n  \
                     got    {said}, and it moved by {moved}",
                    case.row, case.response, case.counter
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), 2 * CASES.len(), wrong.join("\n"));
}

#[test]
fn row_20_a_zone_that_is_known_and_not_servable_is_servfail_with_ede_14() {
    let mut cluster = Cluster::start("row-20", 3, &[]);
    cluster.settle();
    assert_eq!(cluster.end("TERM"), Some(0));
    // One node of three finds no leader: it knows its zones, and does not know what it missed.
    let mut alone = std::process::Command::new(crate::support::cluster::CATAMARAN)
        .args(["serve", "--config", cluster.dir.join("node-1/catamaran.toml").to_str().unwrap()])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let query = |qname: &str| MessageBuilder::query(7, name(qname).as_ref(), Rtype::A).edns(1232, false).build();
    for transport in [Transport::Udp, Transport::Tcp] {
        let known = query("www.example.test.");
        let response = wait_for("an answer", || exchange(transport, cluster.dns(1), &known, SILENCE));
        assert_eq!(describe(&known, &response), "SERVFAIL, question, opt, ede 14", "{transport:?}");
        let unknown = query("www.example.org.");
        let response = wait_for("an answer", || exchange(transport, cluster.dns(1), &unknown, SILENCE));
        assert_eq!(describe(&unknown, &response), "REFUSED, question, opt, ede 20", "{transport:?}");
        // Certainly not done (RFC 2136 3.4.2): it does not know which zones there are, nor who may update them.
        let update = add_record("example.test.").edns(1232, false).build();
        let response = wait_for("an answer", || exchange(transport, cluster.dns(1), &update, SILENCE));
        assert_eq!(describe(&update, &response), "SERVFAIL, question, opt, ede 14", "{transport:?}");
    }
    assert!(count(&cluster, (ANSWERS, "servfail")) >= 2);
    // Later it serves what it has, marked stale: reads never stop.
    let known = query("www.example.test.");
    wait_for("a stale answer", || {
        let response = exchange(Transport::Udp, cluster.dns(1), &known, SILENCE)?;
        (describe(&known, &response) == "NOERROR, question, answer 1, opt").then_some(())
    });
    assert_eq!(cluster.status(1).unwrap()["serving"], "stale");
    crate::support::cluster::kill("TERM", alone.id());
    assert!(alone.wait().unwrap().success());
}
