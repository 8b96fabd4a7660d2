//! Why a message is left out.

/// Why a message cannot be anonymized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DropReason {
    /// The message is malformed, so its contents are unknown.
    Malformed,
    /// A name or the message would be too long.
    TooLong,
}
