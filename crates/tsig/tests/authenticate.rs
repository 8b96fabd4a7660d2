//! The TSIG checks of the server: against `domain`, against vectors, and in the order of RFC 8945 5.2.
#![expect(clippy::unwrap_used, reason = "a test that meets a surprise shall stop")]

use catamaran_tsig::client::{ClientKey, UpdateBuilder};
use catamaran_tsig::{
    Authenticated, KeyAlgorithm, KeyTable, NoRoom, SequenceSigner, Signer, TsigKey, TsigReject, Verified, authenticate,
};
use domain::base::iana::{Opcode, Rcode as DomainRcode, Rtype as DomainRtype};
use domain::base::message_builder::AdditionalBuilder;
use domain::base::name::Name as DomainName;
use domain::base::{Message as DomainMessage, MessageBuilder};
use domain::rdata::tsig::Time48;
use domain::tsig::{Algorithm, ClientSequence, ClientTransaction, Key, ValidationError};
use std::str::FromStr;
use std::sync::Arc;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::tsig::TsigView;
use wire::parse::{Message, Parsed, RejectReason, Section, parse_request};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_700_000_000;

fn table(algorithm: KeyAlgorithm) -> KeyTable {
    let mut keys = KeyTable::new();
    keys.insert(TsigKey::new(name("key.test").as_ref(), algorithm, &[SECRET]).unwrap()).unwrap();
    keys
}

/// `Err`: the parser refused the message before any key was looked up.
fn check(bytes: &[u8], keys: &KeyTable, now_s: u64) -> Result<Authenticated, Option<RejectReason>> {
    match parse_request(bytes) {
        Parsed::Request(request) => Ok(authenticate(&request, keys, now_s)),
        Parsed::Reject(reject) => Err(Some(reject.reason)),
        Parsed::Drop(_) => Err(None),
    }
}

fn verified(bytes: &[u8], keys: &KeyTable, now_s: u64) -> (Verified, Signer) {
    match check(bytes, keys, now_s) {
        Ok(Authenticated::Verified { verified, signer }) => (verified, signer),
        other => panic!("{other:?}"),
    }
}

fn rejected(bytes: &[u8], keys: &KeyTable, now_s: u64) -> (TsigReject, Signer) {
    match check(bytes, keys, now_s) {
        Ok(Authenticated::Rejected { rcode: Rcode::NOTAUTH, reason, signer: Some(signer) }) => (reason, signer),
        other => panic!("{other:?}"),
    }
}

fn update() -> Vec<u8> {
    UpdateBuilder::new(0x1234, name("example.test").as_ref())
        .delete_rrset(name("www.example.test").as_ref(), Rtype::A)
        .finish()
}

fn signed(algorithm: KeyAlgorithm, time_signed: u64) -> Vec<u8> {
    ClientKey::new(name("key.test").as_ref(), algorithm, SECRET).unwrap().sign(update(), time_signed).unwrap()
}

