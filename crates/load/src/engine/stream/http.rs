//! DNS over HTTPS (RFC 8484): each query is an HTTP/2 request, and each answer is the body of its response.

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use sockets::Pipe;
use sockets::limits::STREAM_MESSAGE_BYTES_MAX;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The media type of messages (RFC 8484 6).
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/dns-message");
/// Flow control window of each stream and of the connection.
const WINDOW_BYTES: u32 = 1 << 20;

/// Settings of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpPlan {
    /// The path of the URL.
    pub path: String,
    /// Whether to use GET with the query in the path (RFC 8484 4.1.1) instead of POST.
    pub is_get: bool,
}

impl Default for HttpPlan {
    fn default() -> Self {
        // The common default. RFC 8484 does not define one.
        Self { path: "/dns-query".into(), is_get: false }
    }
}

/// The client of one connection.
pub(super) struct HttpClient {
    pipe: Pipe,
    connection: Pin<Box<Connection<Pipe, Bytes>>>,
    requests: SendRequest<Bytes>,
    waiting: Vec<Exchange>,
    is_closed: bool,
}

/// A request in flight.
struct Exchange {
    number: u64,
    stage: Stage,
    /// Kept until the response arrives, because dropping it would reset the stream.
    _body: SendStream<Bytes>,
}

enum Stage {
    Head(ResponseFuture),
    Body(RecvStream, Vec<u8>),
}

/// How an exchange ended.
pub(super) enum ExchangeEnd<'a> {
    /// With a DNS message.
    Message(&'a [u8]),
    /// With a status other than 200 (RFC 8484 4.2.1), or with too many bytes.
    Refused,
    /// The server reset the stream.
    Reset,
}

impl HttpClient {
    /// Starts HTTP/2. The next [`HttpClient::drain_into`] returns its first bytes.
    pub(super) fn new() -> Result<Self, String> {
        let pipe = Pipe::default();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES).enable_push(false);
        let mut handshake = Box::pin(builder.handshake::<_, Bytes>(pipe.clone()));
        match handshake.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok((requests, connection))) => {
                Ok(Self { pipe, connection: Box::pin(connection), requests, waiting: Vec::new(), is_closed: false })
            }
            Poll::Ready(Err(error)) => Err(error.to_string()),
            // This never waits for the server.
            Poll::Pending => Err("HTTP/2 does not begin".into()),
        }
    }

    /// Whether another request is allowed: the server limits concurrent streams (RFC 9113 5.1.2).
    pub(super) fn has_room(&mut self) -> bool {
        !self.is_closed
            && matches!(self.requests.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
            && self.waiting.len() < self.requests.current_max_send_streams()
    }

    /// Sends query `number` as a request.
    pub(super) fn send(&mut self, plan: &HttpPlan, authority: &str, number: u64, query: &[u8]) -> Result<(), String> {
        let request = request(plan, authority, query)?;
        let (response, mut body) =
            self.requests.send_request(request, plan.is_get).map_err(|error| error.to_string())?;
        if !plan.is_get {
            body.send_data(Bytes::copy_from_slice(query), true).map_err(|error| error.to_string())?;
        }
        self.waiting.push(Exchange { number, stage: Stage::Head(response), _body: body });
        Ok(())
    }

    /// Handles received bytes, and passes ended exchanges to `each`. Returns whether the connection continues.
    pub(super) fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(u64, ExchangeEnd<'_>)) -> bool {
        if !bytes.is_empty() {
            self.pipe.push(bytes);
        }
        let mut context = Context::from_waker(Waker::noop());
        self.is_closed |= self.connection.as_mut().poll(&mut context).is_ready();
        let mut index = 0;
        while index < self.waiting.len() {
            if self.waiting[index].advance(&mut context, each) {
                self.waiting.swap_remove(index);
            } else {
                index += 1;
            }
        }
        // Sends window updates and stream ends to the server.
        self.is_closed |= !self.is_closed && self.connection.as_mut().poll(&mut context).is_ready();
        !self.is_closed
    }

    /// Drives the connection, and moves outgoing bytes to `out`.
    pub(super) fn drain_into(&mut self, out: &mut Vec<u8>) {
        if !self.is_closed {
            let polled = self.connection.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            self.is_closed |= polled.is_ready();
        }
        self.pipe.drain_into(out);
    }
}

impl Exchange {
    /// Drives the connection. Returns whether it has ended.
    fn advance(&mut self, context: &mut Context<'_>, each: &mut dyn FnMut(u64, ExchangeEnd<'_>)) -> bool {
        if let Stage::Head(response) = &mut self.stage {
            match Pin::new(response).poll(context) {
                Poll::Pending => return false,
                Poll::Ready(Err(_)) => {
                    each(self.number, ExchangeEnd::Reset);
                    return true;
                }
                Poll::Ready(Ok(response)) if response.status() != StatusCode::OK => {
                    each(self.number, ExchangeEnd::Refused);
                    return true;
                }
                Poll::Ready(Ok(response)) => self.stage = Stage::Body(response.into_body(), Vec::new()),
            }
        }
        let Stage::Body(body, bytes) = &mut self.stage else { return false };
        loop {
            match body.poll_data(context) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(data))) => {
                    bytes.extend_from_slice(&data);
                    // The stream may have ended. Then there is no window to update.
                    let _given = body.flow_control().release_capacity(data.len());
                    if bytes.len() > STREAM_MESSAGE_BYTES_MAX {
                        each(self.number, ExchangeEnd::Refused);
                        return true;
                    }
                }
                Poll::Ready(Some(Err(_))) => {
                    each(self.number, ExchangeEnd::Reset);
                    return true;
                }
                Poll::Ready(None) => {
                    each(self.number, ExchangeEnd::Message(bytes));
                    return true;
                }
            }
        }
    }
}

/// Builds a POST request with the message as body, or a GET request with it in the path (RFC 8484 4.1).
fn request(plan: &HttpPlan, authority: &str, query: &[u8]) -> Result<Request<()>, String> {
    let path = if plan.is_get {
        let separator = if plan.path.contains('?') { '&' } else { '?' };
        format!("{}{separator}dns={}", plan.path, BASE64URL_NOPAD.encode(query))
    } else {
        plan.path.clone()
    };
    let uri = Uri::builder().scheme("https").authority(authority).path_and_query(path).build();
    let mut request = Request::new(());
    *request.uri_mut() = uri.map_err(|error| error.to_string())?;
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().insert(header::ACCEPT, MEDIA_TYPE);
    if !plan.is_get {
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(header::CONTENT_TYPE, MEDIA_TYPE);
        request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(query.len()));
    }
    Ok(request)
}
