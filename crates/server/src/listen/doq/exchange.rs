//! One query, from the start of its stream to the end of its response (RFC 9250 4.2).

use super::super::desk::{Desk, Held, Holding, OutOfMemory, Panicked};
use super::super::{Action, Late, Reply, Responder};
use super::code;
use crate::limits::{DATAGRAM_OCTETS_MAX, MESSAGE_PREFIX_OCTETS, TRANSFER_QUEUE_MAX};
use quinn::{RecvStream, SendStream};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::sync::mpsc;
use wire::parse::{Parsed, parse_request};

/// Responses that may wait for one stream: the parts of a transfer, and its end.
const WAITING_MAX: usize = TRANSFER_QUEUE_MAX + 2;

/// How an exchange ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchange {
    /// With a response, or because the client wants none any more (RFC 9250 4.3.1).
    Done,
    /// The client did not send or take in time.
    Slow,
    /// The client broke this rule: an error of the whole connection (RFC 9250 4.3.3).
    Broken(&'static str),
    /// All connections together hold as much as they may.
    OutOfMemory,
    /// A bug of ours.
    Lost,
}

/// Answers the query of one stream.
pub(super) async fn exchange<R: Responder>(
    desk: Rc<Desk<R>>,
    held: Rc<Held>,
    peer: SocketAddr,
    mut send: SendStream,
    mut receive: RecvStream,
) -> Exchange {
    let mut holding = held.holding();
    let octets = match tokio::time::timeout(desk.limits.idle, read(&mut receive, &mut holding)).await {
        Ok(Ok(octets)) => octets,
        Ok(Err(ended)) => return ended,
        Err(_) => return Exchange::Slow,
    };
    let message = match message(&octets) {
        Ok(message) => message,
        Err(rule) => return Exchange::Broken(rule),
    };
    let (mut receiver, mut framed) = (None, Vec::new());
    let reply = || {
        let (connection, theirs) = mpsc::channel(WAITING_MAX);
        receiver = Some(theirs);
        Reply::Stream { peer, transport: desk.transport, transfers: true, connection }
    };
    match desk.respond(message, peer, reply, |response| frame(response, &mut framed)) {
        Ok(Action::Respond(_)) => respond(&desk, &mut send, framed, &mut holding).await,
        Ok(Action::Silent) => Exchange::Broken("this is no DNS query"),
        Ok(Action::Defer) => match receiver {
            Some(receiver) => late(&desk, &mut send, receiver, &mut holding).await,
            None => Exchange::Lost,
        },
        Err(Panicked) => Exchange::Lost,
    }
}

/// Reads a stream to its end.
async fn read(receive: &mut RecvStream, holding: &mut Holding<'_>) -> Result<Vec<u8>, Exchange> {
    let mut octets = Vec::new();
    loop {
        match receive.read_chunk(usize::MAX, true).await {
            Ok(Some(chunk)) if octets.len() + chunk.bytes.len() > MESSAGE_PREFIX_OCTETS + DATAGRAM_OCTETS_MAX => {
                return Err(Exchange::Broken("more than one message on a stream"));
            }
            Ok(Some(chunk)) => octets.extend_from_slice(&chunk.bytes),
            Ok(None) => return Ok(octets),
            // The client took it back, or is gone.
            Err(_) => return Err(Exchange::Done),
        }
        holding.set(octets.len()).map_err(|OutOfMemory| Exchange::OutOfMemory)?;
    }
}

/// The message of a stream, or the rule that is broken.
fn message(octets: &[u8]) -> Result<&[u8], &'static str> {
    let (prefix, message) = octets.split_first_chunk().ok_or("the stream ended before the message")?;
    let len = usize::from(u16::from_be_bytes(*prefix));
    if message.len() < len {
        return Err("the stream ended before the message");
    }
    if message.len() > len {
        return Err("more than one message on a stream");
    }
    // RFC 9250 4.2.1: the ID is zero.
    if message.get(..2).is_some_and(|id| id != [0, 0]) {
        return Err("the message ID is not zero");
    }
    // RFC 9250 5.5.2: QUIC has its own idle time.
    match parse_request(message) {
        Parsed::Request(request) if request.edns.is_some_and(|edns| edns.keepalive()) => {
            Err("edns-tcp-keepalive on QUIC")
        }
        _ => Ok(message),
    }
}

fn frame(response: &[u8], out: &mut Vec<u8>) {
    let len = u16::try_from(response.len()).expect("no response is longer than a message may be");
    out.reserve_exact(MESSAGE_PREFIX_OCTETS + response.len());
    out.extend(len.to_be_bytes());
    out.extend(response);
}

/// Sends the only response.
async fn respond<R>(desk: &Desk<R>, send: &mut SendStream, framed: Vec<u8>, holding: &mut Holding<'_>) -> Exchange {
    let ended = write(desk, send, framed, holding).await;
    if ended == Exchange::Done {
        // It fails when the client is gone.
        let _finished = send.finish();
    }
    ended
}

/// Sends what comes later: one response, or the parts of a transfer.
async fn late<R>(
    desk: &Desk<R>,
    send: &mut SendStream,
    mut receiver: mpsc::Receiver<Late>,
    holding: &mut Holding<'_>,
) -> Exchange {
    let gone = send.stopped();
    tokio::pin!(gone);
    loop {
        let late = tokio::select! {
            late = receiver.recv() => late,
            // The client wants no response, or is gone.
            _ = &mut gone => return Exchange::Done,
        };
        let (message, is_last) = match &late {
            Some(Late::Message(message)) => (message, true),
            Some(Late::Part(message, _share)) => (message, false),
            Some(Late::Close) | None => {
                let _reset = send.reset(code::INTERNAL_ERROR);
                return Exchange::Done;
            }
        };
        let mut framed = Vec::new();
        frame(message, &mut framed);
        if is_last {
            return respond(desk, send, framed, holding).await;
        }
        let ended = write(desk, send, framed, holding).await;
        if ended != Exchange::Done {
            return ended;
        }
    }
}

async fn write<R>(desk: &Desk<R>, send: &mut SendStream, framed: Vec<u8>, holding: &mut Holding<'_>) -> Exchange {
    if holding.set(framed.len()).is_err() {
        return Exchange::OutOfMemory;
    }
    match tokio::time::timeout(desk.limits.idle, send.write_all(&framed)).await {
        // Or the client wants no more of it, or is gone.
        Ok(Ok(()) | Err(_)) => Exchange::Done,
        Err(_) => Exchange::Slow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::builder::MessageBuilder;
    use wire::number::Rtype;

    #[test]
    fn each_rule_of_a_stream_is_looked_at() {
        let name: wire::Name = "example.test.".parse().unwrap();
        let query = |id| MessageBuilder::query(id, name.as_ref(), Rtype::A).build();
        let mut framed = Vec::new();
        frame(&query(0), &mut framed);
        assert_eq!(message(&framed), Ok(&query(0)[..]));
        let short = &framed[..framed.len() - 1];
        for octets in [&[][..], &[0], short] {
            assert_eq!(message(octets), Err("the stream ended before the message"));
        }
        assert_eq!(message(&[&framed[..], &[0]].concat()), Err("more than one message on a stream"));
        assert_eq!(message(&framed.repeat(2)), Err("more than one message on a stream"));
        let mut other = Vec::new();
        frame(&query(1), &mut other);
        assert_eq!(message(&other), Err("the message ID is not zero"));
        // What is no message is the responder's business.
        assert_eq!(message(&[0, 0]), Ok(&[][..]));
    }
}
