//! Makes inputs from seeds, with the mutator that the replica crate uses.

#[expect(unreachable_pub, reason = "it is public where it stands")]
#[path = "../../../replica/src/testing/fuzz/mutate.rs"]
mod mutate;

/// The limits of `mutate`.
mod limits {
    /// Maximum bytes of an input: more than a message with its length prefix.
    pub(super) const INPUT_BYTES_MAX: usize = 68 << 10;
}

pub(crate) use mutate::Mutator;
