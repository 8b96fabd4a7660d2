//! The target `rdata` of `crates/server/examples/fuzz`.
#![no_main]

#[path = "../../crates/server/examples/fuzz/rdata.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::run(bytes));
