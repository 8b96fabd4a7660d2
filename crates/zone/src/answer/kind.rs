//! The kind of an answer.

/// The kind of an answer, for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerKind {
    /// The queried RRset, possibly after aliases.
    Positive,
    /// The name exists, but not the type.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// The name is in a delegated zone.
    Referral,
    /// Aliases that leave the zone, form a loop, or are too many.
    Alias,
    /// A DNAME gave a name that is too long.
    YxDomain,
    /// No zone, another class, or a transfer.
    Refused,
    /// The zone may not be served now.
    ServFail,
    /// An invalid QTYPE.
    FormErr,
    /// An unsupported QTYPE.
    NotImp,
    /// Only a COOKIE, without a question (RFC 7873 5.4).
    CookieOnly,
    /// A name of class CH.
    Chaos,
}

impl AnswerKind {
    /// A stable name for metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::NoData => "nodata",
            Self::NxDomain => "nxdomain",
            Self::Referral => "referral",
            Self::Alias => "alias",
            Self::YxDomain => "yxdomain",
            Self::Refused => "refused",
            Self::ServFail => "servfail",
            Self::FormErr => "formerr",
            Self::NotImp => "notimp",
            Self::CookieOnly => "cookie_only",
            Self::Chaos => "chaos",
        }
    }
}

/// The answer is about a single name.
pub const ALL_LABELS: usize = usize::MAX;
