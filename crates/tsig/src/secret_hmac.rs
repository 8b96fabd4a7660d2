//! HMAC under the secret of a TSIG key (RFC 2104, RFC 8945 6).
//!
//! ring computes the MACs for the algorithms that it supports. MD5 and SHA-224, for keys shared with other servers,
//! come from RustCrypto.

use crate::algorithm::KeyAlgorithm;
use crate::mac::Mac;
use core::fmt;
use hmac::Mac as _;
use ring::hmac as ring_hmac;

type HmacMd5 = hmac::Hmac<md5::Md5>;
type HmacSha224 = hmac::Hmac<sha2::Sha224>;

/// A TSIG secret, prepared for computing MACs.
#[derive(Clone)]
pub(crate) enum SecretHmac {
    /// SHA-1, SHA-256, SHA-384 or SHA-512.
    Ring(ring_hmac::Key),
    /// MD5.
    Md5(Box<HmacMd5>),
    /// SHA-224.
    Sha224(Box<HmacSha224>),
}

/// A MAC computation in progress.
pub(crate) enum HmacContext {
    Ring(ring_hmac::Context),
    Md5(HmacMd5),
    Sha224(HmacSha224),
}

impl fmt::Debug for SecretHmac {
    /// Shows nothing of the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHmac")
    }
}

impl SecretHmac {
    pub(crate) fn new(algorithm: KeyAlgorithm, secret: &[u8]) -> Self {
        let ring = |algorithm| Self::Ring(ring_hmac::Key::new(algorithm, secret));
        match algorithm {
            KeyAlgorithm::HmacSha256 => ring(ring_hmac::HMAC_SHA256),
            KeyAlgorithm::HmacSha384 => ring(ring_hmac::HMAC_SHA384),
            KeyAlgorithm::HmacSha512 => ring(ring_hmac::HMAC_SHA512),
            KeyAlgorithm::HmacSha1 => ring(ring_hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            // RFC 2104 2: a secret may have any length. A secret longer than a block is hashed first.
            KeyAlgorithm::HmacMd5 => Self::Md5(Box::new(keyed(secret))),
            KeyAlgorithm::HmacSha224 => Self::Sha224(Box::new(keyed(secret))),
        }
    }

    pub(crate) fn context(&self) -> HmacContext {
        match self {
            Self::Ring(key) => HmacContext::Ring(ring_hmac::Context::with_key(key)),
            Self::Md5(key) => HmacContext::Md5(HmacMd5::clone(key)),
            Self::Sha224(key) => HmacContext::Sha224(HmacSha224::clone(key)),
        }
    }
}

fn keyed<M: hmac::Mac + hmac::digest::KeyInit>(secret: &[u8]) -> M {
    <M as hmac::Mac>::new_from_slice(secret).unwrap_or_else(|_| unreachable!("HMAC takes secrets of any length"))
}

impl HmacContext {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Ring(context) => context.update(bytes),
            Self::Md5(context) => context.update(bytes),
            Self::Sha224(context) => context.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Mac {
        // A `Mac` has room for the MAC of every algorithm.
        match self {
            Self::Ring(context) => Mac::from_bytes(context.sign().as_ref()),
            Self::Md5(context) => Mac::from_bytes(&context.finalize().into_bytes()),
            Self::Sha224(context) => Mac::from_bytes(&context.finalize().into_bytes()),
        }
        .unwrap_or(Mac::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 2202 2 and 3, RFC 4231 4.3: key "Jefe", data "what do ya want for nothing?".
    #[test]
    fn macs_are_those_of_the_rfcs() {
        for (algorithm, expected) in [
            (KeyAlgorithm::HmacMd5, "750c783e6ab0b503eaa86e310a5db738"),
            (KeyAlgorithm::HmacSha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (KeyAlgorithm::HmacSha224, "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44"),
            (KeyAlgorithm::HmacSha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ] {
            let mut context = SecretHmac::new(algorithm, b"Jefe").context();
            context.update(b"what do ya want ");
            context.update(b"for nothing?");
            let mac = context.finish();
            assert_eq!(hex(mac.as_bytes()), expected, "{algorithm:?}");
            assert_eq!(mac.as_bytes().len(), algorithm.mac_bytes());
        }
        // RFC 2202 2, RFC 4231 4.7: the secret is longer than a block of the hash.
        let long = SecretHmac::new(KeyAlgorithm::HmacMd5, &[0xAA; 80]);
        let mut context = long.context();
        context.update(b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(context.finish().as_bytes()), "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd");
        let mut context = SecretHmac::new(KeyAlgorithm::HmacSha224, &[0xAA; 131]).context();
        context.update(b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(context.finish().as_bytes()), "95e9a0db962095adaebe9b2d6f0dbce2d499f112f2d2b7273fa6870e");
    }
}
