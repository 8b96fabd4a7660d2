//! Messages made by hand, and responses in words.

use std::time::{SystemTime, UNIX_EPOCH};
use tsig::client::ClientKey;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::{Header, Message, Section};

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Size in bytes of the rdata of a TSIG record with HMAC-SHA256 and a full MAC: algorithm name, time, fudge, MAC,
/// original ID, error, length of other data.
const TSIG_RDATA: usize = 13 + 6 + 2 + 2 + 32 + 2 + 2 + 2;
/// Bytes after its MAC.
const BEHIND_MAC: usize = 6;

/// Signs with Time Signed `late_s` seconds ago.
pub(crate) fn sign(key: &ClientKey, message: Vec<u8>, late_s: u64) -> Vec<u8> {
    key.sign(message, now_s() - late_s).unwrap()
}

/// Truncates the MAC of a message signed with HMAC-SHA256 to its first `keep` bytes (RFC 8945 5.2.2.1).
pub(crate) fn truncate_mac(message: Vec<u8>, keep: usize) -> Vec<u8> {
    truncate_mac_of(message, 32, keep)
}

/// Truncates a MAC of `len` bytes.
pub(crate) fn truncate_mac_of(mut message: Vec<u8>, len: usize, keep: usize) -> Vec<u8> {
    let rdata = message.len() - (TSIG_RDATA - 32 + len);
    let mac = message.len() - BEHIND_MAC - len;
    message.drain(mac + keep..mac + len);
    message[mac - 2..mac].copy_from_slice(&(keep as u16).to_be_bytes());
    let rdlength = TSIG_RDATA - 32 + keep;
    message[rdata - 2..rdata].copy_from_slice(&(rdlength as u16).to_be_bytes());
    message
}

/// Changes the bytes of a signed message at this distance before its TSIG rdata.
pub(crate) fn patch_before_tsig_rdata(mut message: Vec<u8>, back: usize, bytes: &[u8]) -> Vec<u8> {
    let at = message.len() - TSIG_RDATA - back;
    message[at..at + bytes.len()].copy_from_slice(bytes);
    message
}

/// Appends a record and counts it.
pub(crate) fn append(mut message: Vec<u8>, record: &[u8]) -> Vec<u8> {
    let count = u16::from_be_bytes([message[10], message[11]]) + 1;
    message[10..12].copy_from_slice(&count.to_be_bytes());
    message.extend(record);
    message
}

/// The response in words: RCODE, contents, the TSIG error, and whether there is a MAC. Also checks the header's flags,
/// which are the same for every response.
pub(crate) fn describe(request: &[u8], response: &[u8]) -> String {
    let message = Message::parse(response).unwrap_or_else(|error| panic!("the response is no message: {error:?}"));
    let (sent, got) = (Header::parse(request).unwrap(), *message.header());
    assert_eq!((got.id, got.opcode, got.rd), (sent.id, sent.opcode, sent.rd), "ID, opcode and RD are copied");
    assert!(got.qr && !got.ra && !got.ad && !got.cd && !got.z, "QR is set, RA, AD, CD and Z are clear: {got:?}");
    let mut words = vec![rcode_text(message.rcode())];
    if let Some(question) = message.question() {
        let bytes = &response[question.bytes_at.clone()];
        assert_eq!(bytes, &request[12..12 + bytes.len()], "the question is as sent");
        words.push("question".into());
    }
    if got.counts[1] > 0 {
        words.push(format!("answer {}", got.counts[1]));
    }
    if let Some(edns) = message.edns() {
        words.push("opt".into());
        for (code, data) in edns.options() {
            if code == 9 {
                words.push(format!("expire {}", u32::from_be_bytes(data.try_into().unwrap())));
            }
            if code == 10 {
                words.push(format!("cookie {}", data.len()));
            }
            if code == 19 {
                words.push("zoneversion".into());
            }
            if code == 15 {
                words.push(format!("ede {}", u16::from_be_bytes([data[0], data[1]])));
            }
        }
    }
    let records = message.records(Section::Additional).map(Result::unwrap);
    if let Some(tsig) = records.filter(|record| record.rtype == Rtype::TSIG).last() {
        let rdata = tsig.rdata();
        let algorithm = rdata.iter().position(|&byte| byte == 0).unwrap() + 1;
        let number = |at: usize| u16::from_be_bytes([rdata[algorithm + at], rdata[algorithm + at + 1]]);
        let mac = usize::from(number(8));
        words.push(format!("tsig {}", tsig_error_text(number(12 + mac))));
        words.push(if mac == 32 { "mac".into() } else { format!("mac of {mac}") });
        if number(14 + mac) == 6 {
            words.push("server time".into());
        }
    }
    words.join(", ")
}

fn rcode_text(rcode: Rcode) -> String {
    rcode.mnemonic().map_or_else(|| rcode.0.to_string(), str::to_owned)
}

fn tsig_error_text(error: u16) -> String {
    match error {
        0 => "noerror".into(),
        16 => "badsig".into(),
        17 => "badkey".into(),
        18 => "badtime".into(),
        22 => "badtrunc".into(),
        other => other.to_string(),
    }
}
