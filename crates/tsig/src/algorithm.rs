//! The algorithms of TSIG keys.

use crate::limits::MAC_BYTES_MIN;

/// Algorithm of a TSIG key (RFC 8945 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyAlgorithm {
    /// `hmac-sha256`
    HmacSha256,
    /// `hmac-sha384`
    HmacSha384,
    /// `hmac-sha512`
    HmacSha512,
    /// `hmac-sha1`, for keys shared with other servers.
    HmacSha1,
    /// `hmac-sha224`, for keys shared with other servers.
    HmacSha224,
    /// `hmac-md5`, for keys shared with other servers.
    HmacMd5,
}

impl KeyAlgorithm {
    /// Algorithms for new keys.
    pub const STRONG: [Self; 3] = [Self::HmacSha256, Self::HmacSha384, Self::HmacSha512];
    /// Algorithms only for keys shared with other servers. RFC 8945 6: SHA-1 is "NOT RECOMMENDED", MD5 "MUST NOT be
    /// used", and SHA-224 is optional.
    pub const WEAK: [Self; 3] = [Self::HmacSha1, Self::HmacSha224, Self::HmacMd5];

    /// Whether a key of this algorithm is accepted only if the administrator names the algorithm.
    #[must_use]
    pub const fn is_weak(self) -> bool {
        matches!(self, Self::HmacSha1 | Self::HmacSha224 | Self::HmacMd5)
    }

    /// The name in key files. Except for HMAC-MD5, it is also the domain name in TSIG records (RFC 8945 6).
    #[must_use]
    pub const fn mnemonic(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha384 => "hmac-sha384",
            Self::HmacSha512 => "hmac-sha512",
            Self::HmacSha1 => "hmac-sha1",
            Self::HmacSha224 => "hmac-sha224",
            Self::HmacMd5 => "hmac-md5",
        }
    }

    /// Parses the name in a key file, in any case, with or without a trailing dot.
    #[must_use]
    pub fn from_mnemonic(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        // RFC 8945 6: the TSIG name of HMAC-MD5, which key files of other servers may contain.
        if text.eq_ignore_ascii_case("hmac-md5.sig-alg.reg.int") {
            return Some(Self::HmacMd5);
        }
        let mut all = Self::STRONG.into_iter().chain(Self::WEAK);
        all.find(|algorithm| algorithm.mnemonic().eq_ignore_ascii_case(text))
    }

    /// The algorithm's name in wire form (RFC 8945 6).
    #[must_use]
    pub const fn name_bytes(self) -> &'static [u8] {
        match self {
            Self::HmacSha256 => b"\x0bhmac-sha256\0",
            Self::HmacSha384 => b"\x0bhmac-sha384\0",
            Self::HmacSha512 => b"\x0bhmac-sha512\0",
            Self::HmacSha1 => b"\x09hmac-sha1\0",
            Self::HmacSha224 => b"\x0bhmac-sha224\0",
            Self::HmacMd5 => b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0",
        }
    }

    /// Bytes of a full MAC.
    #[must_use]
    pub const fn mac_bytes(self) -> usize {
        match self {
            Self::HmacSha256 => 32,
            Self::HmacSha384 => 48,
            Self::HmacSha512 => 64,
            Self::HmacSha1 => 20,
            Self::HmacSha224 => 28,
            Self::HmacMd5 => 16,
        }
    }

    /// Bytes of the shortest MAC that the protocol allows: "the larger of 10 (octets) and half the length of the hash
    /// function in use" (RFC 8945 5.2.2.1).
    #[must_use]
    pub const fn mac_bytes_min(self) -> usize {
        let half = self.mac_bytes() / 2;
        if half > MAC_BYTES_MIN { half } else { MAC_BYTES_MIN }
    }
}
