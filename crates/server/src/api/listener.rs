//! Connections to the API, over TCP and over the node's Unix socket: who may have one, and for how long.
//!
//! The head of a request has [`API_HEAD_MS`], which begins when the response before it has gone: a connection that is
//! silent between two requests ends then too. A client that does not take its response has [`API_WRITE_MS`].

use super::connections::{Activity, Connections, Place};
use super::guard::Peer;
use crate::limits::{
    API_CONNECTIONS_MAX, API_CONNECTIONS_PER_CLIENT_MAX, API_HEAD_BYTES_MAX, API_HEAD_MS, API_HEADERS_MAX,
    API_SILENCE_MS, API_SOCKET_CONNECTIONS_MAX, API_WRITE_MS,
};
use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::{Instant, Sleep};
use tower::ServiceExt;

/// Pause after a connection could not be accepted: others end meanwhile, and give back what was missing.
const PAUSE_MS: u64 = 50;

/// Serves over TCP until the runtime ends.
pub(super) async fn tcp(listener: TcpListener, router: Router) {
    let connections = Connections::new(API_CONNECTIONS_MAX, API_CONNECTIONS_PER_CLIENT_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                // At a limit, and nobody is idle: the client sees the end at once.
                let Some(place) = connections.enter(remote.ip()) else { continue };
                let _ = stream.set_nodelay(true);
                let local = stream.local_addr().ok().map(|local| local.ip());
                tokio::spawn(serve(stream, Peer::Tcp { remote: remote.ip(), local }, place, router.clone()));
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// Serves over the node's socket until the runtime ends. Its places are its own: whatever comes over TCP, an
/// administrator gets in.
pub(super) async fn socket(listener: UnixListener, router: Router) {
    let connections = Connections::new(API_SOCKET_CONNECTIONS_MAX, API_SOCKET_CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Some(place) = connections.enter(IpAddr::V4(Ipv4Addr::LOCALHOST)) else { continue };
                let uid = stream.peer_cred().ok().map(|peer| peer.uid());
                tokio::spawn(serve(stream, Peer::Socket { uid }, place, router.clone()));
            }
            Err(error) => pause(&error).await,
        }
    }
}

async fn pause(error: &io::Error) {
    crate::warn_limited!(%error, "cannot accept a connection to the API");
    tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
}

/// One connection, until it ends or has to.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer, place: Place, router: Router) {
    let activity = place.activity.clone();
    let answer = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let (busy, router) = (activity.begin(), router.clone());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        async move {
            let response = router.oneshot(request).await;
            drop(busy);
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(API_HEAD_MS))
        .max_headers(API_HEADERS_MAX)
        .max_buf_size(API_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Watched::new(stream, activity.clone())), answer);
    tokio::select! {
        // What a client does wrong is no matter of ours.
        _ = connection => {}
        () = activity.evicted() => {}
    }
}

/// A stream that notes when it was used, and ends when it is stuck.
struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    /// When nothing has gone either way for long.
    silence: Pin<Box<Sleep>>,
    /// When the client has taken nothing of what waits for it.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    fn new(stream: S, activity: Arc<Activity>) -> Self {
        let silence = Box::pin(tokio::time::sleep(Duration::from_millis(API_SILENCE_MS)));
        Self { stream, activity, silence, stuck: None }
    }

    fn was_used(&mut self) {
        self.activity.touch();
        self.silence.as_mut().reset(Instant::now() + Duration::from_millis(API_SILENCE_MS));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.silence.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
            ready => {
                self.was_used();
                ready
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Pending => {
                let wait = || Box::pin(tokio::time::sleep(Duration::from_millis(API_WRITE_MS)));
                let stuck = self.stuck.get_or_insert_with(wait);
                stuck.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            ready => {
                self.stuck = None;
                self.was_used();
                ready
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
