//! Strangers on the peer port.

use super::cluster::{Cluster, PATIENCE};
use super::dns::tcp_from;
use super::hostile_peer::{HostilePeer, JOIN, peer_address};
use super::priority::give_way_to_nodes;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The source address of strangers that ask to join.
const TALKING: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// Number of connections of one kind held open at one node: more than a pool of 256 has room for.
const HELD_MAX: usize = 400;

/// Strangers that connect to a node repeatedly until told to stop. One kind sends nothing, the other asks to join and
/// then sends nothing. Each connection stays open.
pub(crate) struct Strangers {
    stop: Arc<AtomicBool>,
    /// The number of strangers that asked to join, with any outcome.
    joins: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Strangers {
    /// Silent strangers connect 40 times a second to each node, the others as fast as they are accepted.
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let mut strangers = Self { stop: Arc::default(), joins: Arc::default(), threads: Vec::new() };
        for to in cluster.ids() {
            for source in [TALKING, Ipv4Addr::LOCALHOST] {
                let (address, ca) = (peer_address(cluster, to), cluster.dir.join("ca.pem"));
                let (stop, joins) = (strangers.stop.clone(), strangers.joins.clone());
                let until = Instant::now() + 2 * PATIENCE;
                let attack = move || {
                    give_way_to_nodes();
                    let (mut silent, mut joining) = (VecDeque::new(), VecDeque::new());
                    while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                        std::thread::sleep(Duration::from_millis(if source == TALKING { 1 } else { 25 }));
                        let Ok(stream) = tcp_from(source, address) else { continue };
                        if source == TALKING {
                            let mut peer = HostilePeer::over(stream, to, &ca, None).unwrap();
                            peer.wait_at_most(Duration::from_millis(500));
                            // The node may have closed the connection already, or may keep it waiting.
                            let _ = peer.greet(JOIN, 0, 0);
                            joining.push_back(peer);
                            if joining.len() > HELD_MAX {
                                joining.pop_front();
                            }
                        } else {
                            silent.push_back(stream);
                            if silent.len() > HELD_MAX {
                                silent.pop_front();
                            }
                        }
                        joins.fetch_add(usize::from(source == TALKING), Ordering::Relaxed);
                    }
                };
                strangers.threads.push(std::thread::spawn(attack));
            }
        }
        strangers
    }

    pub(crate) fn joins(&self) -> usize {
        self.joins.load(Ordering::Relaxed)
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
