//! `catamaran`: an authoritative nameserver that is replicated by Raft.
//!
//! This crate is the shell: sockets, files, clocks and threads. What a message means is decided in `wire`, `zone` and
//! `replica`.
//!
//! ```text
//!   query :  listen/udp, listen/tcp --> wire::parse --> zone::answer --> out          (packet workers)
//!   update:  listen --> update (authenticate, prescan) --> node/replica_thread --> update (sign) --> out
//!   admin :  cli --> api --> node/replica_thread
//! ```
#![deny(unsafe_code)]

// What every part uses.
mod limits;
mod metrics;
mod problem;
// What is read at start.
mod config;
mod files;
mod tls;
// Clients.
mod listen;
// The replica and its peers.
mod node;
mod peer;

fn main() {}

/// A directory for one test, removed with it.
#[cfg(test)]
fn test_dir(name: &str) -> TestDir {
    let dir = std::env::temp_dir().join(format!("catamaran-test-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the temporary directory can be written");
    TestDir(dir)
}

#[cfg(test)]
struct TestDir(std::path::PathBuf);

#[cfg(test)]
impl TestDir {
    fn path(&self) -> &std::path::Path {
        &self.0
    }
}

#[cfg(test)]
impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
