//! Signs each message with TSIG when it is sent (RFC 8945).

use super::key::TsigKey;
use crate::limits::QUERY_BYTES_MAX;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum clock difference in seconds (RFC 8945 10).
const FUDGE_S: u16 = 300;
/// The type TSIG and the class ANY (RFC 8945 4.2).
const TYPE_AND_CLASS: [u8; 4] = [0, 250, 0, 255];

/// Signs the messages of one worker.
#[derive(Clone, Debug)]
pub struct Signer {
    key: TsigKey,
    /// ID of the signed message. The engine sends it with another ID, as a forwarder may (RFC 8945 4.2, Original ID).
    /// The ID is incremented, so two equal messages of the same second have different signatures.
    original_id: u16,
}

impl Signer {
    /// Signs with this key.
    #[must_use]
    pub const fn new(key: TsigKey) -> Self {
        Self { key, original_id: 0 }
    }

    /// The signer of worker `index`. The initial IDs of workers are as far apart as possible. With 64 workers, each can
    /// sign a thousand messages before two workers sign equal messages alike within one second.
    #[must_use]
    pub fn for_worker(&self, index: usize) -> Self {
        Self { original_id: (index as u16).reverse_bits(), ..self.clone() }
    }

    /// Length of a signature in bytes.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.key.name.as_bytes().len() + 10 + self.key.algorithm.as_bytes().len() + 16 + self.key.mac_bytes
    }

    /// Signs the message in the first `length` bytes of `out`. Returns the new length. Does not change the message if
    /// there is no room.
    pub fn sign(&mut self, out: &mut [u8], length: usize) -> usize {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.sign_at(out, length, now_s)
    }

    fn sign_at(&mut self, out: &mut [u8], length: usize, now_s: u64) -> usize {
        let total = length + self.byte_count();
        if total > out.len().min(QUERY_BYTES_MAX) {
            return length;
        }
        self.original_id = self.original_id.wrapping_add(1);
        let id = self.original_id.to_be_bytes();
        out[..2].copy_from_slice(&id);
        let (name, algorithm) = (self.key.name.as_bytes(), self.key.algorithm.as_bytes());
        let time = &now_s.to_be_bytes()[2..];
        let mut mac = ring::hmac::Context::with_key(&self.key.key);
        mac.update(&out[..length]);
        // The TSIG variables (RFC 8945 4.3.3): class ANY, TTL 0, no error, no other data.
        for part in [name, &[0, 255, 0, 0, 0, 0], algorithm, time, &FUDGE_S.to_be_bytes(), &[0, 0, 0, 0]] {
            mac.update(part);
        }
        let mac = mac.sign();
        let mac_bytes = (self.key.mac_bytes as u16).to_be_bytes();
        let rdata_bytes = (algorithm.len() as u16 + 16 + self.key.mac_bytes as u16).to_be_bytes();
        let mut at = length;
        for part in [
            name,
            &TYPE_AND_CLASS,
            &[0; 4],
            &rdata_bytes,
            algorithm,
            time,
            &FUDGE_S.to_be_bytes(),
            &mac_bytes,
            mac.as_ref(),
            &id,
            &[0; 4],
        ] {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let additional = u16::from_be_bytes([out[10], out[11]]) + 1;
        out[10..12].copy_from_slice(&additional.to_be_bytes());
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::rdata::tsig::Time48;
    use domain::tsig::{Algorithm, Key, ServerTransaction};
    use std::sync::Arc;

    #[test]
    fn another_implementation_accepts_the_signature_under_another_id() {
        let mut signer = Signer::new(TsigKey::parse("hmac-sha256:Update:MTIzNDU2Nzg5MDEyMzQ1Ng==").unwrap());
        let mut out = [0; 512];
        let update = wire::builder::MessageBuilder::update(0, "example.".parse::<wire::name::Name>().unwrap().as_ref());
        let bytes = update.build();
        out[..bytes.len()].copy_from_slice(&bytes);
        let length = signer.sign_at(&mut out, bytes.len(), 1_700_000_000);
        assert_eq!(length, bytes.len() + signer.byte_count());
        out[..2].copy_from_slice(&[0xAB, 0xCD]);
        let name = "update.".parse().unwrap();
        let key = Arc::new(Key::new(Algorithm::Sha256, b"1234567890123456", name, None, None).unwrap());
        let verify = |bytes: Vec<u8>, now_s| {
            let mut message = domain::base::Message::from_octets(bytes).unwrap();
            ServerTransaction::request(&key, &mut message, Time48::from_u64(now_s)).is_ok_and(|found| found.is_some())
        };
        assert!(verify(out[..length].to_vec(), 1_700_000_100));
        let mut forged = out[..length].to_vec();
        forged[20] ^= 1;
        assert!(!verify(forged, 1_700_000_100));
    }

    #[test]
    fn many_workers_sign_equal_messages_differently() {
        let signer = Signer::new(TsigKey::parse("a:MTIzNDU2Nzg=").unwrap());
        let mut signed = std::collections::BTreeSet::new();
        for index in 0..64 {
            let mut share = signer.for_worker(index);
            for _ in 0..1_000 {
                let mut out = [0; 256];
                share.sign_at(&mut out, 12, 1);
                signed.insert(out);
            }
        }
        assert_eq!(signed.len(), 64_000);
    }

    #[test]
    fn two_equal_messages_are_signed_differently() {
        let mut signer = Signer::new(TsigKey::parse("a:MTIzNDU2Nzg=").unwrap());
        let (mut one, mut two) = ([0; 256], [0; 256]);
        assert_eq!(signer.sign_at(&mut one, 12, 1), signer.sign_at(&mut two, 12, 1));
        assert_ne!(one, two);
    }
}
