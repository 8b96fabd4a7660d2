//! One query, from the start of its stream to the end of its response (RFC 9250 4.2).

use super::super::handler::{ConnectionUsage, ExchangeUsage, OutOfMemory, Panicked, TransportHandler};
use super::super::work_limiter::WorkLimiter;
use super::super::{Action, DeferredResponse, Reply, Responder};
use super::code;
use super::stream::{extend, frame, message};
use crate::limits::TRANSFER_QUEUE_MAX;
use quinn::{RecvStream, SendStream};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tokio::sync::mpsc;

/// Responses that may wait for one stream: the parts of a transfer, and its end.
const WAITING_MAX: usize = TRANSFER_QUEUE_MAX + 2;
/// Memory estimate of a waiting query without its message: state, task, and the stream in QUIC.
const QUIC_EXCHANGE_BYTES: usize = 3 << 10;
/// Memory estimate of an incomplete query, in addition. QUIC may buffer a window of data behind a gap.
const QUIC_GAPS_BYTES: usize = 64 << 10;

/// How an exchange ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchange {
    /// A response was sent, or the client cancelled the query (RFC 9250 4.3.1).
    Done,
    /// The client did not send or read in time.
    Slow,
    /// The client broke this rule, which closes the whole connection (RFC 9250 4.3.3).
    Broken(&'static str),
    /// The memory of all connections is used up.
    OutOfMemory,
    /// A bug of the server.
    Lost,
}

/// An exchange that has ended, with its stream. Dropping the stream finishes it, as after a whole response. If the
/// client broke a rule, the connection is closed first, so that the client sees the error and not an empty response.
pub(super) struct Ended {
    pub(super) how: Exchange,
    pub(super) stream: SendStream,
    /// Bytes of a whole response, which QUIC keeps until they are acknowledged. 0 without a response: then the stream
    /// is dropped at once.
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

/// The stream of the response, the bytes sent so far, and whether the response is complete.
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
        // RFC 9250 4.2: the client must end the stream after its query. A whole query without that end is an error
        // (4.3.3), not a slow client.
        Err(_) if message(&bytes).is_ok() => return Exchange::Broken("the stream goes on after the query"),
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
        Ok(Action::Silent) => Exchange::Broken("this is not a DNS query"),
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
            // Most queries arrive whole. For the others, QUIC may hold bytes after a gap.
            Poll::Pending => {
                hold(bytes.len() + QUIC_GAPS_BYTES)?;
                next.await
            }
        };
        match chunk {
            Ok(Some(chunk)) => extend(bytes, &chunk.bytes).map_err(Exchange::Broken)?,
            Ok(None) => return hold(bytes.len()),
            // The client cancelled the query, or is gone.
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
        // It fails if the client is gone.
        out.is_finished = out.send.finish().is_ok();
    }
    ended
}

/// Sends a deferred response, or the messages of a transfer.
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
            // An error means that the client cancelled the query, or is gone.
            let Ok(count) = out.send.write(rest).await else { return };
            rest = &rest[count..];
            out.bytes += count;
            usage.record_sent(count);
        }
    };
    usage.while_progressing(handler.limits.idle, written).await.map_or(Exchange::Slow, |()| Exchange::Done)
}
