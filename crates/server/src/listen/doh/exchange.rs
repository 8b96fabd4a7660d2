//! One request, from its headers to the end of its response.

use super::super::handler::{ConnectionUsage, ExchangeUsage, OutOfMemory, Panicked, TransportHandler};
use super::super::work_limiter::WorkLimiter;
use super::super::{Action, DeferredResponse, Reply, Responder};
use super::max_age;
use super::request::{BadRequest, MEDIA_TYPE, Source, source};
use super::write_monitor::WriteMonitor;
use crate::limits::DATAGRAM_BYTES_MAX;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tokio::sync::mpsc;
use wire::number::Opcode;
use wire::parse::Header;

/// Memory estimate of a waiting request without its message: state, task, and the stream in h2.
pub(super) const HTTP_EXCHANGE_BYTES: usize = 3 << 10;

/// How an exchange ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchange {
    /// A response was sent, or the stream was reset because there is none.
    Done,
    /// The client reset the request before its response was sent.
    Reset,
    /// The client read nothing for too long, or did not send its body.
    Slow,
    /// The memory of all connections is used up.
    OutOfMemory,
}

impl From<OutOfMemory> for Exchange {
    fn from(OutOfMemory: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// Why a body was not read, or a response not sent.
enum ExchangeError {
    /// The body cannot be a message.
    BadRequest(BadRequest),
    /// The exchange is over.
    Over(Exchange),
}

impl From<h2::Error> for ExchangeError {
    fn from(_: h2::Error) -> Self {
        Self::Over(Exchange::Reset)
    }
}

impl From<OutOfMemory> for ExchangeError {
    fn from(error: OutOfMemory) -> Self {
        Self::Over(error.into())
    }
}

/// The outcome of a message.
enum Outcome {
    Response(Vec<u8>),
    /// The response is deferred.
    Deferred(mpsc::Receiver<DeferredResponse>),
    BadRequest(BadRequest),
    /// Nothing more can be sent.
    Lost,
}

/// A request without its headers. In memory these may take many times their size on the wire, so they are dropped
/// before any wait.
pub(super) struct PendingRequest {
    source: Result<Source, BadRequest>,
    is_head: bool,
    body: RecvStream,
}

impl PendingRequest {
    pub(super) fn new(request: Request<RecvStream>) -> Self {
        let (source, is_head) = (source(&request), request.method() == Method::HEAD);
        Self { source, is_head, body: request.into_body() }
    }
}

/// Answers one request.
pub(super) async fn exchange<R: Responder>(
    handler: Rc<TransportHandler<R>>,
    usage: Rc<ConnectionUsage>,
    monitor: Rc<WriteMonitor>,
    limiter: Rc<WorkLimiter>,
    peer: SocketAddr,
    pending: PendingRequest,
    mut respond: SendResponse<Bytes>,
) -> Exchange {
    let PendingRequest { source, is_head, body } = pending;
    let target_bytes = if let Ok(Source::Target(message)) = &source { message.len() } else { 0 };
    let Ok(mut exchange_usage) = usage.exchange(HTTP_EXCHANGE_BYTES + target_bytes) else {
        return Exchange::OutOfMemory;
    };
    // The body is read first, even if the headers are wrong. A request whose body is malformed gets no response
    // (RFC 9113 8.1.1), and no client is interrupted while it sends.
    let body = match body.is_end_stream() {
        true => Ok(Vec::new()),
        false => match tokio::time::timeout(handler.limits.idle, read(body, &mut exchange_usage)).await {
            Ok(Err(ExchangeError::Over(ended))) => return ended,
            Ok(Err(ExchangeError::BadRequest(bad))) => Err(bad),
            Ok(Ok(body)) => Ok(body),
            Err(_) => Err(BadRequest::TOO_SLOW),
        },
    };
    let mut permit = pin!(limiter.acquire());
    let is_wanted = poll_fn(|context| {
        if monitor.poll_room(context).is_ready() && permit.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        // The client may cancel the request while it waits.
        respond.poll_reset(context).map(|_| false)
    });
    if !is_wanted.await {
        return Exchange::Reset;
    }
    let outcome = limiter.run(|| match (source, body) {
        (Ok(Source::Target(message)), Ok(_)) => match Header::parse(&message) {
            Some(header) if header.opcode != Opcode::QUERY => Outcome::BadRequest(BadRequest::CHANGE_BY_GET),
            _ => answer(&handler, peer, &message),
        },
        (Ok(Source::Body), Ok(message)) => answer(&handler, peer, &message),
        (Err(bad), _) | (Ok(_), Err(bad)) => Outcome::BadRequest(bad),
    });
    let mut ended = Exchange::Done;
    let (response, body) = match outcome {
        Outcome::Response(message) => answered(message),
        Outcome::Deferred(receiver) => match late(receiver, &mut respond).await {
            Ok(message) => answered(message),
            Err(ended) => return ended,
        },
        Outcome::BadRequest(bad) => {
            handler.connections.bad_requests.one_shared();
            if bad == BadRequest::TOO_SLOW {
                // Otherwise a client could keep a connection full of unfinished requests forever.
                ended = Exchange::Slow;
            }
            refused(bad, is_head)
        }
        Outcome::Lost => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            return Exchange::Done;
        }
    };
    let sending = send(&mut respond, response, body, &mut exchange_usage, &monitor);
    match usage.while_progressing(handler.limits.idle, sending).await {
        Some(Ok(())) => ended,
        Some(Err(ExchangeError::Over(ended))) => ended,
        Some(Err(ExchangeError::BadRequest(_))) => Exchange::Done,
        None => {
            respond.send_reset(Reason::CANCEL);
            Exchange::Slow
        }
    }
}

fn answer<R: Responder>(handler: &TransportHandler<R>, peer: SocketAddr, message: &[u8]) -> Outcome {
    let (mut receiver, mut response) = (None, Vec::new());
    let reply = || {
        let (connection, theirs) = mpsc::channel(1);
        receiver = Some(theirs);
        // A response is exactly one message, so zone transfers are not possible (RFC 8484 4.2.1).
        Reply::Stream { peer, transport: handler.transport, transfers: false, connection }
    };
    match handler.respond(message, peer, reply, |bytes| response.extend_from_slice(bytes)) {
        Ok(Action::Respond(_)) => Outcome::Response(response),
        Ok(Action::Silent) => Outcome::BadRequest(BadRequest::NO_QUERY),
        Ok(Action::Defer) => receiver.map_or(Outcome::Lost, Outcome::Deferred),
        Err(Panicked) => Outcome::Lost,
    }
}

/// Reads a body.
async fn read(mut body: RecvStream, exchange_usage: &mut ExchangeUsage<'_>) -> Result<Vec<u8>, ExchangeError> {
    let mut bytes = Vec::new();
    while let Some(data) = poll_fn(|context| body.poll_data(context)).await {
        let data = data?;
        if bytes.len() + data.len() > DATAGRAM_BYTES_MAX {
            return Err(ExchangeError::BadRequest(BadRequest::TOO_LARGE));
        }
        bytes.extend_from_slice(&data);
        exchange_usage.set(bytes.len())?;
        body.flow_control().release_capacity(data.len())?;
    }
    Ok(bytes)
}

/// Waits for a deferred response, or until the client cancels its request.
async fn late(
    mut receiver: mpsc::Receiver<DeferredResponse>,
    respond: &mut SendResponse<Bytes>,
) -> Result<Vec<u8>, Exchange> {
    let late = poll_fn(|context| {
        if respond.poll_reset(context).is_ready() {
            return Poll::Ready(Err(Exchange::Reset));
        }
        receiver.poll_recv(context).map(Ok)
    });
    match late.await? {
        Some(DeferredResponse::Message(message) | DeferredResponse::Part(message, _)) => Ok(message),
        Some(DeferredResponse::Close) | None => {
            // Whether the update was applied is unknown, and no HTTP status says that.
            respond.send_reset(Reason::INTERNAL_ERROR);
            Err(Exchange::Done)
        }
    }
}

/// A response with a DNS message.
fn answered(message: Vec<u8>) -> (Response<()>, Option<Bytes>) {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(message.len()));
    let value = format!("max-age={}", max_age::seconds(&message));
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(header::CACHE_CONTROL, value);
    }
    (response, Some(message.into()))
}

