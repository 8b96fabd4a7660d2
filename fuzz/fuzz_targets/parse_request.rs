//! The target `parse_request` of `crates/server/examples/fuzz`.
#![no_main]

#[path = "../../crates/server/examples/fuzz/parse_request.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::run(bytes));
