//! The maximum size of a datagram, whatever size the client offers. Over TCP, answers are complete.

use crate::support::cluster::Cluster;
use crate::support::dns::{Transport, exchange};
use crate::support::message::{name, sign};
use std::time::Duration;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{Message, Section};

/// The default limit. A datagram of this size fits every IPv6 path without fragmentation.
const DATAGRAM_MAX: usize = 1_232;
/// Every client accepts this size (RFC 1035 4.2.1).
const DATAGRAM_MIN: usize = 512;
/// The sizes that clients offer (RFC 6891 6.2.3). A size below 512 counts as 512.
const OFFERED: [u16; 7] = [0, 512, 1_231, 1_232, 1_233, 4_096, 65_535];
/// Sizes of complete answers in bytes: around the limits, and far beyond them.
const WHOLE: [usize; 8] = [400, 512, 1_231, 1_232, 1_233, 1_500, 4_097, 40_000];
/// Bytes of an OPT record without options.
const OPT: usize = 11;
const WAIT: Duration = Duration::from_secs(10);

fn owner(whole: usize) -> String {
    format!("t{whole:05}.example.test.")
}

/// The rdata of one TXT record with this size in bytes.
fn text(bytes: usize) -> Vec<u8> {
    let mut rdata = vec![b'x'; bytes];
    for start in (0..bytes).step_by(256) {
        rdata[start] = (bytes - start - 1).min(255) as u8;
    }
    rdata
}

/// Adds a name for each of these answer sizes (with an OPT record), and a delegation with more glue than fits.
fn add_names(cluster: &Cluster) {
    let key = cluster.client_key();
    let add = |update: MessageBuilder| {
        let message = sign(&key, update.build(), 0);
        let response = exchange(Transport::Tcp, cluster.dns(1), &message, WAIT).unwrap();
        assert_eq!(response[3] & 0x0F, 0);
    };
    let update = || MessageBuilder::update(0, name("example.test.").as_ref());
    for whole in WHOLE {
        let owner = name(&owner(whole));
        // A header, the question, the record with its owner compressed, and OPT.
        let rdata = text(whole - 12 - (owner.as_bytes().len() + 4) - 12 - OPT);
        add(update().add(owner.as_ref(), Rtype::TXT, 60, &rdata));
    }
    let (cut, server) = (name("cut.example.test."), name("ns.cut.example.test."));
    let glue = (0..90).fold(update(), |update, last| update.add(server.as_ref(), Rtype::A, 60, &[10, 0, 0, last]));
    add(glue.add(cut.as_ref(), Rtype::NS, 60, server.as_bytes()));
}

/// The size of a response, its TC bit, and its number of records in the three sections, without OPT and TSIG.
fn measured(response: &[u8]) -> (usize, bool, usize) {
    let message = Message::parse(response).unwrap();
    assert_eq!(message.rcode().mnemonic(), Some("NOERROR"));
    let counted = |section| message.records(section).map(Result::unwrap);
    let records = [Section::Answer, Section::Authority, Section::Additional].into_iter().flat_map(counted);
    let count = records.filter(|record| ![Rtype::OPT, Rtype::TSIG].contains(&record.rtype)).count();
    (response.len(), message.header().tc, count)
}

/// Queries all names with every size that a client may offer. Returns the size of the longest datagram.
fn longest(cluster: &Cluster, bound: usize) -> usize {
    let over = |transport, message: &[u8]| measured(&exchange(transport, cluster.dns(1), message, WAIT).unwrap());
    let mut longest = 0;
    for (whole, offered) in WHOLE.into_iter().flat_map(|whole| OFFERED.map(|offered| (whole, offered))) {
        for has_do in [false, true] {
            let query =
                MessageBuilder::query(7, name(&owner(whole)).as_ref(), Rtype::TXT).edns(offered, has_do).build();
            assert_eq!(over(Transport::Tcp, &query), (whole, false, 1), "over TCP, which has no such limit");
            let limit = usize::from(offered).clamp(DATAGRAM_MIN, bound);
            let (bytes, tc, count) = over(Transport::Udp, &query);
            let case = format!("{bytes} bytes of {whole} where {offered} are offered, DO {has_do}");
            // RFC 2181 9: TC is set exactly when something is missing.
            assert_eq!((tc, count), (whole > limit, usize::from(whole <= limit)), "{case}");
            assert!(bytes <= limit && (tc || bytes == whole), "{case}");
            longest = longest.max(bytes);
        }
    }
    longest
}

#[test]
fn datagrams_never_exceed_1232_bytes() {
    let mut cluster = Cluster::start("datagrams", 1, &[]);
    add_names(&cluster);
    assert_eq!(longest(&cluster, DATAGRAM_MAX), DATAGRAM_MAX);
    // Without EDNS, the old limit of 512 bytes applies.
    for whole in WHOLE {
        let query = MessageBuilder::query(7, name(&owner(whole)).as_ref(), Rtype::TXT).build();
        let (bytes, tc, _) = measured(&exchange(Transport::Udp, cluster.dns(1), &query, WAIT).unwrap());
        let whole = whole - OPT;
        assert_eq!((bytes <= DATAGRAM_MIN, tc), (true, whole > DATAGRAM_MIN), "{bytes} of {whole} bytes");
    }
    // An operator may allow longer datagrams. Then that setting applies.
    cluster.end("TERM");
    cluster.configure(1, "udp_payload = 1232", "udp_payload = 4096");
    cluster.resume(&[]);
    assert_eq!(longest(&cluster, 4_096), 1_500, "the longest datagram");
}

#[test]
fn additional_records_count_toward_the_datagram_size() {
    let cluster = Cluster::start("datagrams-more", 1, &[]);
    add_names(&cluster);
    let over = |transport, message: &[u8]| measured(&exchange(transport, cluster.dns(1), message, WAIT).unwrap());
    let ask = |owner: &str, rtype| MessageBuilder::query(0, name(owner).as_ref(), rtype).edns(4_096, false);
    // RFC 9471 3.1: when glue does not fit, TC is set.
    let referral = ask("www.cut.example.test.", Rtype::A).build();
    let (_, tc, count) = over(Transport::Tcp, &referral);
    assert_eq!((tc, count), (false, 91), "over TCP");
    let (bytes, tc, count) = over(Transport::Udp, &referral);
    assert!(bytes <= DATAGRAM_MAX && tc && count < 91, "{bytes} bytes with {count} records, TC {tc}");
    // A cookie (RFC 7873) of 28 bytes with its option header, and a signature (RFC 8945), each where only the answer
    // fits.
    let fits = ask(&owner(DATAGRAM_MAX), Rtype::TXT);
    assert_eq!(over(Transport::Udp, &fits.clone().build()), (DATAGRAM_MAX, false, 1));
    let with_cookie = fits.clone().option(10, &[7; 8]).build();
    let signed = sign(&cluster.client_key(), fits.build(), 0);
    for (what, message, more) in [("a cookie", with_cookie, 28), ("a signature", signed, 60)] {
        let (bytes, tc, count) = over(Transport::Udp, &message);
        assert!(bytes <= DATAGRAM_MAX && tc && count == 0, "{bytes} bytes with {what}, TC {tc}, {count} records");
        let (bytes, tc, count) = over(Transport::Tcp, &message);
        assert!(bytes >= DATAGRAM_MAX + more && !tc && count == 1, "{bytes} bytes with {what} over TCP");
    }
}
