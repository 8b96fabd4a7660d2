//! TSIG algorithms, and the rights that a grant can give.

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

/// A right that a grant gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// UPDATE (RFC 2136).
    Update,
    /// AXFR and IXFR.
    Transfer,
    /// UPDATE, including the SOA and the NS records of the apex.
    UpdateApex,
}

impl Right {
    /// The name of the right in the API, the command line and the audit log.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Transfer => "transfer",
            Self::UpdateApex => "update-apex",
        }
    }
}