/// The response to `update()`: a header with this RCODE and the zone section.
fn response(rcode: Rcode) -> Vec<u8> {
    let mut bytes = update()[..12 + name("example.test").as_bytes().len() + 4].to_vec();
    bytes[2] |= 0x80;
    bytes[3] |= rcode.0 as u8;
    bytes[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    bytes
}

fn sign(signer: &Signer, rcode: Rcode, now_s: u64) -> Vec<u8> {
    let mut buffer = response(rcode);
    let len = buffer.len();
    buffer.resize(len + signer.reserve_bytes(), 0);
    let len = signer.sign(&mut buffer, len, now_s).unwrap();
    buffer.truncate(len);
    buffer
}

/// The TSIG record at the end of a response: MAC, error, time, fudge, other data.
fn tsig_of(bytes: &[u8]) -> (Vec<u8>, u16, u64, u16, Vec<u8>) {
    let message = Message::parse(bytes).unwrap();
    let record = message.records(Section::Additional).last().unwrap().unwrap();
    assert_eq!(record.rtype, Rtype::TSIG);
    let at = wire::parse::tsig::TsigAt { at: record.at, rdata_at: record.rdata_at };
    let view = TsigView::read(bytes, &at).unwrap();
    assert_eq!(view.original_id.to_be_bytes(), bytes[..2]);
    (view.mac.to_vec(), view.error, view.time_signed, view.fudge, view.other.to_vec())
}

// Vectors

#[test]
fn vectors_of_another_implementation_are_verified_and_made() {
    let text = include_str!("../testdata/vectors.txt");
    let mut lines = text.lines().filter(|line| line.starts_with(' '));
    let mut bytes = |expected: &str| {
        let line = lines.next().unwrap();
        let (what, hex) = line.trim().split_once(' ').unwrap();
        assert_eq!(what, expected);
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect::<Vec<_>>()
    };
    for (algorithm, heading) in KeyAlgorithm::STRONG.into_iter().zip(["hmac-sha256", "hmac-sha384", "hmac-sha512"]) {
        assert_eq!(algorithm.name_bytes()[1..12], *heading.as_bytes());
        let request = bytes("request");
        assert_eq!(signed(algorithm, NOW), request);
        let keys = table(algorithm);
        let (accepted, signer) = verified(&request, &keys, NOW + 10);
        assert_eq!((accepted.key_name, accepted.time_signed, accepted.fudge), (name("key.test"), NOW, 300));

        let first = bytes("response");
        assert_eq!(sign(&signer, Rcode::NOERROR, NOW + 10), first);
        let (reason, late) = rejected(&request, &keys, NOW + 1000);
        assert_eq!(reason, TsigReject::BadTime);
        assert_eq!(sign(&late, Rcode::NOTAUTH, NOW + 1000), bytes("bad_time"));
        // A replay that is detected later gets the same response.
        let mut repeat = signer.clone();
        repeat.set_bad_time();
        assert_ne!(sign(&repeat, Rcode::NOTAUTH, NOW + 10), first);
        assert_eq!(sign(&repeat, Rcode::NOTAUTH, NOW + 1000), sign(&late, Rcode::NOTAUTH, NOW + 1000));

        let mut sequence = SequenceSigner::from(signer);
        for expected in [first, bytes("second")] {
            let mut buffer = response(Rcode::NOERROR);
            let len = buffer.len();
            buffer.resize(len + sequence.reserve_bytes(), 0);
            let len = sequence.sign(&mut buffer, len, NOW + 10).unwrap();
            assert_eq!(buffer[..len], expected);
        }
    }
}

#[test]
fn a_captured_request_with_hmac_md5_is_answered_with_badkey() {
    let folder = std::env::var("CATAMARAN_DATA")
        .unwrap_or_else(|_| format!("{}/../../../shared/data", env!("CARGO_MANIFEST_DIR")));
    let Ok(capture) = std::fs::read(format!("{folder}/captures/zeek-tsig.pcap")) else {
        return skip::data(format!("{folder}/captures/zeek-tsig.pcap"));
    };
    // File header, packet header, Ethernet, IPv4, UDP; the first packet has 151 bytes.
    let request = &capture[24 + 16 + 14 + 20 + 8..24 + 16 + 151];
    let mut keys = table(KeyAlgorithm::HmacSha256);
    for round in 0..2 {
        let (reason, signer) = rejected(request, &keys, 1_409_683_154);
        assert_eq!(reason, TsigReject::BadKey, "round {round}");
        assert!(!signer.is_signing());
        let (mac, error, ..) = tsig_of(&sign(&signer, Rcode::NOTAUTH, NOW)[..]).clone();
        assert_eq!((mac.len(), error), (0, 17));
        // Second round: a key of this name, but with another algorithm.
        let key = TsigKey::new(name("secret-key").as_ref(), KeyAlgorithm::HmacSha512, &[SECRET]).unwrap();
        keys.insert(key).unwrap();
    }
}

// `domain` as the client

fn domain_key(algorithm: Algorithm) -> Arc<Key> {
    let name = DomainName::from_str("key.test").unwrap();
    Arc::new(Key::new(algorithm, SECRET, name, None, None).unwrap())
}

fn domain_request(opcode: Opcode, qtype: DomainRtype) -> AdditionalBuilder<Vec<u8>> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(0x1234);
    builder.header_mut().set_opcode(opcode);
    let mut builder = builder.question();
    builder.push((DomainName::<Vec<u8>>::from_str("example.test").unwrap(), qtype)).unwrap();
    builder.additional()
}