/// A response without a DNS message: a status and a sentence.
fn refused(bad: BadRequest, is_head: bool) -> (Response<()>, Option<Bytes>) {
    let mut response = Response::new(());
    *response.status_mut() = bad.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bad.why.len()));
    if bad.status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
    }
    // RFC 9110 9.3.2: the answer to HEAD has no body.
    (response, (!is_head).then_some(Bytes::from_static(bad.why.as_bytes())))
}

/// Sends a response as fast as the client's window allows. HTTP/2 gets only what it can send at once.
async fn send(
    respond: &mut SendResponse<Bytes>,
    response: Response<()>,
    body: Option<Bytes>,
    exchange_usage: &mut ExchangeUsage<'_>,
    monitor: &WriteMonitor,
) -> Result<(), ExchangeError> {
    let mut stream = respond.send_response(response, body.is_none())?;
    let Some(mut rest) = body else { return Ok(()) };
    let (mut unsent, whole) = (monitor.unsent(), rest.len());
    // `rest` keeps the whole buffer alive until its last chunk is sent, so all of it counts until then.
    exchange_usage.set(whole)?;
    unsent.set(whole);
    loop {
        stream.reserve_capacity(rest.len());
        let chunk = rest.split_to(granted(&mut stream, rest.len()).await?);
        let is_last = rest.is_empty();
        // A slice would keep the whole buffer alive inside HTTP/2, so a partial chunk is copied.
        let chunk = if chunk.len() == whole { chunk } else { Bytes::copy_from_slice(&chunk) };
        exchange_usage.set(if is_last { 0 } else { whole })?;
        unsent.set(rest.len());
        monitor.add(chunk.len())?;
        stream.send_data(chunk, is_last)?;
        if is_last {
            return Ok(());
        }
    }
}

/// Waits until bytes may be sent; returns how many, at most `wanted`.
async fn granted(stream: &mut SendStream<Bytes>, wanted: usize) -> Result<usize, h2::Error> {
    poll_fn(|context| {
        if stream.capacity() > 0 || wanted == 0 {
            return Poll::Ready(Ok(stream.capacity().min(wanted)));
        }
        match stream.poll_capacity(context) {
            Poll::Ready(Some(Ok(count))) if count > 0 => Poll::Ready(Ok(count.min(wanted))),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error)),
            Poll::Ready(None) => Poll::Ready(Err(Reason::STREAM_CLOSED.into())),
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {
                // The client may cancel the request while it waits.
                stream.poll_reset(context).map(|reason| Err(reason.map_or_else(|error| error, Into::into)))
            }
        }
    })
    .await
}
