//! Starts the threads that serve connections: a runtime for each core, with all transports that have connections.

use super::Worker;
use super::sockets::StreamSockets;
use super::system::give_way;
use super::threads::{runtime_failed, spawn};
use crate::limits::PACKET_NICE_STEP;
use crate::listen::counters::AllConnections;
use crate::listen::doq::DoqService;
use crate::listen::drain::Drain;
use crate::listen::handler::TransportHandler;
use crate::listen::handshake::Handshake;
use crate::listen::tcp::{StreamProtocol, TcpService};
use crate::listen::trim_memory;
use crate::listen::{Responder, Transport};
use crate::log::vital;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tls::public::PublicTls;
use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long connections may take to tell their clients that the node stops.
const GOODBYE: Duration = Duration::from_millis(100);
/// How often it is looked whether all have.
const GOODBYE_LOOK: Duration = Duration::from_millis(5);
/// How long what QUIC says at last may take to leave.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// How long all of that may take, of all runtimes.
pub(super) const ENDED: Duration = Duration::from_millis(190);

/// What one runtime answers with: a worker for each transport, so that each has its counters.
pub(super) struct StreamWorkers {
    pub(super) tcp: Worker,
    /// None without certificate.
    pub(super) encrypted: Option<EncryptedWorkers>,
}

pub(super) struct EncryptedWorkers {
    pub(super) dot: Worker,
    pub(super) doh: Worker,
    pub(super) doq: Worker,
}

/// Starts all of them; what comes back is cut off when all have told their clients that they stop.
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
        // One for all: it is that of the service.
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

/// What one runtime serves with.
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
                    let accept = vital("accept connections", service.clone().accept(listener));
                    self.accepting.push(tokio::task::spawn_local(accept));
                }
                Err(error) => tracing::error!(%error, "a listener cannot be used"),
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
                    tokio::task::spawn_local(vital("accept connections", service.clone().accept(endpoint.clone())));
                    self.endpoints.push(endpoint);
                }
                Err(error) => tracing::error!(%error, "a socket cannot be used for QUIC"),
            }
        }
    }

    /// Lets nobody in any more, and has the clients told that nothing more comes: with close_notify, GOAWAY, or
    /// CONNECTION_CLOSE. Who is not done by then, or takes nothing, is left; the kernel tells clients of TCP.
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
        let _told = tokio::time::timeout(LAST_WORDS, idle).await;
    }
}