const ALGORITHMS: [(KeyAlgorithm, Algorithm); 3] = [
    (KeyAlgorithm::HmacSha256, Algorithm::Sha256),
    (KeyAlgorithm::HmacSha384, Algorithm::Sha384),
    (KeyAlgorithm::HmacSha512, Algorithm::Sha512),
];

#[test]
fn requests_of_domain_are_verified_and_responses_accepted_by_it() {
    for (ours, theirs) in ALGORITHMS {
        for (opcode, qtype) in [(Opcode::UPDATE, DomainRtype::SOA), (Opcode::QUERY, DomainRtype::A)] {
            let key = domain_key(theirs);
            let mut message = domain_request(opcode, qtype);
            let now = Time48::from_u64(NOW);
            let transaction = ClientTransaction::request(key, &mut message, now).unwrap();
            let (_, signer) = verified(&message.finish(), &table(ours), NOW + 299);
            for rcode in [Rcode::NOERROR, Rcode::REFUSED, Rcode::SERVFAIL] {
                let response = sign(&signer, rcode, NOW + 2);
                let mut message = DomainMessage::from_octets(response.clone()).unwrap();
                transaction.answer(&mut message, Time48::from_u64(NOW + 2)).unwrap();
                assert_eq!(message.header().rcode(), DomainRcode::masked_from_int(rcode.0 as u8));
                // With any byte changed it is refused.
                for at in 0..response.len() {
                    let mut bytes = response.clone();
                    bytes[at] ^= 0x01;
                    let Ok(mut message) = DomainMessage::from_octets(bytes) else { continue };
                    let outcome = transaction.answer(&mut message, Time48::from_u64(NOW + 2));
                    // The MAC covers the original ID in the record, not the ID in the header. `domain` does not check
                    // class and TTL of the record; the MAC covers their required values.
                    let class_at = response.len() - (signer.reserve_bytes() - 6) + 10 + 2;
                    assert_eq!(outcome.is_ok(), at < 2 || (class_at..class_at + 6).contains(&at), "byte {at}");
                }
            }
        }
    }
}

#[test]
fn errors_without_mac_are_understood_by_domain() {
    let key = domain_key(Algorithm::Sha256);
    let mut message = domain_request(Opcode::UPDATE, DomainRtype::SOA);
    let transaction = ClientTransaction::request(key, &mut message, Time48::from_u64(NOW)).unwrap();
    let bytes = message.finish();
    let mut wrong = KeyTable::new();
    let secret: &[u8] = b"another secret";
    wrong.insert(TsigKey::new(name("key.test").as_ref(), KeyAlgorithm::HmacSha256, &[secret]).unwrap()).unwrap();
    for (keys, expected) in [(KeyTable::new(), TsigReject::BadKey), (wrong, TsigReject::BadSig)] {
        let (reason, signer) = rejected(&bytes, &keys, NOW);
        assert_eq!(reason, expected);
        let mut message = DomainMessage::from_octets(sign(&signer, Rcode::NOTAUTH, NOW)).unwrap();
        let error = transaction.answer(&mut message, Time48::from_u64(NOW)).unwrap_err();
        assert!(matches!(
            (expected, error),
            (TsigReject::BadKey, ValidationError::ServerBadKey) | (TsigReject::BadSig, ValidationError::ServerBadSig)
        ));
    }
}

#[test]
fn a_transfer_of_many_messages_is_accepted_by_domain() {
    for (ours, theirs) in ALGORITHMS {
        let mut message = domain_request(Opcode::QUERY, DomainRtype::AXFR);
        let mut client = ClientSequence::request(domain_key(theirs), &mut message, Time48::from_u64(NOW)).unwrap();
        let (_, signer) = verified(&message.finish(), &table(ours), NOW);
        let mut sequence = SequenceSigner::from(signer);
        for turn in 0..250 {
            let mut buffer = vec![0; 65_535];
            let bytes = response(Rcode::NOERROR);
            buffer[..bytes.len()].copy_from_slice(&bytes);
            // A message that does not fit can be signed again in a larger buffer.
            let short = bytes.len() + sequence.reserve_bytes() - 7;
            assert_eq!(sequence.sign(&mut buffer[..short], bytes.len(), NOW + turn), Err(NoRoom));
            assert_eq!(buffer[..bytes.len()], bytes);
            let len = sequence.sign(&mut buffer, bytes.len(), NOW + turn).unwrap();
            let mut message = DomainMessage::from_octets(buffer[..len].to_vec()).unwrap();
            client.answer(&mut message, Time48::from_u64(NOW + turn)).unwrap();
        }
        client.done().unwrap();
    }
}

