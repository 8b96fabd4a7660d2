//! Valid inputs: messages of each kind, rdata of each layout, and connections, streams and requests with messages.

use data_encoding::BASE64URL_NOPAD;

/// The types whose rdata has its own layout, each with an example in wire format.
const RDATA: &[(u16, &[u8])] = &[
    // A, AAAA.
    (1, &[192, 0, 2, 1]),
    (28, &[0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    // NS, CNAME, SOA, PTR, MX: names that may be compressed.
    (2, b"\x02ns\x07example\0"),
    (5, b"\x01A\x07Example\0"),
    (6, b"\x02ns\0\x04root\0\0\0\0\x01\0\0\x0e\x10\0\0\x03\x84\0\x09\x3a\x80\0\0\x01\x2c"),
    (12, b"\xc0\x0c"),
    (15, b"\0\x0a\x04mail\xc0\x0e"),
    // HINFO, TXT, RP, AFSDB, RT, PX, NAPTR.
    (13, b"\x03PDP\x02XX"),
    (16, b"\x05hello\0\x05world"),
    (17, b"\x01a\0\x01b\0"),
    (18, b"\0\x01\x01a\0"),
    (21, b"\0\x01\x01a\0"),
    (26, b"\0\x01\x01a\0\x01b\0"),
    (35, b"\0\x01\0\x02\x01u\x07E2U+sip\x0b!^.*$!sip:!\0"),
    // LOC, SRV, KX, CERT, DNAME, APL.
    (29, &[0, 0x12, 0x16, 0x13, 0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0x98, 0x96, 0x80]),
    (33, b"\0\x01\0\x02\0\x35\x02ns\x07example\0"),
    (36, b"\0\x01\x01a\0"),
    (37, b"\0\x01\0\x02\x08key"),
    (39, b"\x07example\0"),
    (42, b"\0\x01\x18\x03\xc0\x00\x02"),
    // DS, SSHFP, RRSIG, NSEC, DNSKEY, NSEC3, NSEC3PARAM, TLSA.
    (43, b"\x12\x34\x0d\x02................................"),
    (44, b"\x01\x01...................."),
    (46, b"\0\x01\x0d\x02\0\0\x0e\x10\x60\0\0\0\x5f\0\0\0\x12\x34\x07Example\0signature"),
    (47, b"\x01b\x07Example\0\0\x06\x40\0\0\0\0\x03"),
    (48, b"\x01\x01\x03\x0dkey"),
    (50, b"\x01\0\0\x01\x01s\x14....................\0\x06\x40\0\0\0\0\x02"),
    (51, b"\x01\0\0\x01\x01s"),
    (52, b"\x03\x01\x01................................"),
    // CSYNC, ZONEMD, SVCB, HTTPS, URI, CAA.
    (62, b"\0\0\0\x01\0\x03\0\x02\x60\0\x04\x60\0\0\x08"),
    (63, b"\0\0\0\x01\x01\x01................................................"),
    (64, b"\0\x01\x03svc\0\0\x01\0\x03\x02h2\0\x03\0\x02\x01\xbb"),
    (65, b"\0\x01\0\0\x01\0\x03\x02h2\0\x04\0\x04\xc0\0\x02\x01"),
    (256, b"\0\x01\0\x02https://example/"),
    (257, b"\0\x05issueca.example"),
    // An unknown type.
    (65_280, b"anything"),
];

const HEADER_BYTES: usize = 12;
const QNAME: &[u8] = b"\x01a\x07example\0";

/// A message with these flags and sections.
fn message(flags: [u8; 2], sections: [&[&[u8]]; 4]) -> Vec<u8> {
    let mut bytes = vec![0, 0, flags[0], flags[1]];
    sections.iter().for_each(|section| bytes.extend((section.len() as u16).to_be_bytes()));
    assert_eq!(bytes.len(), HEADER_BYTES);
    sections.iter().for_each(|section| bytes.extend(section.concat()));
    bytes
}

fn question(qtype: u16) -> Vec<u8> {
    [QNAME, &qtype.to_be_bytes(), &[0, 1]].concat()
}

/// A record whose owner is the name of the question.
fn record(rtype: u16, class: u16, ttl: u32, rdata: &[u8]) -> Vec<u8> {
    let len = (rdata.len() as u16).to_be_bytes();
    [&[0xC0, HEADER_BYTES as u8][..], &rtype.to_be_bytes(), &class.to_be_bytes(), &ttl.to_be_bytes(), &len, rdata]
        .concat()
}

/// OPT (RFC 6891) with a cookie, a client subnet, padding and a TCP keepalive.
fn opt() -> Vec<u8> {
    let options = b"\0\x0a\0\x08cookie!!\0\x08\0\x07\0\x01\x18\0\xc0\0\x02\0\x0c\0\x02\0\0\0\x0b\0\0";
    [&[0, 0, 41, 4, 208, 0, 0, 0x80, 0][..], &(options.len() as u16).to_be_bytes(), options].concat()
}

/// TSIG (RFC 8945) with an invalid MAC.
fn tsig() -> Vec<u8> {
    let rdata = b"\x0bhmac-sha256\0\0\0\x60\0\0\0\x01\x2c\0\x20................................\0\0\0\0\0\0";
    [&b"\x03key\0\0\xfa\0\xff\0\0\0\0"[..], &(rdata.len() as u16).to_be_bytes(), rdata].concat()
}

/// Queries, an update, a notification, a request for a transfer, and a response with a record of each type.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let (a, opt, tsig) = (question(1), opt(), tsig());
    let all: Vec<Vec<u8>> = RDATA.iter().map(|(rtype, rdata)| record(*rtype, 1, 300, rdata)).collect();
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let soa = record(6, 1, 300, RDATA[4].1);
    vec![
        message([1, 0], [&[&a], &[], &[], &[]]),
        message([1, 0x10], [&[&a], &[], &[], &[&opt]]),
        message([1, 0], [&[&question(255)], &[], &[], &[&opt, &tsig]]),
        // UPDATE (RFC 2136): a zone, a name that must not exist, an RRset to delete and a record to add.
        message(
            [0x28, 0],
            [
                &[&question(6)],
                &[&record(255, 254, 0, &[])],
                &[&record(1, 255, 0, &[]), &record(1, 1, 60, &[192, 0, 2, 1])],
                &[&tsig],
            ],
        ),
        message([0x24, 0], [&[&question(6)], &[&soa], &[], &[]]),
        message([0, 0], [&[&question(251)], &[], &[&soa], &[]]),
        message([0x84, 0], [&[&a], &all, &[&soa], &[&opt]]),
    ]
}

/// Rdata, each after its type.
pub(crate) fn rdata() -> Vec<Vec<u8>> {
    RDATA.iter().map(|(rtype, rdata)| [&rtype.to_be_bytes()[..], rdata].concat()).collect()
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// The bytes of TCP connections: all messages, and the longest message. The first byte is the size of the chunks.
pub(crate) fn connections() -> Vec<Vec<u8>> {
    let all: Vec<u8> = messages().iter().flat_map(|message| framed(message)).collect();
    let longest = framed(&[0; 65_535]);
    vec![[&[1][..], &all].concat(), [&[255][..], &all].concat(), [&[7, 0, 0][..], &all].concat(), {
        [&[200][..], &longest, &all].concat()
    }]
}

/// The bytes of QUIC streams: one message on each, and one that is too long. The first byte is the size of the chunks.
pub(crate) fn streams() -> Vec<Vec<u8>> {
    let mut streams: Vec<Vec<u8>> = messages().iter().map(|message| [&[30][..], &framed(message)].concat()).collect();
    streams.push([&[255][..], &framed(&[0; 65_535]), b"more"].concat());
    streams
}

/// HTTP requests: method, target, media type and length, one per line.
pub(crate) fn requests() -> Vec<Vec<u8>> {
    let encoded = BASE64URL_NOPAD.encode(&messages()[0]);
    [
        format!("GET\n/dns-query?dns={encoded}\n\n"),
        format!("GET\nhttps://ns.example/dns-query?a=b&dns={encoded}\n\n0"),
        "POST\n/dns-query\napplication/dns-message\n33".to_owned(),
        "POST\n/dns-query\nApplication/DNS-Message; charset=x\n65536".to_owned(),
        "PUT\n/dns-query\ntext/plain\n1".to_owned(),
        format!("HEAD\n/dns-query?dns={encoded}=\n\n"),
    ]
    .map(String::into_bytes)
    .to_vec()
}
