//! The target `doq_stream` of `crates/server/examples/fuzz`.
#![no_main]

#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/limits.rs"]
mod limits;
#[path = "../../crates/server/src/listen/doq/stream.rs"]
mod stream;
#[path = "../../crates/server/examples/fuzz/doq_stream.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::run(bytes));
