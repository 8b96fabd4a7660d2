//! TCP listeners (RFC 7766): who may connect, and what is spoken on the connection.

use super::Responder;
use super::connection::Connection;
use super::doh;
use super::handler::{OpenConnection, TransportHandler};
use super::handshake::{Handshake, Protocol};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// What is spoken on the connections of a listener.
pub(crate) enum Spoken {
    /// Messages as they are.
    Plain,
    /// Messages under TLS.
    Tls(Handshake),
    /// HTTP/2 under TLS.
    Http(Handshake),
}

/// A listener's service.
pub(crate) struct TcpService<R> {
    handler: Rc<TransportHandler<R>>,
    spoken: Spoken,
}

impl<R: Responder + 'static> TcpService<R> {
    pub(crate) fn new(handler: TransportHandler<R>, spoken: Spoken) -> Rc<Self> {
        Rc::new(Self { handler: Rc::new(handler), spoken })
    }

    /// Accepts on one listener, for ever. Runs in a `LocalSet`.
    pub(crate) async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // RFC 7766 6.2.2: a server may limit them; who is over the limit is told at once.
                    let open = match OpenConnection::enter(&self.handler, peer.ip()) {
                        Ok(open) => open,
                        Err(why) => {
                            self.handler.connections.record_close(why);
                            continue;
                        }
                    };
                    // A response leaves at once; what belongs together is written in one piece.
                    let _ = stream.set_nodelay(true);
                    self.spawn(stream, peer, open);
                }
                Err(error) => {
                    // Out of file handles, most likely: connections that end give some back.
                    crate::warn_limited!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Starts the task of one connection: each kind has its own, so that none pays for the size of another.
    fn spawn(self: &Rc<Self>, stream: TcpStream, peer: SocketAddr, open: OpenConnection<R>) {
        let service = self.clone();
        match &self.spoken {
            Spoken::Plain => drop(tokio::task::spawn_local(async move {
                let work = pin!(Connection::new(&service.handler, open.reservation(), stream, peer, true).run());
                open.unless_evicted(work).await;
            })),
            Spoken::Tls(_) => drop(tokio::task::spawn_local(async move {
                open.unless_evicted(pin!(service.tls(&open, stream, peer))).await;
            })),
            Spoken::Http(_) => drop(tokio::task::spawn_local(async move {
                open.unless_evicted(pin!(service.http(&open, stream, peer))).await;
            })),
        }
    }

    async fn tls(&self, open: &OpenConnection<R>, stream: TcpStream, peer: SocketAddr) {
        let Spoken::Tls(handshake) = &self.spoken else { return };
        // The handshake needs far more than a connection: it is on the heap while it lasts.
        let Some((stream, protocol)) = Box::pin(handshake.run(&self.handler, stream, peer)).await else { return };
        // RFC 9103 7.1 and 7.2: transfers over TLS need version 1.3 and the protocol's name.
        let transfers = protocol == Protocol { is_named: true, is_tls13: true };
        Connection::new(&self.handler, open.reservation(), stream, peer, transfers).run().await;
    }

    async fn http(&self, open: &OpenConnection<R>, stream: TcpStream, peer: SocketAddr) {
        let Spoken::Http(handshake) = &self.spoken else { return };
        let Some((stream, _)) = Box::pin(handshake.run(&self.handler, stream, peer)).await else { return };
        doh::serve(self.handler.clone(), open.reservation(), stream, peer).await;
    }
}
