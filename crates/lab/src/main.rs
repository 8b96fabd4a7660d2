//! The `catlab` command line.
#![forbid(unsafe_code)]

fn main() {}
