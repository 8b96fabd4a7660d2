//! One connection of a client to an echo.

use super::fault::Reply;
use super::handler::RequestHandler;
use super::http::HttpServer;
use measure::Transport;
use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};
use sockets::{Framing, Link, ReadStatus, frame};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

enum Protocol {
    Framed(Framing),
    Http(Box<HttpServer>),
}

pub(super) struct Connection {
    pub(super) link: Link,
    protocol: Protocol,
    pub(super) transport: Transport,
    client: SocketAddr,
    pub(super) generation: u64,
    query_count: u64,
    plain: Vec<u8>,
}

/// Whether the connection continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Served {
    GoesOn,
    Ended,
}

impl Connection {
    pub(super) fn new(
        (socket, client): (TcpStream, SocketAddr),
        transport: Transport,
        config: Option<&Arc<ServerConfig>>,
        generation: u64,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let tls =
            config.map(|config| ServerConnection::new(Arc::clone(config))).transpose().map_err(io::Error::other)?;
        let protocol = match transport {
            Transport::Doh => Protocol::Http(Box::new(HttpServer::new())),
            _ => Protocol::Framed(Framing::default()),
        };
        let link = Link::new(socket, tls.map(|tls| Box::new(tls.into())), true);
        Ok(Self { link, protocol, transport, client, generation, query_count: 0, plain: Vec::new() })
    }

    /// Reads requests and answers them. Delayed answers go to `delayed`.
    pub(super) fn serve(
        &mut self,
        handler: &RequestHandler,
        scratch: &mut [u8],
        (is_readable, is_writable, is_closing): (bool, bool, bool),
        delayed: &mut Vec<(Duration, u64, Vec<u8>)>,
    ) -> Served {
        if is_writable && self.link.writable().is_err() {
            return Served::Ended;
        }
        let mut served = Served::GoesOn;
        if is_readable || is_closing {
            let mut plain = std::mem::take(&mut self.plain);
            plain.clear();
            match self.link.read(scratch, &mut plain, is_closing) {
                Ok(ReadStatus::Open) => {}
                Ok(ReadStatus::Closed) | Err(_) => served = Served::Ended,
            }
            self.link.read_early_data(&mut plain);
            if self.take(&plain, handler, delayed) == Served::Ended {
                served = Served::Ended;
            }
            if plain.capacity() <= 1 << 12 {
                self.plain = plain;
            }
        }
        if self.link.flush().is_err() { Served::Ended } else { served }
    }

    fn take(&mut self, bytes: &[u8], handler: &RequestHandler, delayed: &mut Vec<(Duration, u64, Vec<u8>)>) -> Served {
        let (link, transport, client) = (&mut self.link, self.transport, self.client);
        let count = &mut self.query_count;
        let mut closes = false;
        match &mut self.protocol {
            Protocol::Framed(framing) => framing.take(bytes, |query| {
                if closes {
                    return;
                }
                let reply = handler.reply(query, transport, client, *count);
                *count += 1;
                closes = reply.closes;
                send(link, reply, delayed);
            }),
            Protocol::Http(http) => {
                let answer = |query: &[u8]| {
                    let reply = handler.reply(query, transport, client, *count);
                    *count += 1;
                    reply
                };
                closes = http.take(bytes, answer, delayed);
                http.drain_into(link.outgoing());
            }
        }
        if closes { Served::Ended } else { Served::GoesOn }
    }

    /// Sends a delayed answer.
    pub(super) fn send_late(&mut self, request: u64, message: &[u8]) -> Served {
        match &mut self.protocol {
            Protocol::Framed(_) => frame(self.link.outgoing(), message),
            Protocol::Http(http) => {
                http.respond_late(request, message);
                http.drain_into(self.link.outgoing());
            }
        }
        if self.link.flush().is_err() { Served::Ended } else { Served::GoesOn }
    }
}

fn send(link: &mut Link, reply: Reply, delayed: &mut Vec<(Duration, u64, Vec<u8>)>) {
    for message in reply.messages {
        match reply.delay {
            Some(delay) => delayed.push((delay, 0, message)),
            None => frame(link.outgoing(), &message),
        }
    }
    if let Some(partial) = reply.partial {
        link.write(&partial);
    }
}
