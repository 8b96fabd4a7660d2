//! The binary query file that dnsperf -B, kxdpgun -B and dnsgen share: each message after two octets of its length, as
//! in a TCP stream (RFC 1035 4.2.2).

use super::{Messages, WorkloadError};
use crate::limits::QUERY_OCTETS_MAX;
use std::path::Path;

/// Octets of a message header (RFC 1035 4.1.1).
const HEADER_OCTETS: usize = 12;

/// Whether this is a chain of messages to its last octet. Text never is: its first two letters, taken as a length, lead
/// past a header whose counts are letters too.
pub(super) fn looks_like(octets: &[u8]) -> bool {
    let mut rest = octets;
    let mut count = 0;
    while let Some((message, after)) = split(rest) {
        // One question, as queries and updates have.
        if message.len() < HEADER_OCTETS || message[4..6] != [0, 1] {
            return false;
        }
        count += 1;
        rest = after;
    }
    rest.is_empty() && count > 0
}

/// Every message, its ID set to zero.
pub(super) fn read(path: &Path, octets: &[u8]) -> Result<Messages, WorkloadError> {
    let mut messages = Messages::default();
    let mut rest = octets;
    while let Some((message, after)) = split(rest) {
        if message.len() > QUERY_OCTETS_MAX {
            return Err(WorkloadError::Message {
                file: path.to_owned(),
                offset: octets.len() - rest.len(),
                reason: format!("{} octets are more than the {QUERY_OCTETS_MAX} of a query", message.len()),
            });
        }
        let mut message = message.to_vec();
        message[..2].fill(0);
        messages.push(&message);
        rest = after;
    }
    Ok(messages)
}

fn split(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = octets.split_at_checked(2)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_messages_is_read_and_text_is_not() {
        let query = [9, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
        let mut octets = vec![0, 17];
        octets.extend(query);
        octets.extend_from_slice(&octets.clone());
        assert!(looks_like(&octets));
        let messages = read(Path::new("x"), &octets).unwrap();
        assert_eq!((messages.len(), &messages.at(1)[..4]), (2, &[0, 0, 1, 0][..]));
        assert!(!looks_like(b"example.com A\nwww.example.com AAAA\n"));
        assert!(!looks_like(&octets[..octets.len() - 1]));
        assert!(!looks_like(b""));
    }
}
