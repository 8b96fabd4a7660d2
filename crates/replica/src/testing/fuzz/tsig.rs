//! Authentication of messages: no sender passes as the holder of another's key.

use super::update::messages;
use super::world::{KEYS, SECRET, TIME_MS, name};
use tsig::client::ClientKey;
use tsig::{Authenticated, KeyAlgorithm, KeyTable, TsigKey, authenticate};
use wire::parse::{Parsed, parse_request};

const NOW_S: u64 = TIME_MS / 1_000;
/// A key per algorithm. Two of them also sign the updates of other targets.
const KEYED: [(&str, KeyAlgorithm); 3] =
    [(KEYS[0], KeyAlgorithm::HmacSha256), (KEYS[1], KeyAlgorithm::HmacSha512), ("third.", KeyAlgorithm::HmacSha384)];

fn keys() -> KeyTable {
    let mut keys = KeyTable::new();
    for (key, algorithm) in KEYED {
        let key = TsigKey::new(name(key).as_ref(), algorithm, &[SECRET]).expect("a key");
        assert!(keys.insert(key).is_ok(), "room for three keys");
    }
    keys
}

fn identity(bytes: &[u8], keys: &KeyTable) -> Option<[u8; 16]> {
    let Parsed::Request(request) = parse_request(bytes) else { return None };
    match authenticate(&request, keys, NOW_S) {
        Authenticated::Verified { verified, signer } => {
            let mut response = bytes[..bytes.len().min(12)].to_vec();
            let len = response.len();
            response.resize(len + signer.reserve_bytes(), 0);
            assert!(signer.sign(&mut response, len, NOW_S).is_ok(), "the reserved room suffices");
            Some(verified.identity)
        }
        Authenticated::Rejected { signer: Some(signer), .. } => {
            let mut response = vec![0; 12 + signer.reserve_bytes()];
            assert!(signer.sign(&mut response, 12, NOW_S).is_ok(), "the reserved room suffices");
            None
        }
        Authenticated::Unsigned | Authenticated::Rejected { signer: None, .. } => None,
    }
}

/// Every message that verifies is one of the signed messages.
///
/// # Panics
/// If not.
pub fn tsig(bytes: &[u8]) {
    let keys = keys();
    let Some(identity_of_input) = identity(bytes, &keys) else { return };
    // The MAC does not cover the header's ID and the case of names (RFC 8945 4.3.2).
    let known = seeds().iter().filter_map(|seed| identity(seed, &keys)).any(|known| known == identity_of_input);
    assert!(known, "an unsigned message was verified");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (key, algorithm) in KEYED {
        let key = ClientKey::new(name(key).as_ref(), algorithm, SECRET).expect("a key");
        seeds.extend(messages().into_iter().map(|message| key.sign(message, NOW_S).expect("room for a MAC")));
    }
    seeds
}
