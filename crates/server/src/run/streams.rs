//! Starts the threads that serve connections: one runtime per core, each with TCP, TLS, HTTPS and QUIC.

use super::worker::Worker;
use crate::listen::client_sockets::StreamSockets;
use crate::listen::counters::AllConnections;
use crate::listen::doq::DoqService;
use crate::listen::drain::Drain;
use crate::listen::handler::TransportHandler;
use crate::listen::handshake::Handshake;
use crate::listen::tcp::{StreamProtocol, TcpService};
use crate::listen::{Responder, Transport, trim_memory};
use crate::sys::priority::{PACKET_NICE_STEP, give_way};
use crate::threads::{runtime_failed, spawn};
use crate::tls::public::PublicTls;
use process::log::abort_on_panic;
use process::problem::Problem;
use process::stop::Stop;
use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Time limit for connections to tell their clients that the node stops.
const GOODBYE: Duration = Duration::from_millis(100);
/// Interval between checks whether all connections have done so.
const GOODBYE_LOOK: Duration = Duration::from_millis(5);
/// Time limit for the last packets of QUIC connections.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// Time limit of the whole shutdown, over all runtimes.
pub(super) const ENDED: Duration = Duration::from_millis(190);

/// The workers of one runtime. Each transport has its own, for its counters.
pub(super) struct StreamWorkers {
    pub(super) tcp: Worker,
    /// `None` without a certificate.
    pub(super) encrypted: Option<EncryptedWorkers>,
}

pub(super) struct EncryptedWorkers {
    pub(super) dot: Worker,
    pub(super) doh: Worker,
    pub(super) doq: Worker,
}

/// Starts all runtimes. The returned receiver is disconnected when they have closed their connections after a stop.
pub(super) fn start(
    node: u32,
    tls: Option<&Arc<PublicTls>>,
    sockets: Vec<StreamSockets>,
    workers: Vec<StreamWorkers>,
    connections: &AllConnections,
    stop: &Stop,
) -> Result<Receiver<()>, Problem> {
    let (running, ended) = channel::<()>();
    for (index, (sockets, workers)) in sockets.into_iter().zip(workers).enumerate() {
        let (connections, tls, stop) = (connections.clone(), tls.cloned(), stop.clone());
        let running = running.clone();
        // All transports share the limits of the service.
        let limits = workers.tcp.responder.service.connections.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(runtime_failed)?;
        let memory = limits.memory.clone();
        let serve = move || {
            give_way(PACKET_NICE_STEP);
            let mut serving = Serving::default();
            let handler = |serving: &mut Serving, transport, Worker { responder, listen }| {
                let handler = TransportHandler::new(transport, responder, &limits, &connections, listen);
                serving.drains.push(handler.drain.clone());
                handler
            };
            tokio::task::LocalSet::new().block_on(&runtime, async move {
                drop(tokio::task::spawn_local(trim_memory::trim_after_floods(memory)));
                let tcp = handler(&mut serving, Transport::Tcp, workers.tcp);
                serving.accept(TcpService::new(tcp, StreamProtocol::Plain), sockets.tcp);
                if let (Some(tls), Some(workers)) = (tls, workers.encrypted) {
                    let dot = handler(&mut serving, Transport::Dot, workers.dot);
                    let protocol = StreamProtocol::Tls(Handshake::dot(tls.dot.clone()));
                    serving.accept(TcpService::new(dot, protocol), sockets.dot);
                    let doh = handler(&mut serving, Transport::Doh, workers.doh);
                    let protocol = StreamProtocol::Http(Handshake::http(tls.doh.clone()));
                    serving.accept(TcpService::new(doh, protocol), sockets.doh);
                    let doq = handler(&mut serving, Transport::Doq, workers.doq);
                    serving.quic(
                        &DoqService::new(doq),
                        |address| tls.endpoint(node, address, index),
                        &tls.doq,
                        sockets.doq,
                    );
                }
                stop.ordered().await;
                serving.end().await;
                drop(running);
            });
        };
        spawn(format!("tcp-{index}"), serve)?;
    }
    Ok(ended)
}

/// The open listeners and connections of one runtime.
#[derive(Default)]
struct Serving {
    drains: Vec<Rc<Drain>>,
    accepting: Vec<JoinHandle<()>>,
    endpoints: Vec<Endpoint>,
}

impl Serving {
    fn accept<R: Responder + 'static>(&mut self, service: Rc<TcpService<R>>, listeners: Vec<TcpListener>) {
        for listener in listeners {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => {
                    let accept = abort_on_panic("accept connections", service.clone().accept(listener));
                    self.accepting.push(tokio::task::spawn_local(accept));
                }
                Err(error) => tracing::error!(%error, "cannot use a listener"),
            }
        }
    }

    fn quic<R: Responder + 'static>(
        &mut self,
        service: &Rc<DoqService<R>>,
        config: impl Fn(SocketAddr) -> EndpointConfig,
        server: &ServerConfig,
        sockets: Vec<UdpSocket>,
    ) {
        for socket in sockets {
            let address = socket.local_addr();
            let endpoint = address.and_then(|address| {
                Endpoint::new(config(address), Some(server.clone()), socket, Arc::new(TokioRuntime))
            });
            match endpoint {
                Ok(endpoint) => {
                    tokio::task::spawn_local(abort_on_panic(
                        "accept connections",
                        service.clone().accept(endpoint.clone()),
                    ));
                    self.endpoints.push(endpoint);
                }
                Err(error) => tracing::error!(%error, "cannot use a socket for QUIC"),
            }
        }
    }

    /// Accepts no further connections, and closes the open ones with close_notify, GOAWAY or CONNECTION_CLOSE. Stops
    /// waiting for slow clients after a time limit; the kernel closes their TCP connections.
    async fn end(self) {
        self.accepting.iter().for_each(JoinHandle::abort);
        self.endpoints.iter().for_each(|endpoint| endpoint.set_server_config(None));
        self.drains.iter().for_each(|drain| drain.start());
        let until = Instant::now() + GOODBYE;
        while !self.drains.iter().all(|drain| drain.is_done()) && Instant::now() < until {
            tokio::time::sleep(GOODBYE_LOOK).await;
        }
        // DOQ_NO_ERROR (RFC 9250 8.4).
        self.endpoints.iter().for_each(|endpoint| endpoint.close(0u32.into(), b""));
        let idle = async {
            for endpoint in &self.endpoints {
                endpoint.wait_idle().await;
            }
        };
        let _ended = tokio::time::timeout(LAST_WORDS, idle).await;
    }
}
