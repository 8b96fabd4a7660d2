//! The bytes of a DNS over QUIC stream: one message after its length, and the rules for it (RFC 9250 4.2).

use crate::limits::{DATAGRAM_BYTES_MAX, MESSAGE_PREFIX_BYTES};
use wire::parse::{Parsed, parse_request};

/// The rule that a client broke, as text for the client.
pub(super) type Broken = &'static str;

const TOO_SHORT: Broken = "the stream ended before the message";
const TOO_LONG: Broken = "more than one message on a stream";

/// Appends received bytes. Fails if they are more than one message can have.
pub(super) fn extend(bytes: &mut Vec<u8>, more: &[u8]) -> Result<(), Broken> {
    if bytes.len() + more.len() > MESSAGE_PREFIX_BYTES + DATAGRAM_BYTES_MAX {
        return Err(TOO_LONG);
    }
    bytes.extend_from_slice(more);
    Ok(())
}

/// The message of a stream that has ended.
pub(super) fn message(bytes: &[u8]) -> Result<&[u8], Broken> {
    let (prefix, message) = bytes.split_first_chunk().ok_or(TOO_SHORT)?;
    let len = usize::from(u16::from_be_bytes(*prefix));
    if message.len() < len {
        return Err(TOO_SHORT);
    }
    if message.len() > len {
        return Err(TOO_LONG);
    }
    // RFC 9250 4.2.1: the ID is zero.
    if message.get(..2).is_some_and(|id| id != [0, 0]) {
        return Err("the message ID is not zero");
    }
    let edns = match parse_request(message) {
        Parsed::Request(request) => request.edns,
        // A message with another error may have the option too.
        Parsed::Reject(reject) => reject.edns,
        Parsed::Drop(_) => None,
    };
    // RFC 9250 5.5.2: QUIC has its own idle timeout.
    if edns.is_some_and(|edns| edns.keepalive()) {
        return Err("edns-tcp-keepalive on QUIC");
    }
    Ok(message)
}

/// Appends a response after its length.
pub(super) fn frame(response: &[u8], out: &mut Vec<u8>) {
    let len = u16::try_from(response.len()).expect("a response is at most 65,535 bytes");
    out.reserve_exact(MESSAGE_PREFIX_BYTES + response.len());
    out.extend(len.to_be_bytes());
    out.extend(response);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::builder::MessageBuilder;
    use wire::number::Rtype;

    #[test]
    fn each_rule_of_a_stream_is_checked() {
        let name: wire::Name = "example.test.".parse().unwrap();
        let query = |id| MessageBuilder::query(id, name.as_ref(), Rtype::A).build();
        let mut framed = Vec::new();
        frame(&query(0), &mut framed);
        assert_eq!(message(&framed), Ok(&query(0)[..]));
        let short = &framed[..framed.len() - 1];
        for bytes in [&[][..], &[0], short] {
            assert_eq!(message(bytes), Err("the stream ended before the message"));
        }
        assert_eq!(message(&[&framed[..], &[0]].concat()), Err("more than one message on a stream"));
        assert_eq!(message(&framed.repeat(2)), Err("more than one message on a stream"));
        let mut other = Vec::new();
        frame(&query(1), &mut other);
        assert_eq!(message(&other), Err("the message ID is not zero"));
        // edns-tcp-keepalive, also in messages with another error that gets a response.
        let kept = || MessageBuilder::query(0, name.as_ref(), Rtype::A).edns(1_232, false).option(11, &[]);
        let of_opcode = |number| kept().header(|header| header.opcode = wire::number::Opcode(number));
        for wrong in [kept(), kept().edns_version(1), of_opcode(2), of_opcode(5)] {
            let (wrong, mut framed) = (wrong.build(), Vec::new());
            frame(&wrong, &mut framed);
            assert_eq!(message(&framed), Err("edns-tcp-keepalive on QUIC"), "{wrong:?}");
        }
        // The responder handles malformed messages.
        assert_eq!(message(&[0, 0]), Ok(&[][..]));
    }

    // Short versions of the fuzz target `doq_stream`.
    proptest! {
        #[test]
        fn any_stream_is_read_whole(bytes in prop::collection::vec(any::<u8>(), 0..600), piece in 1usize..70) {
            let mut read = Vec::new();
            for chunk in bytes.chunks(piece) {
                extend(&mut read, chunk).unwrap();
            }
            prop_assert_eq!(&read, &bytes);
            if let Ok(message) = message(&bytes) {
                let mut framed = Vec::new();
                frame(message, &mut framed);
                prop_assert_eq!(framed, bytes);
            }
        }

        #[test]
        fn framed_messages_are_read(mut bytes in prop::collection::vec(any::<u8>(), 2..600), more in 0usize..3) {
            bytes[..2].fill(0);
            let mut framed = Vec::new();
            frame(&bytes, &mut framed);
            match message(&framed) {
                Ok(message) => prop_assert_eq!(message, &bytes[..]),
                Err(rule) => prop_assert_eq!(rule, "edns-tcp-keepalive on QUIC"),
            }
            framed.resize(framed.len() + more, 0);
            prop_assert!(more == 0 || message(&framed) == Err(TOO_LONG));
        }
    }

    #[test]
    fn no_more_is_read_than_the_longest_message() {
        let mut bytes = Vec::new();
        extend(&mut bytes, &vec![0; 65_537]).unwrap();
        assert_eq!(extend(&mut bytes, &[0]), Err(TOO_LONG));
        assert_eq!(bytes.len(), 65_537);
    }
}
