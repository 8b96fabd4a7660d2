//! The target `doh_request` of `crates/server/examples/fuzz`.
#![no_main]

#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/limits.rs"]
mod limits;
#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/listen/doh/request.rs"]
mod request;
#[path = "../../crates/server/examples/fuzz/doh_request.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::run(bytes));
