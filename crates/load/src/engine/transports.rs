//! The transports of one worker.

use super::clock::{Clock, StampClock};
use super::endpoint::{ConnectionPolicy, Endpoint};
use super::plan::Plan;
use super::quic::Quic;
use super::stream::Streams;
use super::traffic::UdpSockets;
use super::transport_driver::TransportDriver;
use super::udp::{Datagrams, PerSourceSockets, PktinfoSockets};
use measure::Transport;
use std::io;
use std::sync::Arc;

/// The transports that the clients of a worker use.
#[derive(Default)]
pub(super) struct Transports {
    pub(super) datagrams: Option<Datagrams>,
    /// One socket per server. Each message carries its source address.
    pub(super) pktinfo: Option<PktinfoSockets>,
    /// A socket for each source.
    pub(super) per_source: Option<PerSourceSockets>,
    pub(super) streams: Option<Streams>,
    pub(super) quic: Option<Quic>,
}

impl Transports {
    /// Opens the transports that the clients of worker `index` need.
    ///
    /// # Errors
    /// If a socket cannot be opened, or a file of the plan cannot be read.
    pub(super) fn open(
        plan: &Plan,
        index: usize,
        (clients, policies): (&Arc<[Endpoint]>, &Arc<[ConnectionPolicy]>),
        used: &[Transport],
        clock: Clock,
    ) -> io::Result<Self> {
        let mut opened = Self::default();
        if used.contains(&Transport::Udp) {
            opened.open_datagrams(plan, clients, StampClock::new(clock))?;
        }
        if used.iter().any(|transport| matches!(transport, Transport::Tcp | Transport::Dot | Transport::Doh)) {
            opened.streams = Some(Streams::new(plan, index, Arc::clone(clients), Arc::clone(policies), clock)?);
        }
        if used.contains(&Transport::Doq) {
            opened.quic = Some(Quic::new(plan, index, Arc::clone(clients), Arc::clone(policies), clock)?);
        }
        Ok(opened)
    }

    fn open_datagrams(&mut self, plan: &Plan, clients: &[Endpoint], stamps: StampClock) -> io::Result<()> {
        match plan.pace.udp_sockets() {
            UdpSockets::PerClient => self.per_source = Some(PerSourceSockets::open(plan, clients, stamps)?),
            UdpSockets::NamedSource { is_fast } => {
                self.pktinfo = Some(PktinfoSockets::open(plan, clients, stamps, is_fast)?);
            }
            UdpSockets::Shared => {
                let udp_clients = clients.iter().filter(|client| client.transport == Transport::Udp);
                let mut servers: Vec<_> = udp_clients.map(|client| client.server).collect();
                servers.sort_unstable();
                servers.dedup();
                let servers = if servers.is_empty() { &plan.servers } else { &servers };
                self.datagrams = Some(Datagrams::open(plan, servers, stamps)?);
            }
        }
        Ok(())
    }

    /// All open transports.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut dyn TransportDriver> {
        let datagrams = self.datagrams.as_mut().map(|driver| driver as &mut dyn TransportDriver);
        let pktinfo = self.pktinfo.as_mut().map(|driver| driver as &mut dyn TransportDriver);
        let per_source = self.per_source.as_mut().map(|driver| driver as &mut dyn TransportDriver);
        let streams = self.streams.as_mut().map(|driver| driver as &mut dyn TransportDriver);
        let quic = self.quic.as_mut().map(|driver| driver as &mut dyn TransportDriver);
        [datagrams, pktinfo, per_source, streams, quic].into_iter().flatten()
    }

    /// Whether there are only datagrams: the kernel timestamps them, so receiving may wait.
    pub(super) const fn are_datagrams(&self) -> bool {
        self.streams.is_none() && self.quic.is_none()
    }
}
