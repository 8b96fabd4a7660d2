//! Finds the end of a message, because some senders append bytes after the last record.

use crate::limits::HEADER_BYTES;
use wire::NameBuf;
use wire::parse::{Header, Message, ParseError};

/// Parses the message at the start of the bytes. Also returns the bytes after it. `None` if there is no valid message.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    match Message::parse(bytes) {
        Ok(message) => Some((message, &[])),
        Err(ParseError::LeftOver) => {
            let (message, rest) = bytes.split_at_checked(end(bytes)?)?;
            Some((Message::parse(message).ok()?, rest))
        }
        Err(_) => None,
    }
}

/// The position after the last record that the header counts (RFC 1035 4.1).
fn end(bytes: &[u8]) -> Option<usize> {
    let header = Header::parse(bytes)?;
    let mut at = HEADER_BYTES;
    for _ in 0..header.counts[0] {
        at = NameBuf::read(bytes, at).ok()?.1 + 4;
    }
    for _ in 0..header.counts[1..].iter().map(|&count| u32::from(count)).sum() {
        let fixed = NameBuf::read(bytes, at).ok()?.1;
        let length = bytes.get(fixed + 8..)?.first_chunk::<2>()?;
        at = fixed + 10 + usize::from(u16::from_be_bytes(*length));
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{MessageBuilder, Name, Rtype};

    #[test]
    fn bytes_after_the_last_record_are_separate() {
        let name: Name = "www.example.".parse().unwrap();
        let plain = MessageBuilder::query(1, name.as_ref(), Rtype::AXFR).build();
        let more = MessageBuilder::query(1, name.as_ref(), Rtype::A).option(10, &[7; 8]).build();
        for message in [plain, more, vec![0; 12]] {
            for rest in [&b""[..], b"MS", &[0; 100]] {
                let bytes = [&message[..], rest].concat();
                let (parsed, found) = parse(&bytes).unwrap();
                assert_eq!((parsed.as_bytes(), found), (&message[..], rest));
            }
            if message.len() > 12 {
                assert!(parse(&message[..message.len() - 1]).is_none());
            }
        }
    }
}