// Order of checks

#[test]
fn a_malformed_record_is_formerr_without_tsig() {
    let keys = table(KeyAlgorithm::HmacSha256);
    let message = signed(KeyAlgorithm::HmacSha256, NOW);
    let tsig_at = update().len();
    let ttl_at = tsig_at + name("key.test").as_bytes().len() + 4;
    for at in ttl_at..ttl_at + 4 {
        let mut bytes = message.clone();
        bytes[at] = 1;
        assert!(matches!(
            check(&bytes, &keys, NOW),
            Ok(Authenticated::Rejected { rcode: Rcode::FORMERR, reason: TsigReject::Malformed, signer: None })
        ));
    }
    let mut bytes = message.clone();
    bytes[ttl_at - 1] = 1;
    assert_eq!(check(&bytes, &keys, NOW).err(), Some(Some(RejectReason::TsigClass)));
    let mut twice = message.clone();
    twice.extend(&message[tsig_at..]);
    twice[11] = 2;
    assert_eq!(check(&twice, &keys, NOW).err(), Some(Some(RejectReason::TsigTwice)));
    assert!(matches!(check(&update(), &keys, NOW), Ok(Authenticated::Unsigned)));
}

#[test]
fn the_key_comes_before_the_length_of_the_mac() {
    let keys = table(KeyAlgorithm::HmacSha256);
    let message = signed(KeyAlgorithm::HmacSha256, NOW);
    for length in [0, 5, 9, 10, 15, 33, 64, 65] {
        let bytes = cut_mac(&message, length);
        // RFC 8945 5.2.1: BADKEY for an unknown key or a key of another algorithm. 5.2.2.1: otherwise FORMERR.
        assert_eq!(rejected(&bytes, &KeyTable::new(), NOW).0, TsigReject::BadKey, "{length}");
        assert_eq!(rejected(&bytes, &table(KeyAlgorithm::HmacSha512), NOW).0, TsigReject::BadKey, "{length}");
        assert!(
            matches!(
                check(&bytes, &keys, NOW),
                Ok(Authenticated::Rejected { rcode: Rcode::FORMERR, reason: TsigReject::MacLength, signer: None })
            ),
            "{length}"
        );
    }
}

#[test]
fn key_then_mac_then_time_then_truncation() {
    let keys = table(KeyAlgorithm::HmacSha256);
    let message = signed(KeyAlgorithm::HmacSha256, NOW);
    let mac_at = update().len() + name("key.test").as_bytes().len() + 10 + 13 + 10;
    let mut wrong_mac = message.clone();
    wrong_mac[mac_at] ^= 1;
    let short = cut_mac(&message, 16);
    let mut wrong_short = short.clone();
    wrong_short[mac_at] ^= 1;
    // The first failing check decides, even if later checks would fail too.
    for (bytes, late, expected, signs) in [
        (&message, 0, TsigReject::BadKey, false),
        (&wrong_mac, 9999, TsigReject::BadSig, false),
        (&wrong_short, 9999, TsigReject::BadSig, false),
        (&wrong_short, 0, TsigReject::BadSig, false),
        (&message, 301, TsigReject::BadTime, true),
        (&short, 301, TsigReject::BadTime, true),
        (&short, 300, TsigReject::BadTrunc, true),
    ] {
        let none = KeyTable::new();
        let keys = if expected == TsigReject::BadKey { &none } else { &keys };
        let (reason, signer) = rejected(bytes, keys, NOW + late);
        assert_eq!((reason, signer.is_signing()), (expected, signs));
        assert_eq!(Some(signer.error()), expected.tsig_error());
        let (mac, error, time_signed, fudge, other) = tsig_of(&sign(&signer, Rcode::NOTAUTH, NOW + late));
        assert_eq!((mac.len(), error), (if signs { 32 } else { 0 }, expected.tsig_error().unwrap().0));
        // RFC 8945 5.2.3: only BADTIME has the client's time and fudge, and the server's time in Other Data.
        let bad_time = expected == TsigReject::BadTime;
        assert_eq!((time_signed, fudge), if bad_time { (NOW, 300) } else { (NOW + late, 300) });
        assert_eq!(other, if bad_time { (NOW + late).to_be_bytes()[2..].to_vec() } else { vec![] });
    }
}

