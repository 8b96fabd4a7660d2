//! The binary query file that dnsperf -B, kxdpgun -B and dnsgen share. Two bytes of length precede each message, as in
//! a TCP stream (RFC 1035 4.2.2).

use super::error::{Skip, WorkloadError};
use super::messages::Messages;
use super::skipped::NoQuery;
use crate::limits::QUERY_BYTES_MAX;
use std::path::Path;
use wire::limits::HEADER_BYTES;

/// Whether the whole file is a chain of messages. Text never is: its first two letters are a large length, and the
/// counts of the header would be letters too.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut count = 0;
    while let Some((message, after)) = split(rest) {
        // Queries and updates have one question.
        if message.len() < HEADER_BYTES || message[4..6] != [0, 1] {
            return false;
        }
        count += 1;
        rest = after;
    }
    rest.is_empty() && count > 0
}

/// Reads all messages, and sets their IDs to zero.
pub(super) fn read(path: &Path, bytes: &[u8], skip: Skip<'_>) -> Result<Messages, WorkloadError> {
    let reject = |offset, reason| WorkloadError::Message { file: path.to_owned(), offset, reason };
    let mut messages = Messages::default();
    let mut rest = bytes;
    while let Some((message, after)) = split(rest) {
        match check(message) {
            Ok(()) => {
                let mut message = message.to_vec();
                message[..2].fill(0);
                messages.push(&message);
            }
            Err((no_query, reason)) => skip(no_query, reject(bytes.len() - rest.len(), reason))?,
        }
        rest = after;
    }
    if rest.is_empty() {
        return Ok(messages);
    }
    let expected = rest.first_chunk().map_or(2, |&length| 2 + usize::from(u16::from_be_bytes(length)));
    let reason = format!("the file ends within a message: {} bytes of {expected}", rest.len());
    skip(NoQuery::CutShort, reject(bytes.len() - rest.len(), reason))?;
    Ok(messages)
}

/// Checks that a message has a header and one question, as queries and updates have.
fn check(message: &[u8]) -> Result<(), (NoQuery, String)> {
    if message.len() > QUERY_BYTES_MAX {
        let reason = format!("a query of {} bytes is longer than {QUERY_BYTES_MAX}", message.len());
        return Err((NoQuery::TooLong, reason));
    }
    let bad = |reason| Err((NoQuery::BadMessage, reason));
    match message.first_chunk::<HEADER_BYTES>() {
        None => bad(format!("a message of {} bytes is shorter than its header of {HEADER_BYTES}", message.len())),
        Some(&[_, _, _, _, 0, 1, ..]) => Ok(()),
        Some(header) => bad(format!("it has {} questions, not one", u16::from_be_bytes([header[4], header[5]]))),
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(2)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_messages_is_read_and_text_is_not() {
        let query = [9, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
        let mut bytes = vec![0, 17];
        bytes.extend(query);
        bytes.extend_from_slice(&bytes.clone());
        assert!(looks_like(&bytes));
        let mut strictly = |_, error| Err(error);
        let messages = read(Path::new("x"), &bytes, &mut strictly).unwrap();
        assert_eq!((messages.len(), &messages.at(1)[..4]), (2, &[0, 0, 1, 0][..]));
        assert!(!looks_like(b"example.com A\nwww.example.com AAAA\n"));
        assert!(!looks_like(&bytes[..bytes.len() - 1]));
        assert!(!looks_like(b""));
        let mut refused = |bytes: &[u8]| read(Path::new("x"), bytes, &mut strictly).unwrap_err().to_string();
        assert_eq!(refused(&bytes[..bytes.len() - 1]), "x: byte 19: the file ends within a message: 18 bytes of 19");
        assert_eq!(refused(&bytes[..20]), "x: byte 19: the file ends within a message: 1 bytes of 2");
        assert_eq!(refused(&[0, 3, 1, 2, 3]), "x: byte 0: a message of 3 bytes is shorter than its header of 12");
        bytes[7] = 2;
        assert_eq!(refused(&bytes), "x: byte 0: it has 2 questions, not one");
    }
}
