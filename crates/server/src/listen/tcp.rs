//! TCP listeners (RFC 7766): admission, and the protocol of each connection.

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

/// The protocol of a listener.
pub(crate) enum StreamProtocol {
    /// DNS over TCP.
    Plain,
    /// DNS over TLS.
    Tls(Handshake),
    /// DNS over HTTPS (HTTP/2).
    Http(Handshake),
}

/// A listener's service.
pub(crate) struct TcpService<R> {
    handler: Rc<TransportHandler<R>>,
    protocol: StreamProtocol,
}

impl<R: Responder + 'static> TcpService<R> {
    pub(crate) fn new(handler: TransportHandler<R>, protocol: StreamProtocol) -> Rc<Self> {
        Rc::new(Self { handler: Rc::new(handler), protocol })
    }

    /// Accepts connections on one listener, forever. Runs in a `LocalSet`.
    pub(crate) async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // RFC 7766 6.2.2: a server may limit connections. Over the limit it closes at once.
                    let open = match OpenConnection::enter(&self.handler, peer.ip()) {
                        Ok(open) => open,
                        Err(why) => {
                            self.handler.connections.record_close(why);
                            continue;
                        }
                    };
                    // Responses leave at once: each write already holds everything that belongs together.
                    let _ = stream.set_nodelay(true);
                    self.spawn(stream, peer, open);
                }
                Err(error) => {
                    // Most likely there are no free file descriptors. Connections that end release some.
                    process::warn_limited!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Starts the task of one connection. Each protocol has its own future, so that none pays for the size of another.
    fn spawn(self: &Rc<Self>, stream: TcpStream, peer: SocketAddr, open: OpenConnection<R>) {
        let service = self.clone();
        match &self.protocol {
            StreamProtocol::Plain => drop(tokio::task::spawn_local(async move {
                let work = pin!(Connection::new(&service.handler, open.reservation(), stream, peer, true).run());
                open.unless_evicted(work).await;
            })),
            StreamProtocol::Tls(_) => drop(tokio::task::spawn_local(async move {
                open.unless_evicted(pin!(service.tls(&open, stream, peer))).await;
            })),
            StreamProtocol::Http(_) => drop(tokio::task::spawn_local(async move {
                open.unless_evicted(pin!(service.http(&open, stream, peer))).await;
            })),
        }
    }

    async fn tls(&self, open: &OpenConnection<R>, stream: TcpStream, peer: SocketAddr) {
        let StreamProtocol::Tls(handshake) = &self.protocol else { return };
        // The future of a handshake is far larger than that of a connection, so it is boxed and freed early.
        let Some((stream, protocol)) = Box::pin(handshake.run(&self.handler, stream, peer)).await else { return };
        // RFC 9103 7.1 and 7.2: transfers over TLS need version 1.3 and the protocol's name.
        let transfers = protocol == Protocol { is_named: true, is_tls13: true };
        Connection::new(&self.handler, open.reservation(), stream, peer, transfers).run().await;
    }

    async fn http(&self, open: &OpenConnection<R>, stream: TcpStream, peer: SocketAddr) {
        let StreamProtocol::Http(handshake) = &self.protocol else { return };
        let Some((stream, _)) = Box::pin(handshake.run(&self.handler, stream, peer)).await else { return };
        doh::serve(self.handler.clone(), open.reservation(), stream, peer).await;
    }
}
