//! Every bound of this crate.

/// The longest name of a namespace or an interface: that of an interface in Linux, less its final zero.
pub const NAME_OCTETS_MAX: usize = 15;
