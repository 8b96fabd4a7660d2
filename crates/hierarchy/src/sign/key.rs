//! The key of a zone, and its DNSKEY and DS records.

use super::Validity;
use crate::limits::RRSIG_BYTES_MAX;
use ring::signature::{Ed25519KeyPair, KeyPair};
use ring::{digest, hmac};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::Record;

/// Ed25519 (RFC 8080 5). Its signatures need no random number, so the same zones and key give the same bytes.
const ALGORITHM: u8 = 15;
/// SHA-256 (RFC 4509).
const DIGEST_TYPE: u8 = 2;
/// Zone Key and Secure Entry Point (RFC 4034 2.1.1): one key signs everything.
const FLAGS: u16 = 257;
/// RFC 4034 2.1.2.
const PROTOCOL: u8 = 3;
/// Context of the derivation of a zone's key.
const PURPOSE: &[u8] = b"catlab zone key 1 ";

/// The key of one zone.
pub struct ZoneKey {
    apex: Name,
    pair: Ed25519KeyPair,
    dnskey: Vec<u8>,
    tag: u16,
}

impl ZoneKey {
    /// Derives the key of a zone from the lab's key.
    #[must_use]
    pub fn derive(lab_key: &[u8; 32], apex: NameRef<'_>) -> Self {
        let apex = apex.to_canonical();
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, lab_key));
        context.update(PURPOSE);
        context.update(apex.as_bytes());
        Self::from_seed(context.sign().as_ref(), apex)
    }

    /// # Panics
    ///
    /// The seed does not have 32 bytes.
    fn from_seed(seed: &[u8], apex: Name) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed of 32 bytes");
        let mut dnskey = FLAGS.to_be_bytes().to_vec();
        dnskey.extend_from_slice(&[PROTOCOL, ALGORITHM]);
        dnskey.extend_from_slice(pair.public_key().as_ref());
        let tag = key_tag(&dnskey);
        Self { apex, pair, dnskey, tag }
    }

    /// The rdata of its DNSKEY record (RFC 4034 2).
    #[must_use]
    pub fn dnskey(&self) -> &[u8] {
        &self.dnskey
    }

    /// The rdata of its DS record (RFC 4034 5).
    #[must_use]
    pub fn ds(&self) -> Vec<u8> {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(self.apex.as_bytes());
        context.update(&self.dnskey);
        let mut ds = self.tag.to_be_bytes().to_vec();
        ds.extend_from_slice(&[ALGORITHM, DIGEST_TYPE]);
        ds.extend_from_slice(context.finish().as_ref());
        ds
    }

    /// The RRSIG of an RRset. Its records must have the same owner, type and TTL, in canonical order and without
    /// duplicates (RFC 4034 3, 6).
    #[must_use]
    pub(super) fn sign(&self, rrset: &[Record], validity: Validity) -> Option<Record> {
        let Record { owner, rtype, ttl, .. } = rrset.first()?;
        let mut rdata = Vec::with_capacity(RRSIG_BYTES_MAX);
        rdata.extend_from_slice(&rtype.0.to_be_bytes());
        // RFC 4034 3.1.3: the root label and an asterisk do not count.
        let labels = owner.as_ref().label_count() - usize::from(owner.as_ref().is_wildcard());
        rdata.extend_from_slice(&[ALGORITHM, labels as u8]);
        rdata.extend_from_slice(&ttl.to_be_bytes());
        rdata.extend_from_slice(&validity.expiration.to_be_bytes());
        rdata.extend_from_slice(&validity.inception.to_be_bytes());
        rdata.extend_from_slice(&self.tag.to_be_bytes());
        rdata.extend_from_slice(self.apex.as_bytes());
        let mut signed = rdata.clone();
        let mut canonical = Vec::new();
        for record in rrset {
            signed.extend_from_slice(owner.as_ref().to_canonical().as_bytes());
            signed.extend_from_slice(&rtype.0.to_be_bytes());
            signed.extend_from_slice(&[0, 1]);
            signed.extend_from_slice(&ttl.to_be_bytes());
            canonical.clear();
            canonical.extend_from_slice(&record.rdata);
            wire::rdata_lowercase(*rtype, &mut canonical);
            signed.extend_from_slice(&(canonical.len() as u16).to_be_bytes());
            signed.extend_from_slice(&canonical);
        }
        rdata.extend_from_slice(self.pair.sign(&signed).as_ref());
        Some(Record { owner: owner.clone(), rtype: Rtype::RRSIG, ttl: *ttl, rdata: rdata.into() })
    }
}

/// RFC 4034 appendix B.
fn key_tag(dnskey: &[u8]) -> u16 {
    let shifted = |(at, byte): (usize, &u8)| if at % 2 == 0 { u32::from(*byte) << 8 } else { u32::from(*byte) };
    let sum: u32 = dnskey.iter().enumerate().map(shifted).sum();
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn signatures_match_rfc_8080() {
        // The first example of RFC 8080 6.1.
        let key = ZoneKey::from_seed(b"82260384628080122645190204142262", "example.com.".parse().unwrap());
        assert_eq!(key.tag, 3613);
        assert_eq!(hex(&key.dnskey[4..]), "974d96a22d224bc01adb915091477d44ccd91c9a41a11430010117d52c59240e");
        let digest = "3aa5ab37efce57f737fc1627013fee07bdf241bd10f3b1964ab55c78e79a304b";
        assert_eq!(hex(&key.ds()), format!("0e1d0f02{digest}"));
        let mx = Record {
            owner: "example.com.".parse().unwrap(),
            rtype: Rtype::MX,
            ttl: 3600,
            rdata: b"\x00\x0a\x04mail\x07example\x03com\x00".as_slice().into(),
        };
        let validity = Validity { inception: 1_438_207_200, expiration: 1_440_021_600 };
        let rrsig = key.sign(&[mx], validity).unwrap();
        let head = "000f0f0200000e1055d4fc6055b94ce00e1d076578616d706c6503636f6d00";
        let signature = "a0bf64ac9ba7ef17c138859c1878bb99a839fe1759aca5b0d798cf1ab1e98d07\
                         9102f4ddb3368f0fe40bb377f1f00e0cddedb799167d56b6e932783072ba8d02";
        assert_eq!(hex(&rrsig.rdata), format!("{head}{signature}"));
    }

    #[test]
    fn each_zone_has_its_own_constant_key() {
        let [one, again, other] = ["example.", "EXAMPLE.", "test."]
            .map(|apex| ZoneKey::derive(&[7; 32], apex.parse::<Name>().unwrap().as_ref()));
        assert_eq!((one.dnskey(), one.ds()), (again.dnskey(), again.ds()));
        assert_ne!(one.dnskey(), other.dnskey());
        assert_ne!(one.dnskey(), ZoneKey::derive(&[8; 32], one.apex.as_ref()).dnskey());
    }
}
