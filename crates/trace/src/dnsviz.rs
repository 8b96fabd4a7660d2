//! Output of DNSViz: JSON with the responses of every server of a zone, in base64.
//!
//! Only responses are read: for several attempts, the file does not say which query was answered. It has one time per
//! zone, which is ignored.

use crate::error::TraceError;
use crate::limits::JSON_BYTES_MAX;
use crate::message::{Message, Transport, has_header};
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, UnreadReason};
use data_encoding::BASE64;
use serde_json::Value;
use std::io::{BufRead, Read};
use std::net::{IpAddr, SocketAddr};

const FORMAT: &str = "dnsviz";
/// The key under which DNSViz stores its version.
const ABOUT: &str = "_meta._dnsviz.";

/// Error for other JSON.
const EXPECTED: &str = "neither what DNSViz writes (zones, each with its `queries`) nor Zeek's dns.log \
    (an object a line, with ts, id.orig_h, trans_id and query)";

/// Reads the whole file, because the order of JSON values is not fixed.
pub(crate) struct DnsvizReader(Option<Value>);

impl DnsvizReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Result<Self, TraceError> {
        let format_error = |at, what| TraceError::Format { format: FORMAT, at, what };
        let read: Value = serde_json::from_reader(bytes.take(JSON_BYTES_MAX)).map_err(|error| {
            let reason = if error.is_syntax() { format!("{error}; {EXPECTED}") } else { error.to_string() };
            format_error(error.line() as u64, reason)
        })?;
        let is_zone = |(name, zone): (&String, &Value)| name == ABOUT || zone["queries"].is_array();
        if !read.as_object().is_some_and(|zones| zones.iter().any(is_zone)) {
            return Err(format_error(1, EXPECTED.into()));
        }
        Ok(Self(Some(read)))
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> bool {
        let Some(read) = self.0.take() else { return false };
        for zone in read.as_object().into_iter().flat_map(|zones| zones.values()) {
            for query in zone["queries"].as_array().into_iter().flatten() {
                read_query(query, queue, tally);
            }
        }
        true
    }
}

/// The responses to one query, by server and client address.
fn read_query(query: &Value, queue: &mut MessageQueue, tally: &mut Tally) {
    let is_tcp = query["options"]["tcp"].as_bool().unwrap_or_default();
    let transport = if is_tcp { Transport::Tcp } else { Transport::Udp };
    for (server, by_client) in query["responses"].as_object().into_iter().flatten() {
        for (client, response) in by_client.as_object().into_iter().flatten() {
            tally.records += 1;
            // There was no answer.
            if response["message"].is_null() {
                tally.count(UnreadReason::NoMessage);
                continue;
            }
            let socket_address = |address: &str, port| {
                let address: IpAddr = address.parse().map_err(|_| UnreadReason::LineMalformed)?;
                Ok(SocketAddr::new(address, port))
            };
            let bytes = response["message"].as_str().and_then(|text| BASE64.decode(text.as_bytes()).ok());
            let parts =
                (socket_address(server, 53), socket_address(client, 0), bytes.ok_or(UnreadReason::LineMalformed));
            match parts {
                (Ok(source), Ok(destination), Ok(bytes)) if has_header(&bytes) => {
                    queue.push(Message { at_ns: 0, source, destination, transport, bytes: &bytes });
                    tally.messages += 1;
                }
                (Ok(_), Ok(_), Ok(_)) => tally.count(UnreadReason::TooShort),
                (Err(unread), ..) | (_, Err(unread), _) | (.., Err(unread)) => tally.count(unread),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_messages_and_timeouts_are_counted() {
        let text = r#"{".": {"type": "authoritative", "queries": [{"qname": ".", "options": {"tcp": true},
            "responses": {"192.0.2.53": {"192.0.2.1": {"message": "AAGEAAAAAAAAAAAA"}},
            "2001:db8::53": {"2001:db8::1": {"message": null, "error": "TIMEOUT"}}}}]},
            "_meta._dnsviz.": {"version": 1.2}}"#;
        let mut reader = DnsvizReader::new(Box::new(text.as_bytes())).unwrap();
        let (mut queue, mut tally) = (MessageQueue::default(), Tally::default());
        assert!(reader.advance(&mut queue, &mut tally) && !reader.advance(&mut queue, &mut tally));
        let message = queue.pop().unwrap();
        assert_eq!((message.source, message.transport), ("192.0.2.53:53".parse().unwrap(), Transport::Tcp));
        assert!(message.is_response());
        assert_eq!((tally.records, tally.messages, tally.unread(UnreadReason::NoMessage)), (2, 1, 1));
        let Err(error) = DnsvizReader::new(Box::new(&b"{\"a\": "[..])) else { panic!("it is broken") };
        assert!(error.to_string().starts_with("dnsviz: at 1: EOF"), "{error}");
    }
}
