//! Ports for the nodes of a test.

use std::collections::VecDeque;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

/// Ports that no other program uses: `catamaran up` chooses peer ports from 20,000 to 32,000, and the kernel chooses
/// client ports from 32,768 to 60,999 (`ip_local_port_range`).
const RANGES: [(u16, u16); 2] = [(10_000, 20_000), (61_000, 65_500)];
/// Ports that one call takes.
const BLOCK: u16 = 50;

/// The blocks of this process. Each has a locked file, so that no other test process uses it until this process ends.
static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { taken: VecDeque::new(), next: 0 });

struct Blocks {
    /// The first port of each block and its lock, oldest first.
    taken: VecDeque<(u16, File)>,
    next: usize,
}

/// The first of `count` consecutive free ports, at most 50. A process gets a port twice only after it has used all.
/// Otherwise a port of a stopped node of another test could look free.
pub(crate) fn free_ports(count: u16) -> u16 {
    assert!(count <= BLOCK, "{count} ports");
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    // No more attempts than there are blocks.
    for _ in 0..2 * all_blocks().count() {
        let Some(base) = blocks.take() else { break };
        if (base..base + count).all(is_free) {
            return base;
        }
    }
    panic!("no {count} free ports in a row in {RANGES:?}");
}

fn all_blocks() -> impl Iterator<Item = u16> {
    RANGES.into_iter().flat_map(|(start, end)| (start..end).step_by(BLOCK.into()))
}

impl Blocks {
    /// The first port of a block that no other test process has.
    fn take(&mut self) -> Option<u16> {
        let all: Vec<u16> = all_blocks().collect();
        // Processes begin at different blocks, and so rarely meet a lock.
        let offset = std::process::id() as usize % all.len();
        while self.next < all.len() {
            let base = all[(offset + self.next) % all.len()];
            self.next += 1;
            let path = std::env::temp_dir().join(format!("catamaran-it-ports-{base}.lock"));
            let file = File::create(&path).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
            if file.try_lock().is_ok() {
                self.taken.push_back((base, file));
                return Some(base);
            }
        }
        let oldest = self.taken.pop_front()?;
        let base = oldest.0;
        self.taken.push_back(oldest);
        Some(base)
    }
}

fn is_free(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}
