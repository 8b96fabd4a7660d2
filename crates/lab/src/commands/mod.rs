//! The subcommands of `catlab`, one a file.

pub(crate) mod load;
