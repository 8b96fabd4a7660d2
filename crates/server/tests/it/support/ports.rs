//! Ports for the nodes of a test.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Ports below the range from which the kernel chooses client ports (`ip_local_port_range`).
const PORTS: Range<u16> = 10_000..32_700;
/// Number of ports in a block.
const BLOCK: u16 = 50;

/// The blocks of this process. A locked file per block keeps other test processes away until this process ends.
static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { locks: Vec::new(), next: 0 });

struct Blocks {
    locks: Vec<File>,
    next: u16,
}

/// Returns the first of `count` consecutive free ports, at most 50. A process never gets a port twice. The nodes of
/// another test may be down for a while, and then their ports only look free.
pub(crate) fn free_ports(count: u16) -> u16 {
    assert!(count <= BLOCK, "{count} ports");
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let base = blocks.take();
        if (base..base + count).all(is_free) {
            return base;
        }
    }
}

impl Blocks {
    /// Returns the first port of a block that no other test process uses.
    fn take(&mut self) -> u16 {
        let count = (PORTS.end - PORTS.start) / BLOCK;
        // Processes begin at different blocks, so they rarely meet a lock.
        let offset = (std::process::id() % u32::from(count)) as u16;
        while self.next < count {
            let block = (offset + self.next) % count;
            self.next += 1;
            let path = std::env::temp_dir().join(format!("catamaran-it-ports-{block}.lock"));
            let file = File::create(&path).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
            if file.try_lock().is_ok() {
                self.locks.push(file);
                return PORTS.start + block * BLOCK;
            }
        }
        panic!("this test process has used all ports from {} to {}", PORTS.start, PORTS.end);
    }
}

fn is_free(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}
