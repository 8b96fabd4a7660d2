//! Connections to the API, over TCP and over the node's Unix socket, with their limits.
//!
//! The head of a request must arrive within [`API_HEAD_MS`] after the previous response, so idle connections are closed
//! too. A client must read its response within [`API_WRITE_MS`].

use super::connections::{Activity, ConnectionPermit, Connections};
use super::guard::Peer;
use crate::limits::{
    API_CONNECTIONS_MAX, API_CONNECTIONS_PER_CLIENT_MAX, API_HEAD_BYTES_MAX, API_HEADERS_MAX, API_IDLE_MS_MIN,
    API_PERMIT_WAIT_MS, API_SILENCE_MS, API_SOCKET_CONNECTIONS_MAX, API_WRITE_MS,
};
use axum::Router;
use axum::body::Body;
use config::limits::API_HEAD_MS;
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
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use tower::ServiceExt;

/// Interval between the attempts of a new connection to get a slot.
const API_PERMIT_POLL_MS: u64 = 20;
/// Pause after a failed accept. Other connections may close meanwhile and free resources.
const PAUSE_MS: u64 = 50;

/// Serves over TCP until the runtime ends.
pub(super) async fn tcp(listener: TcpListener, router: Router) {
    let admission = Admission::new(API_CONNECTIONS_MAX, API_CONNECTIONS_PER_CLIENT_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                let _ = stream.set_nodelay(true);
                let local = stream.local_addr().ok().map(|local| local.ip());
                let peer = Peer::Tcp { remote: remote.ip(), local };
                let router = router.clone();
                admission.admit(remote.ip(), move |permit| serve(stream, peer, permit, router));
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// Serves over the node's socket until the runtime ends. It has its own limits, so connections over TCP cannot block an
/// administrator.
pub(super) async fn socket(listener: UnixListener, router: Router) {
    let admission = Admission::new(API_SOCKET_CONNECTIONS_MAX, API_SOCKET_CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let uid = stream.peer_cred().ok().map(|peer| peer.uid());
                let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
                let router = router.clone();
                admission.admit(here, move |permit| serve(stream, Peer::Socket { uid }, permit, router));
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// Admits connections within limits.
struct Admission {
    connections: Arc<Connections>,
    /// Limits the connections that wait until another one is closed or idle.
    waiting: Arc<Semaphore>,
}

impl Admission {
    fn new(total_max: usize, per_client_max: usize) -> Self {
        let connections = Connections::new(total_max, per_client_max, API_IDLE_MS_MIN);
        Self { connections, waiting: Arc::new(Semaphore::new(total_max)) }
    }

    /// Serves a connection in a task, once a permit is free. Without a permit, the connection is closed.
    fn admit<F: Future<Output = ()> + Send + 'static>(
        &self,
        address: IpAddr,
        serve: impl FnOnce(ConnectionPermit) -> F + Send + 'static,
    ) {
        if let Some(permit) = self.connections.acquire(address) {
            tokio::spawn(serve(permit));
            return;
        }
        // Too many wait: this is not a burst of requests.
        let Ok(waits) = self.waiting.clone().try_acquire_owned() else {
            if let Some(permit) = self.connections.acquire_at_once(address) {
                tokio::spawn(serve(permit));
            }
            return;
        };
        let connections = self.connections.clone();
        tokio::spawn(async move {
            let until = Instant::now() + Duration::from_millis(API_PERMIT_WAIT_MS);
            let permit = loop {
                tokio::time::sleep(Duration::from_millis(API_PERMIT_POLL_MS)).await;
                match connections.acquire(address) {
                    Some(permit) => break permit,
                    None if Instant::now() >= until => return,
                    None => {}
                }
            };
            drop(waits);
            serve(permit).await;
        });
    }
}

async fn pause(error: &io::Error) {
    process::warn_limited!(%error, "cannot accept a connection to the API");
    tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
}

/// Serves one connection, until it is closed or evicted.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    permit: ConnectionPermit,
    router: Router,
) {
    let activity = permit.activity.clone();
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
        // Errors of the client are ignored.
        _ = connection => {}
        () = activity.evicted() => {}
    }
}

/// A stream that records traffic, and fails after a timeout.
struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    /// Fires after a long time without traffic.
    silence: Pin<Box<Sleep>>,
    /// Fires if the client does not read its response.
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
