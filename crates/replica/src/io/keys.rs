//! Algorithms of keys, and what a grant allows.

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

/// What a grant is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// UPDATE (RFC 2136).
    Update,
    /// AXFR and IXFR.
    Transfer,
    /// UPDATE, of the SOA and the NS of the apex too.
    UpdateApex,
}

impl Right {
    /// What the API, the command line and the audit log call it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Transfer => "transfer",
            Self::UpdateApex => "update-apex",
        }
    }
}
