//! Inputs out of seeds: the crate of the log makes them the same way.

#[expect(unreachable_pub, reason = "it is public where it stands")]
#[path = "../../../replica/src/testing/fuzz/mutate.rs"]
mod mutate;

/// What `mutate` is bounded by.
mod limits {
    /// Bytes of an input: more than a message with its length before it.
    pub(super) const INPUT_BYTES_MAX: usize = 68 << 10;
}

pub(crate) use mutate::Mutator;
