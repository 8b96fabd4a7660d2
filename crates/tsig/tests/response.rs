//! A client accepts a response only if the server signed it for this request (RFC 8945 5.4).
#![expect(clippy::unwrap_used, reason = "a test that meets a surprise shall stop")]

use catamaran_tsig::client::{ClientKey, Unverified, UpdateBuilder};
use catamaran_tsig::{Authenticated, KeyAlgorithm, KeyTable, Signer, TsigKey, authenticate};
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::{Parsed, parse_request};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_700_000_000;

fn client(algorithm: KeyAlgorithm, secret: &[u8]) -> ClientKey {
    ClientKey::new(name("key.test").as_ref(), algorithm, secret).unwrap()
}

fn request(key: &ClientKey, id: u16, time_signed: u64) -> Vec<u8> {
    let zone = name("example.test");
    let update = UpdateBuilder::new(id, zone.as_ref()).delete_rrset(name("www.example.test").as_ref(), Rtype::A);
    key.sign(update.finish(), time_signed).unwrap()
}

/// What a server that holds `secret` sends back at `now_s`.
fn response(algorithm: KeyAlgorithm, secret: &[u8], request: &[u8], rcode: Rcode, now_s: u64) -> Vec<u8> {
    let mut keys = KeyTable::new();
    keys.insert(TsigKey::new(name("key.test").as_ref(), algorithm, &[secret]).unwrap()).unwrap();
    let Parsed::Request(parsed) = parse_request(request) else { panic!("no request") };
    let signer = match authenticate(&parsed, &keys, now_s) {
        Authenticated::Verified { signer, .. } | Authenticated::Rejected { signer: Some(signer), .. } => signer,
        other => panic!("{other:?}"),
    };
    sign(&signer, request, rcode, now_s)
}

fn sign(signer: &Signer, request: &[u8], rcode: Rcode, now_s: u64) -> Vec<u8> {
    let zone_section = 12..12 + name("example.test").as_bytes().len() + 4;
    let mut buffer = request[..zone_section.end].to_vec();
    buffer[2] |= 0x80;
    buffer[3] |= rcode.0 as u8;
    buffer[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    let len = buffer.len();
    buffer.resize(len + signer.reserve_bytes(), 0);
    let signed = signer.sign(&mut buffer, len, now_s).unwrap();
    assert_eq!(signed - len, signer.byte_count());
    buffer.truncate(signed);
    buffer
}

#[test]
fn a_response_signed_for_this_request_is_accepted() {
    for algorithm in KeyAlgorithm::STRONG {
        let key = client(algorithm, SECRET);
        let request = request(&key, 7, NOW);
        for rcode in [Rcode::NOERROR, Rcode::NXRRSET, Rcode::REFUSED] {
            let response = response(algorithm, SECRET, &request, rcode, NOW + 2);
            let verified = key.verify(&request, &response, NOW + 3).unwrap();
            assert_eq!((verified.error, verified.server_time_s), (Rcode::NOERROR, None));
        }
    }
}

#[test]
fn every_flipped_bit_of_a_response_is_found() {
    let key = client(KeyAlgorithm::HmacSha256, SECRET);
    let request = request(&key, 7, NOW);
    let good = response(KeyAlgorithm::HmacSha256, SECRET, &request, Rcode::NOERROR, NOW);
    // Names of keys and algorithms are compared without case (RFC 8945 4.3.3).
    let key_name = 12 + name("example.test").as_bytes().len() + 4;
    let algorithm = key_name + name("key.test").as_bytes().len() + 10;
    let names = [
        key_name..key_name + name("key.test").as_bytes().len(),
        algorithm..algorithm + KeyAlgorithm::HmacSha256.name_bytes().len(),
    ];
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let is_case = bad.eq_ignore_ascii_case(&good) && names.iter().any(|name| name.contains(&(bit / 8)));
        assert_eq!(key.verify(&request, &bad, NOW).is_ok(), is_case, "byte {} bit {}", bit / 8, bit % 8);
    }
    for len in 0..good.len() {
        assert!(key.verify(&request, &good[..len], NOW).is_err(), "{len} bytes");
    }
}

#[test]
fn the_response_to_another_request_is_refused() {
    let key = client(KeyAlgorithm::HmacSha256, SECRET);
    let (mine, other) = (request(&key, 7, NOW), request(&key, 7, NOW + 1));
    let response = response(KeyAlgorithm::HmacSha256, SECRET, &other, Rcode::NOERROR, NOW);
    assert_eq!(key.verify(&mine, &response, NOW), Err(Unverified::BadMac));
    assert_eq!(key.verify(&mine, &mine, NOW), Err(Unverified::Foreign), "a request is no response");
    assert_eq!(key.verify(&request(&key, 8, NOW), &response, NOW), Err(Unverified::Foreign));
    assert_eq!(key.verify(&mine, b"", NOW), Err(Unverified::Foreign));
}

#[test]
fn old_and_unsigned_responses_are_refused() {
    let key = client(KeyAlgorithm::HmacSha256, SECRET);
    let request = request(&key, 7, NOW);
    let good = response(KeyAlgorithm::HmacSha256, SECRET, &request, Rcode::NOERROR, NOW);
    assert!(key.verify(&request, &good, NOW + 300).is_ok());
    assert_eq!(key.verify(&request, &good, NOW + 301), Err(Unverified::BadTime));

    let stranger = response(KeyAlgorithm::HmacSha256, b"another secret of thirty bytes", &request, Rcode::NOTAUTH, NOW);
    assert_eq!(key.verify(&request, &stranger, NOW), Err(Unverified::Error(Rcode::BADSIG)));

    let mut unsigned = request[..12 + name("example.test").as_bytes().len() + 4].to_vec();
    unsigned[2] |= 0x80;
    unsigned[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(key.verify(&request, &unsigned, NOW), Err(Unverified::Unsigned));
}

#[test]
fn bad_time_comes_with_the_time_of_the_server() {
    let key = client(KeyAlgorithm::HmacSha256, SECRET);
    let request = request(&key, 7, NOW);
    let late = NOW + 1_000;
    let response = response(KeyAlgorithm::HmacSha256, SECRET, &request, Rcode::NOTAUTH, late);
    let verified = key.verify(&request, &response, NOW).unwrap();
    assert_eq!((verified.error, verified.server_time_s), (Rcode::BADTIME, Some(late)));
}
