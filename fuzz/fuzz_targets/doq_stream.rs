//! Any octets on a stream of DNS over QUIC, in pieces: one message that is framed the same, or a rule that is broken.
#![no_main]

#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/limits.rs"]
mod limits;
#[path = "../../crates/server/src/listen/doq/stream.rs"]
mod stream;

use libfuzzer_sys::fuzz_target;
use stream::{extend, frame, message};

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, octets) = input;
    let mut read = Vec::new();
    for chunk in octets.chunks(usize::from(piece).max(1)) {
        if extend(&mut read, chunk).is_err() {
            assert!(octets.len() > 2 + 65_535);
            return;
        }
    }
    assert_eq!(read, octets);
    if let Ok(message) = message(&read) {
        let mut framed = Vec::new();
        frame(message, &mut framed);
        assert_eq!(framed, octets);
    }
});
