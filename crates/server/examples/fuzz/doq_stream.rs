//! Any bytes on a DNS over QUIC stream, in chunks, are one message, or break a rule. The first byte of the input is the
//! size of the chunks.

use crate::stream::{extend, frame, message};

pub(crate) fn run(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let mut read = Vec::new();
    for chunk in bytes.chunks(usize::from(piece).max(1)) {
        if extend(&mut read, chunk).is_err() {
            assert!(bytes.len() > 2 + 65_535);
            return;
        }
    }
    assert_eq!(read, bytes);
    if let Ok(message) = message(&read) {
        let mut framed = Vec::new();
        frame(message, &mut framed);
        assert_eq!(framed, bytes);
    }
}
