//! The rights that a grant can give.

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
