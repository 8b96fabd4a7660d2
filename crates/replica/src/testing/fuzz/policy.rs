//! Policies as text and as bytes.

use policy::Policy;
use policy::text::parse_policy;
use zone::codec::{Decoder, Encoder};

/// The text form and the byte form of a policy are both read back without change. Bytes may contain types that have
/// no name in the text.
///
/// # Panics
/// If not.
pub fn policy(bytes: &[u8]) {
    if let Ok(policy) = parse_policy(&String::from_utf8_lossy(bytes)) {
        let shown = policy.to_string();
        assert_eq!(parse_policy(&shown).as_ref(), Ok(&policy), "{shown}");
        comes_back(&policy);
    }
    let mut from = Decoder::new(bytes);
    if let Ok(policy) = Policy::decode(&mut from)
        && from.finish().is_ok()
    {
        let _ = parse_policy(&policy.to_string());
        comes_back(&policy);
    }
}

fn comes_back(policy: &Policy) {
    let bytes = encoded(policy);
    let mut from = Decoder::new(&bytes);
    assert_eq!(Policy::decode(&mut from).as_ref(), Ok(policy));
    assert!(from.finish().is_ok());
}

fn encoded(policy: &Policy) -> Vec<u8> {
    let mut out = Encoder::new();
    policy.encode(&mut out);
    out.finish()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "grant dhcp. name www.example.test. A(4) TXT;\ndeny * subdomain example.test.;\n\
         grant *.hosts. self . ANY;\ngrant k selfsub .;\ngrant k selfwild .;\ngrant k zonesub;\n",
        "# a comment\nGRANT \"dhcp.example\" ZoneSub a(4) Aaaa; // another\n/* and\n one more */",
        "grant k wildcard *.example.test. TYPE65280;\ngrant * tcp-self . PTR(1);\ndeny * 6to4-self .;\n\
         deny \"local:/run/a.b\" external . TXT;\n\
         limit dhcp. update-records 1 update-bytes 2 name-records 3 zone-records 4;",
        "grant \"a\\\"b\\;c\\ d\\\\.example.\" zonesub;",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    seeds.extend(texts.iter().map(|text| encoded(&parse_policy(text).expect("rules"))));
    seeds
}