#[test]
fn fudge_is_the_clients_but_at_most_300() {
    let key = ClientKey::new(name("key.test").as_ref(), KeyAlgorithm::HmacSha256, SECRET).unwrap();
    let keys = table(KeyAlgorithm::HmacSha256);
    for (fudge, window) in [(0, 0), (1, 1), (299, 299), (300, 300), (301, 300), (u16::MAX, 300)] {
        let bytes = key.sign_with_fudge(update(), NOW, fudge).unwrap();
        for now_s in [NOW - window, NOW, NOW + window] {
            assert_eq!(u64::from(verified(&bytes, &keys, now_s).0.fudge), window);
        }
        for now_s in [NOW - window - 1, NOW + window + 1, 0, u64::MAX] {
            let (reason, signer) = rejected(&bytes, &keys, now_s);
            assert_eq!(reason, TsigReject::BadTime);
            // RFC 8945 5.2.3: "the Fudge field MUST be set to the fudge value received from the client".
            assert_eq!(tsig_of(&sign(&signer, Rcode::NOTAUTH, now_s)).3, fudge);
        }
    }
}

#[test]
fn truncated_macs_are_accepted_as_far_as_the_key_says() {
    for algorithm in KeyAlgorithm::STRONG {
        let message = signed(algorithm, NOW);
        let (whole, _) = verified(&message, &table(algorithm), NOW);
        let least = algorithm.mac_bytes() - 4;
        let mut keys = KeyTable::new();
        let key = TsigKey::new(name("key.test").as_ref(), algorithm, &[SECRET]).unwrap();
        keys.insert(key.accept_mac_bytes(least).unwrap()).unwrap();
        for bytes in least..algorithm.mac_bytes() {
            let (cut, signer) = verified(&cut_mac(&message, bytes), &keys, NOW);
            assert_eq!(cut.identity, whole.identity, "truncating does not make another request");
            assert_eq!(tsig_of(&sign(&signer, Rcode::NOERROR, NOW)).0.len(), algorithm.mac_bytes());
        }
        let (reason, _) = rejected(&cut_mac(&message, least - 1), &keys, NOW);
        assert_eq!(reason, TsigReject::BadTrunc);
    }
}

#[test]
fn weak_algorithms_sign_and_verify_like_others() {
    for algorithm in KeyAlgorithm::WEAK {
        let message = signed(algorithm, NOW);
        let (request, signer) = verified(&message, &table(algorithm), NOW);
        assert_eq!(request.key_name, name("key.test"));
        assert_eq!(tsig_of(&sign(&signer, Rcode::NOERROR, NOW)).0.len(), algorithm.mac_bytes());
        let mut wrong = message.clone();
        let mac_end = message.len() - 7;
        wrong[mac_end] ^= 1;
        assert_eq!(rejected(&wrong, &table(algorithm), NOW).0, TsigReject::BadSig);
        assert_eq!(rejected(&message, &table(KeyAlgorithm::HmacSha256), NOW).0, TsigReject::BadKey);
    }
}

