//! Any bytes on a connection, in chunks, give the same messages as all bytes at once. The messages are sent as they
//! were pushed. The first byte of the input is the size of the chunks.

use crate::framing::{Inbound, Outbound};

pub(crate) fn run(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let (mut wanted, mut rest) = (Vec::new(), bytes);
    while let Some((prefix, after)) = rest.split_first_chunk::<2>() {
        let Some(message) = after.get(..usize::from(u16::from_be_bytes(*prefix))) else { break };
        wanted.push(message);
        rest = &after[message.len()..];
    }
    let (mut inbound, mut outbound) = (Inbound::default(), Outbound::default());
    let (mut seen, mut sent) = (0, Vec::new());
    for chunk in bytes.chunks(usize::from(piece).max(1)) {
        inbound.extend(chunk);
        while let Some(message) = inbound.next() {
            assert_eq!(message, wanted[seen]);
            outbound.push(message);
            seen += 1;
        }
        let some = outbound.waiting().len().min(usize::from(piece));
        sent.extend_from_slice(&outbound.waiting()[..some]);
        outbound.sent(some);
    }
    assert_eq!(seen, wanted.len());
    sent.extend_from_slice(outbound.waiting());
    assert_eq!(sent, bytes[..bytes.len() - rest.len()]);
}
