//! A minimal server for DNS over HTTPS (RFC 8484).

use super::fault::Reply;
use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use h2::RecvStream;
use h2::server::{Connection, Handshake, SendResponse};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use sockets::Pipe;
use sockets::limits::STREAM_MESSAGE_BYTES_MAX;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The media type of messages (RFC 8484 6).
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/dns-message");

enum Stage {
    Handshake(Pin<Box<Handshake<Pipe, Bytes>>>),
    Open(Box<Connection<Pipe, Bytes>>),
    Over,
}

pub(super) struct HttpServer {
    pipe: Pipe,
    stage: Stage,
    /// Requests with incomplete bodies.
    bodies: Vec<(RecvStream, Vec<u8>, SendResponse<Bytes>)>,
    /// Requests with delayed answers.
    delayed: BTreeMap<u64, SendResponse<Bytes>>,
    delayed_count: u64,
}

impl HttpServer {
    pub(super) fn new() -> Self {
        let pipe = Pipe::default();
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(1_000);
        let handshake = Box::pin(builder.handshake(pipe.clone()));
        Self {
            pipe,
            stage: Stage::Handshake(handshake),
            bodies: Vec::new(),
            delayed: BTreeMap::new(),
            delayed_count: 0,
        }
    }

    /// Reads bytes and answers complete requests. Returns whether the connection must close.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut answer: impl FnMut(&[u8]) -> Reply,
        delayed: &mut Vec<(Duration, u64, Vec<u8>)>,
    ) -> bool {
        self.pipe.push(bytes);
        let mut context = Context::from_waker(Waker::noop());
        if let Stage::Handshake(handshake) = &mut self.stage {
            match handshake.as_mut().poll(&mut context) {
                Poll::Ready(Ok(connection)) => self.stage = Stage::Open(Box::new(connection)),
                Poll::Ready(Err(_)) => self.stage = Stage::Over,
                Poll::Pending => {}
            }
        }
        let mut closes = false;
        while let Stage::Open(connection) = &mut self.stage {
            match connection.poll_accept(&mut context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let body = self.accept(request, respond);
                    if let Some((query, respond)) = body {
                        closes |= self.respond(&query, respond, &mut answer, delayed);
                    }
                }
                Poll::Ready(_) => self.stage = Stage::Over,
                Poll::Pending => break,
            }
        }
        for (mut body, mut bytes, respond) in std::mem::take(&mut self.bodies) {
            match read(&mut body, &mut bytes, &mut context) {
                Some(true) => closes |= self.respond(&bytes, respond, &mut answer, delayed),
                Some(false) => {}
                None => self.bodies.push((body, bytes, respond)),
            }
        }
        closes || matches!(self.stage, Stage::Over)
    }

    /// Returns the query of a GET. The body of a POST is read first.
    fn accept(
        &mut self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
    ) -> Option<(Vec<u8>, SendResponse<Bytes>)> {
        if request.method() == Method::POST {
            self.bodies.push((request.into_body(), Vec::new(), respond));
            return None;
        }
        let query = request.uri().query().unwrap_or_default();
        let query = query.split('&').find_map(|pair| pair.strip_prefix("dns="))?;
        BASE64URL_NOPAD.decode(query.as_bytes()).ok().map(|query| (query, respond))
    }

    fn respond(
        &mut self,
        query: &[u8],
        mut respond: SendResponse<Bytes>,
        answer: &mut impl FnMut(&[u8]) -> Reply,
        delayed: &mut Vec<(Duration, u64, Vec<u8>)>,
    ) -> bool {
        let reply = answer(query);
        let message = reply.messages.into_iter().next();
        match (message, reply.delay) {
            (Some(message), Some(delay)) => {
                self.delayed_count += 1;
                self.delayed.insert(self.delayed_count, respond);
                delayed.push((delay, self.delayed_count, message));
            }
            (Some(message), None) => send(&mut respond, &message),
            // Dropping a request would reset it, so it is kept.
            (None, _) => {
                self.delayed_count += 1;
                self.delayed.insert(self.delayed_count, respond);
            }
        }
        reply.closes
    }

    /// Sends a delayed answer.
    pub(super) fn respond_late(&mut self, request: u64, message: &[u8]) {
        if let Some(mut respond) = self.delayed.remove(&request) {
            send(&mut respond, message);
        }
    }

    /// Moves outgoing bytes to `out`.
    pub(super) fn drain_into(&mut self, out: &mut Vec<u8>) {
        let mut context = Context::from_waker(Waker::noop());
        if let Stage::Open(connection) = &mut self.stage {
            // This only writes: all received bytes were already processed.
            let _closed = connection.poll_closed(&mut context).is_ready();
        }
        self.pipe.drain_into(out);
    }
}

/// Whether a body is complete. `None` if more is expected, false if the body will never be complete.
fn read(body: &mut RecvStream, bytes: &mut Vec<u8>, context: &mut Context<'_>) -> Option<bool> {
    loop {
        match body.poll_data(context) {
            Poll::Pending => return None,
            Poll::Ready(None) => return Some(true),
            Poll::Ready(Some(Err(_))) => return Some(false),
            Poll::Ready(Some(Ok(data))) => {
                bytes.extend_from_slice(&data);
                let _given = body.flow_control().release_capacity(data.len());
                if bytes.len() > STREAM_MESSAGE_BYTES_MAX {
                    return Some(false);
                }
            }
        }
    }
}

fn send(respond: &mut SendResponse<Bytes>, message: &[u8]) {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, MEDIA_TYPE);
    // Ignored if the client is gone.
    if let Ok(mut body) = respond.send_response(response, false) {
        let _sent = body.send_data(Bytes::copy_from_slice(message), true);
    }
}
