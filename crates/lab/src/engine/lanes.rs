//! The transports of one worker.

use super::clock::{Clock, StampClock};
use super::endpoint::{Endpoint, Habits};
use super::quic::Quic;
use super::stream::Streams;
use super::udp::{Addressed, Datagrams, Own};
use super::{Lane, Pace, Plan, Transport};
use crate::replay::Sources;
use std::io;
use std::sync::Arc;

/// Those that are used.
#[derive(Default)]
pub(super) struct Lanes {
    pub(super) datagrams: Option<Datagrams>,
    /// Of sources that have addresses of their own.
    pub(super) addressed: Option<Addressed>,
    /// Of sources that have sockets of their own.
    pub(super) own: Option<Own>,
    pub(super) streams: Option<Streams>,
    pub(super) quic: Option<Quic>,
}

impl Lanes {
    /// Opens what the clients of worker `index` need.
    ///
    /// # Errors
    /// When sockets cannot be opened, or what the plan names cannot be read.
    pub(super) fn open(
        plan: &Plan,
        index: usize,
        (clients, habits): (&Arc<[Endpoint]>, &Arc<[Habits]>),
        transports: &[Transport],
        clock: Clock,
    ) -> io::Result<Self> {
        let mut lanes = Self::default();
        if transports.contains(&Transport::Udp) {
            lanes.open_datagrams(plan, clients, StampClock::new(clock))?;
        }
        if transports.iter().any(|transport| matches!(transport, Transport::Tcp | Transport::Dot | Transport::Doh)) {
            lanes.streams = Some(Streams::new(plan, index, Arc::clone(clients), Arc::clone(habits), clock)?);
        }
        if transports.contains(&Transport::Doq) {
            lanes.quic = Some(Quic::new(plan, index, Arc::clone(clients), Arc::clone(habits), clock)?);
        }
        Ok(lanes)
    }

    fn open_datagrams(&mut self, plan: &Plan, clients: &[Endpoint], stamps: StampClock) -> io::Result<()> {
        match &plan.pace {
            Pace::Traced(replay) if replay.sources() == Sources::Sockets => {
                self.own = Some(Own::open(plan, clients, stamps)?);
            }
            Pace::Traced(_) => self.addressed = Some(Addressed::open(plan, clients, stamps)?),
            _ => {
                let asked = clients.iter().filter(|client| client.transport == Transport::Udp);
                let mut servers: Vec<_> = asked.map(|client| client.server).collect();
                servers.sort_unstable();
                servers.dedup();
                let servers = if servers.is_empty() { &plan.servers } else { &servers };
                self.datagrams = Some(Datagrams::open(plan, servers, stamps)?);
            }
        }
        Ok(())
    }

    /// Each of them.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut dyn Lane> {
        let datagrams = self.datagrams.as_mut().map(|lane| lane as &mut dyn Lane);
        let addressed = self.addressed.as_mut().map(|lane| lane as &mut dyn Lane);
        let own = self.own.as_mut().map(|lane| lane as &mut dyn Lane);
        let streams = self.streams.as_mut().map(|lane| lane as &mut dyn Lane);
        let quic = self.quic.as_mut().map(|lane| lane as &mut dyn Lane);
        [datagrams, addressed, own, streams, quic].into_iter().flatten()
    }

    /// Whether there are no connections: what comes is stamped by the kernel, and may wait.
    pub(super) const fn are_datagrams(&self) -> bool {
        self.streams.is_none() && self.quic.is_none()
    }
}