#[test]
fn both_secrets_of_a_rollover_verify_and_the_response_has_the_one_used() {
    let mut keys = KeyTable::new();
    let secrets: [&[u8]; 2] = [b"the new secret", SECRET];
    keys.insert(TsigKey::new(name("key.test").as_ref(), KeyAlgorithm::HmacSha256, &secrets).unwrap()).unwrap();
    let mut identities = Vec::new();
    for secret in secrets {
        let key = ClientKey::new(name("key.test").as_ref(), KeyAlgorithm::HmacSha256, secret).unwrap();
        let (request, signer) = verified(&key.sign(update(), NOW).unwrap(), &keys, NOW);
        identities.push(request.identity);
        let mut alone = KeyTable::new();
        let only = TsigKey::new(name("key.test").as_ref(), KeyAlgorithm::HmacSha256, &[secret]).unwrap();
        alone.insert(only).unwrap();
        let (_, same) = verified(&key.sign(update(), NOW).unwrap(), &alone, NOW);
        assert_eq!(sign(&signer, Rcode::NOERROR, NOW), sign(&same, Rcode::NOERROR, NOW));
    }
    assert_ne!(identities[0], identities[1]);
}

#[test]
fn identities_tell_requests_apart() {
    let keys = table(KeyAlgorithm::HmacSha256);
    let identity = |bytes: &[u8]| verified(bytes, &keys, NOW).0.identity;
    let message = signed(KeyAlgorithm::HmacSha256, NOW);
    assert_eq!(identity(&message), identity(&message.clone()));
    assert_ne!(identity(&message), identity(&signed(KeyAlgorithm::HmacSha256, NOW + 1)));
    let other = UpdateBuilder::new(0x1234, name("example.test").as_ref()).finish();
    let key = ClientKey::new(name("key.test").as_ref(), KeyAlgorithm::HmacSha256, SECRET).unwrap();
    assert_ne!(identity(&message), identity(&key.sign(other, NOW).unwrap()));
}

#[test]
fn no_change_of_a_signed_message_passes_for_another_request() {
    for algorithm in KeyAlgorithm::STRONG {
        let mut keys = KeyTable::new();
        let key = TsigKey::new(name("key.test").as_ref(), algorithm, &[SECRET]).unwrap();
        keys.insert(key.accept_mac_bytes(algorithm.mac_bytes_min()).unwrap()).unwrap();
        let message = signed(algorithm, NOW);
        let identity = verified(&message, &keys, NOW).0.identity;
        let mut passed = 0;
        for at in 0..message.len() {
            for bits in 1..=255 {
                let mut bytes = message.clone();
                bytes[at] ^= bits;
                if let Ok(Authenticated::Verified { verified, .. }) = check(&bytes, &keys, NOW) {
                    // The MAC covers neither the message ID, which a forwarder may change, nor the case of key and
                    // algorithm. So they must not change the identity.
                    let in_name = at >= update().len() && bits == 0x20 && message[at].is_ascii_alphabetic();
                    assert!(at < 2 || in_name, "byte {at} ^ {bits:02x}");
                    assert_eq!(verified.identity, identity, "byte {at} ^ {bits:02x}");
                    passed += 1;
                }
            }
        }
        // 2 bytes of ID with 255 other values each; the letters "keytest" and "hmacsha" in the other case.
        assert_eq!(passed, 2 * 255 + 7 + 7);
    }
}

#[test]
fn every_cut_of_a_signed_message_is_refused() {
    let keys = table(KeyAlgorithm::HmacSha256);
    let message = signed(KeyAlgorithm::HmacSha256, NOW);
    for len in 0..message.len() {
        assert!(!matches!(check(&message[..len], &keys, NOW), Ok(Authenticated::Verified { .. })), "{len}");
    }
}

/// Returns the message with its MAC cut or padded with zeros to `length` bytes.
fn cut_mac(message: &[u8], length: usize) -> Vec<u8> {
    let rdlength_at = update().len() + name("key.test").as_bytes().len() + 8;
    let mac_size_at = rdlength_at + 2 + 13 + 8;
    let size = usize::from(u16::from_be_bytes([message[mac_size_at], message[mac_size_at + 1]]));
    let mut cut = message.to_vec();
    let end = mac_size_at + 2 + size;
    cut.splice(mac_size_at + 2 + length.min(size)..end, vec![0; length.saturating_sub(size)]);
    cut[mac_size_at..mac_size_at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    let rdlength = u16::from_be_bytes([cut[rdlength_at], cut[rdlength_at + 1]]) + length as u16 - size as u16;
    cut[rdlength_at..rdlength_at + 2].copy_from_slice(&rdlength.to_be_bytes());
    cut
}
