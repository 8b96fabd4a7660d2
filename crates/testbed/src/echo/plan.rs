//! The plan of an echo server.

use super::certificate::Certificate;
use super::fault::{Fault, Faults};
use measure::Transport;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The plan of an echo server.
#[derive(Clone)]
pub struct EchoPlan {
    /// The listen address.
    pub address: IpAddr,
    /// The port of each transport. Zero selects a free port.
    pub ports: BTreeMap<Transport, u16>,
    /// Injected faults.
    pub faults: Faults,
    /// The certificate of encrypted transports.
    pub certificate: Arc<Certificate>,
    /// Number of threads. Each has its own sockets on the same ports.
    pub thread_count: usize,
    /// Use TLS 1.2 only. DoQ is not available then.
    pub is_tls12: bool,
}

impl EchoPlan {
    /// A plan without faults, on loopback, on free ports, with one thread.
    ///
    /// # Errors
    /// If the certificate cannot be created.
    pub fn new(transports: &[Transport]) -> io::Result<Self> {
        Ok(Self {
            address: Ipv4Addr::LOCALHOST.into(),
            ports: transports.iter().map(|&transport| (transport, 0)).collect(),
            faults: Arc::new(|_| Fault::None),
            certificate: Arc::new(Certificate::new()?),
            thread_count: 1,
            is_tls12: false,
        })
    }
}
