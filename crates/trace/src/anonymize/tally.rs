//! Counts of an anonymization.

/// Counts of messages and of removed parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AnonymizationTally {
    /// Messages seen.
    pub messages: u64,
    /// Messages written.
    pub given: u64,
    /// Messages left out because they are malformed.
    pub malformed: u64,
    /// Messages left out because a name or the message would be too long.
    pub too_long: u64,
    /// Records left out because their layout is unknown.
    pub records_dropped: u64,
    /// Records with malformed rdata, which became zeros.
    pub records_blank: u64,
    /// EDNS options left out.
    pub options_dropped: u64,
    /// Messages with bytes after the last record, which were left out.
    pub extra_dropped: u64,
}
