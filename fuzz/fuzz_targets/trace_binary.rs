//! Any bytes as a trace: `read` of `trace/src/testing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trace::testing::read(trace::Format::Binary, bytes));
