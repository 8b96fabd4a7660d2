//! One query, from the start of its stream to the end of its response (RFC 9250 4.2).

use super::super::handler::{ConnectionUsage, ExchangeUsage, OutOfMemory, Panicked, TransportHandler};
use super::super::work_limiter::WorkLimiter;
use super::super::{Action, DeferredResponse, Reply, Responder};
use super::code;
use super::stream::{extend, frame, message};
use crate::limits::{QUIC_EXCHANGE_BYTES, QUIC_GAPS_BYTES, TRANSFER_QUEUE_MAX};
use quinn::{RecvStream, SendStream};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tokio::sync::mpsc;

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

/// An exchange that has ended, with its stream: one that is dropped ends as if a whole response had been sent, and a
/// client that broke a rule is to hear of that and not of an empty response. So it is dropped once the connection is
/// closed, if that is what follows.
pub(super) struct Ended {
    pub(super) how: Exchange,
    pub(super) stream: SendStream,
    /// Bytes of a whole response, which QUIC keeps until they are acknowledged. Where there is none the stream is to
    /// be dropped: that is what ends it.
    pub(super) unacknowledged_bytes: usize,
}

/// Answers the query of one stream.
pub(super) async fn exchange<R: Responder>(
    handler: Rc<TransportHandler<R>>,
    usage: Rc<ConnectionUsage>,
    limiter: Rc<WorkLimiter>,
    peer: SocketAddr,
    send: SendStream,
    receive: RecvStream,
) -> Ended {
    let mut out = Out { send, bytes: 0, is_finished: false };
    let how = answer(&handler, &usage, &limiter, peer, &mut out, receive).await;
    Ended { how, stream: out.send, unacknowledged_bytes: if out.is_finished { out.bytes } else { 0 } }
}

/// Where the response goes, how much of it went, and whether that is all.
struct Out {
    send: SendStream,
    bytes: usize,
    is_finished: bool,
}

async fn answer<R: Responder>(
    handler: &TransportHandler<R>,
    usage: &ConnectionUsage,
    limiter: &WorkLimiter,
    peer: SocketAddr,
    out: &mut Out,
    mut receive: RecvStream,
) -> Exchange {
    let Ok(mut exchange_usage) = usage.exchange(QUIC_EXCHANGE_BYTES) else { return Exchange::OutOfMemory };
    let mut bytes = Vec::new();
    match tokio::time::timeout(handler.limits.idle, read(&mut receive, &mut bytes, &mut exchange_usage)).await {
        Ok(Ok(())) => {}
        Ok(Err(ended)) => return ended,
        // RFC 9250 4.2: the end of the stream says that nothing more comes. One that has a whole query and no end is
        // no slow client, but one that breaks a rule (4.3.3).
        Err(_) if message(&bytes).is_ok() => return Exchange::Broken("the stream goes on behind the query"),
        Err(_) => return Exchange::Slow,
    }
    let message = match message(&bytes) {
        Ok(message) => message,
        Err(rule) => return Exchange::Broken(rule),
    };
    let (mut receiver, mut framed) = (None, Vec::new());
    let reply = || {
        let (connection, theirs) = mpsc::channel(WAITING_MAX);
        receiver = Some(theirs);
        Reply::Stream { peer, transport: handler.transport, transfers: true, connection }
    };
    limiter.acquire().await;
    let action = limiter.run(|| handler.respond(message, peer, reply, |response| frame(response, &mut framed)));
    match action {
        Ok(Action::Respond(_)) => respond(handler, out, framed, &mut exchange_usage).await,
        Ok(Action::Silent) => Exchange::Broken("this is no DNS query"),
        Ok(Action::Defer) => match receiver {
            Some(receiver) => late(handler, out, receiver, &mut exchange_usage).await,
            None => Exchange::Lost,
        },
        Err(Panicked) => Exchange::Lost,
    }
}

/// Reads a stream to its end.
async fn read(
    receive: &mut RecvStream,
    bytes: &mut Vec<u8>,
    exchange_usage: &mut ExchangeUsage<'_>,
) -> Result<(), Exchange> {
    let mut hold = |bytes| exchange_usage.set(bytes).map_err(|OutOfMemory| Exchange::OutOfMemory);
    loop {
        let mut next = pin!(receive.read_chunk(usize::MAX, true));
        let chunk = match poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await {
            Poll::Ready(chunk) => chunk,
            // Most queries come whole. Of others QUIC may keep parts that it cannot give out yet.
            Poll::Pending => {
                hold(bytes.len() + QUIC_GAPS_BYTES)?;
                next.await
            }
        };
        match chunk {
            Ok(Some(chunk)) => extend(bytes, &chunk.bytes).map_err(Exchange::Broken)?,
            Ok(None) => return hold(bytes.len()),
            // The client took it back, or is gone.
            Err(_) => return Err(Exchange::Done),
        }
        hold(bytes.len())?;
    }
}

/// Sends the only response.
async fn respond<R>(
    handler: &TransportHandler<R>,
    out: &mut Out,
    framed: Vec<u8>,
    exchange_usage: &mut ExchangeUsage<'_>,
) -> Exchange {
    let ended = write(handler, out, framed, exchange_usage).await;
    if ended == Exchange::Done {
        // It fails when the client is gone.
        out.is_finished = out.send.finish().is_ok();
    }
    ended
}

/// Sends what comes later: one response, or the parts of a transfer.
async fn late<R>(
    handler: &TransportHandler<R>,
    out: &mut Out,
    mut receiver: mpsc::Receiver<DeferredResponse>,
    exchange_usage: &mut ExchangeUsage<'_>,
) -> Exchange {
    let gone = out.send.stopped();
    tokio::pin!(gone);
    loop {
        let late = tokio::select! {
            late = receiver.recv() => late,
            // The client wants no response, or is gone.
            _ = &mut gone => return Exchange::Done,
        };
        let (message, is_last) = match &late {
            Some(DeferredResponse::Message(message)) => (message, true),
            Some(DeferredResponse::Part(message, _share)) => (message, false),
            Some(DeferredResponse::Close) | None => {
                let _reset = out.send.reset(code::INTERNAL_ERROR);
                return Exchange::Done;
            }
        };
        let mut framed = Vec::new();
        frame(message, &mut framed);
        if is_last {
            return respond(handler, out, framed, exchange_usage).await;
        }
        let ended = write(handler, out, framed, exchange_usage).await;
        if ended != Exchange::Done {
            return ended;
        }
    }
}

async fn write<R>(
    handler: &TransportHandler<R>,
    out: &mut Out,
    framed: Vec<u8>,
    exchange_usage: &mut ExchangeUsage<'_>,
) -> Exchange {
    if exchange_usage.set(framed.len()).is_err() {
        return Exchange::OutOfMemory;
    }
    let usage = exchange_usage.connection();
    let written = async {
        let mut rest = &framed[..];
        while !rest.is_empty() {
            // Or the client wants no more of it, or is gone.
            let Ok(count) = out.send.write(rest).await else { return };
            rest = &rest[count..];
            out.bytes += count;
            usage.record_sent(count);
        }
    };
    usage.while_progressing(handler.limits.idle, written).await.map_or(Exchange::Slow, |()| Exchange::Done)
}
