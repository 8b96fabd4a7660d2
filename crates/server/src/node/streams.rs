//! Starts the threads that serve connections: a runtime for each core, with all transports that have connections.

use super::Worker;
use super::sockets::StreamSockets;
use super::system::give_way;
use super::threads::{runtime_failed, spawn};
use crate::limits::PACKET_NICE_STEP;
use crate::listen::Transport;
use crate::listen::counters::AllConnections;
use crate::listen::desk::Desk;
use crate::listen::doq::DoqService;
use crate::listen::handshake::Handshake;
use crate::listen::tcp::{Spoken, TcpService};
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tls::public::PublicTls;
use quinn::{Endpoint, EndpointConfig, TokioRuntime};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// How often a runtime looks for the order to stop.
const STOP_LOOK: Duration = Duration::from_millis(100);
/// How long QUIC clients may take to hear that the server ends.
const GOODBYE: Duration = Duration::from_millis(50);

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

/// Starts all of them.
pub(super) fn start(
    tls: Option<&Arc<PublicTls>>,
    sockets: Vec<StreamSockets>,
    workers: Vec<StreamWorkers>,
    connections: &AllConnections,
    stop: &Stop,
) -> Result<(), Problem> {
    for (index, (sockets, workers)) in sockets.into_iter().zip(workers).enumerate() {
        let (connections, tls, stop) = (connections.clone(), tls.cloned(), stop.clone());
        // One for all: it is that of the service.
        let limits = workers.tcp.responder.service.connections.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(runtime_failed)?;
        let serve = move || {
            give_way(PACKET_NICE_STEP);
            let desk = |transport, Worker { responder, listen }| {
                Desk::new(transport, responder, &limits, &connections, listen)
            };
            tokio::task::LocalSet::new().block_on(&runtime, async move {
                accept(TcpService::new(desk(Transport::Tcp, workers.tcp), Spoken::Plain), sockets.tcp);
                let mut endpoints = Vec::new();
                if let (Some(tls), Some(workers)) = (tls, workers.encrypted) {
                    let spoken = Spoken::Tls(Handshake::dot(tls.dot.clone()));
                    accept(TcpService::new(desk(Transport::Dot, workers.dot), spoken), sockets.dot);
                    let spoken = Spoken::Http(Handshake::http(tls.doh.clone()));
                    accept(TcpService::new(desk(Transport::Doh, workers.doh), spoken), sockets.doh);
                    endpoints = quic(&DoqService::new(desk(Transport::Doq, workers.doq)), &tls, sockets.doq);
                }
                while !stop.is_ordered() {
                    tokio::time::sleep(STOP_LOOK).await;
                }
                // Listeners and connections end with the tasks that hold them; the kernel tells TCP clients, not those
                // of QUIC.
                for endpoint in &endpoints {
                    // DOQ_NO_ERROR (RFC 9250 8.4).
                    endpoint.close(0u32.into(), b"");
                }
                for endpoint in endpoints {
                    let _told = tokio::time::timeout(GOODBYE, endpoint.wait_idle()).await;
                }
            });
        };
        spawn(format!("tcp-{index}"), serve)?;
    }
    Ok(())
}

fn accept<R: crate::listen::Responder + 'static>(service: std::rc::Rc<TcpService<R>>, listeners: Vec<TcpListener>) {
    for listener in listeners {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => drop(tokio::task::spawn_local(service.clone().accept(listener))),
            Err(error) => tracing::error!(%error, "a listener cannot be used"),
        }
    }
}

fn quic<R: crate::listen::Responder + 'static>(
    service: &std::rc::Rc<DoqService<R>>,
    tls: &PublicTls,
    sockets: Vec<UdpSocket>,
) -> Vec<Endpoint> {
    let endpoint = |socket| {
        Endpoint::new(EndpointConfig::default(), Some(tls.doq.clone()), socket, Arc::new(TokioRuntime))
            .inspect_err(|error| tracing::error!(%error, "a socket cannot be used for QUIC"))
            .ok()
    };
    let endpoints: Vec<Endpoint> = sockets.into_iter().filter_map(endpoint).collect();
    for endpoint in &endpoints {
        tokio::task::spawn_local(service.clone().accept(endpoint.clone()));
    }
    endpoints
}
