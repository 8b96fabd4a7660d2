//! Rows 1 to 9 of the order of answers, one golden case a row and more.

use catamaran_wire::{Opcode, Parsed, RejectReason, Request, Section, parse_request};
use std::collections::BTreeSet;

#[test]
fn rows_1_to_9() {
    crate::support::check_golden("requests.txt", |_, bytes| describe(bytes));
}

#[test]
fn every_reason_has_a_case() {
    let golden = include_str!("../golden/requests.txt");
    let words: BTreeSet<&str> = golden.split_whitespace().collect();
    for reason in RejectReason::ALL {
        assert!(words.contains(reason.label()), "{reason:?}");
    }
    let labels: BTreeSet<&str> = RejectReason::ALL.iter().map(|reason| reason.label()).collect();
    assert_eq!(labels.len(), RejectReason::ALL.len());
    assert!(RejectReason::ALL.iter().enumerate().all(|(at, &reason)| reason as usize == at));
}

fn describe(bytes: &[u8]) -> String {
    match parse_request(bytes) {
        Parsed::Drop(reason) => format!("drop {}", reason.label()),
        Parsed::Reject(reject) => {
            let echo = if reject.question.is_some() { "question" } else { "header only" };
            let opt = if reject.edns.is_some() { " opt" } else { "" };
            let tsig = if reject.tsig.is_some() { " tsig" } else { "" };
            format!("reject {} {} {echo}{opt}{tsig}", reject.rcode.mnemonic().unwrap(), reject.reason.label())
        }
        Parsed::Request(request) => describe_request(&request),
    }
}

fn describe_request(request: &Request<'_>) -> String {
    let mut text = format!("request {:?}", request.header.opcode);
    match &request.question {
        Some(question) => {
            text += &format!(" {} {:?} {:?}", question.qname, question.qtype, question.qclass);
            // What is echoed is what was sent.
            assert_eq!(&request.bytes[12..question.end()], question.bytes);
        }
        None => text += " without question",
    }
    if request.header.rd {
        text += " rd";
    }
    if let Some(edns) = request.edns {
        text += &format!(" edns {}", edns.payload_bytes());
        for (is_set, word) in [
            (edns.dnssec_ok, "do"),
            (edns.nsid(), "nsid"),
            (edns.zoneversion(), "zoneversion"),
            (edns.keepalive(), "keepalive"),
            (edns.padding(), "padding"),
        ] {
            if is_set {
                text += " ";
                text += word;
            }
        }
        if let Some(cookie) = edns.cookie() {
            text += &format!(" cookie 8+{}", cookie.server.len());
        }
    }
    if let Some(tsig) = request.tsig_view() {
        assert_eq!((tsig.time_signed, tsig.fudge, tsig.original_id), (1_700_000_000, 300, 0x1234));
        text += &format!(" tsig {} {} {}", tsig.key_name, tsig.algorithm, tsig.mac.len());
    }
    if request.header.opcode == Opcode::UPDATE || request.record_count(Section::Answer) > 0 {
        for section in Section::ALL {
            for record in request.records(section) {
                let record = record.unwrap();
                text += &format!(" {section:?}[{} {:?} {:?}]", record.owner, record.rtype, record.class);
            }
        }
    }
    text
}
