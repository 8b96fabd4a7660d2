//! The target `tcp_framing` of `crates/server/examples/fuzz`.
#![no_main]

#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/limits.rs"]
mod limits;
#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/listen/framing.rs"]
mod framing;
#[path = "../../crates/server/examples/fuzz/tcp_framing.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::run(bytes));
