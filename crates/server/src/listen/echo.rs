//! An echo server for tests of listeners, on its own runtime.

use super::counters::{AllConnections, ListenCounters};
use super::handler::{ConnectionLimits, TransportHandler};
use super::{Action, PinnedResponder, Reply, Responder, Transport};
use crate::combiner::Dispatch;
use config::Tcp;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// A message that ends with this byte costs more than the most expensive answer: NXDOMAIN in a zone with the maximum
/// of NSEC3 iterations.
pub(super) const COSTLY: u8 = b'c';
const COST: Duration = Duration::from_millis(1);
/// A message that ends with this byte gets the largest possible response.
pub(super) const LARGE: u8 = b'b';
/// A message that ends with this byte is deferred, and echoed after [`LATE_AFTER`].
pub(super) const LATE: u8 = b'd';
pub(super) const LATE_AFTER: Duration = Duration::from_millis(600);

/// Echoes every message, except as these constants say.
pub(super) struct Echo;

impl Responder for Echo {
    type Pinned<'a> = Self;
    fn pin(&mut self) -> Self {
        Self
    }
    fn offline(&mut self) {}
}

impl PinnedResponder for Echo {
    fn respond(&mut self, bytes: &[u8], _peer: SocketAddr, _transport: Transport, out: &mut [u8]) -> Action {
        if bytes.ends_with(&[LATE]) {
            return Action::Defer;
        }
        let start = Instant::now();
        while bytes.ends_with(&[COSTLY]) && start.elapsed() < COST {
            std::hint::spin_loop();
        }
        out[..bytes.len()].copy_from_slice(bytes);
        Action::Respond(if bytes.ends_with(&[LARGE]) { out.len() } else { bytes.len() })
    }

    fn defer(&mut self, bytes: &[u8], reply: Reply, _dispatch: Dispatch, _out: &mut [u8]) -> Action {
        let bytes = bytes.to_vec();
        std::thread::spawn(move || {
            std::thread::sleep(LATE_AFTER);
            reply.send(bytes);
        });
        Action::Defer
    }
}

/// Runs a future on a runtime of its own.
pub(super) fn run<F: Future>(future: F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, future)
}

/// A runtime that serves one transport until this is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) limits: ConnectionLimits,
    pub(super) connections: AllConnections,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a runtime for `serve`, which reports the address that it listens on.
    pub(super) fn start<S: Future<Output = ()>>(
        transport: Transport,
        tcp: &Tcp,
        serve: impl FnOnce(TransportHandler<Echo>, oneshot::Sender<SocketAddr>) -> S + Send + 'static,
    ) -> Self {
        let (limits, connections) = (ConnectionLimits::new(tcp, &[]), AllConnections::default());
        let ((stop, stopped), (listens, address)) = (oneshot::channel::<()>(), oneshot::channel());
        let (their_limits, theirs) = (limits.clone(), connections.clone());
        let thread = std::thread::spawn(move || {
            let handler =
                TransportHandler::new(transport, Echo, &their_limits, &theirs, Arc::<ListenCounters>::default());
            run(async {
                tokio::select! {
                    () = serve(handler, listens) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = address.blocking_recv().unwrap();
        Self { address, limits, connections, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            assert!(std::thread::panicking(), "the server panicked");
        }
    }
}
