//! Memory of socket buffers from `/proc/PID/net/sockstat`.

use sockets::system::page_bytes;
use std::fs;
use std::io;

/// Memory of socket buffers in bytes. The kernel only has these sums for all network namespaces together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct SocketMemory {
    pub(super) tcp_bytes: Option<u64>,
    pub(super) udp_bytes: Option<u64>,
}

impl SocketMemory {
    /// Reads the values as a process sees them.
    ///
    /// # Errors
    /// The process has ended, or may not be read.
    pub(super) fn read(pid: u32) -> io::Result<Self> {
        fs::read_to_string(format!("/proc/{pid}/net/sockstat")).map(|text| Self::parse(&text, page_bytes()))
    }

    /// A line is `TCP: inuse 1 orphan 0 tw 55 alloc 2 mem 279`. Memory is in pages (proc_pid_net(5)).
    fn parse(text: &str, page_bytes: u64) -> Self {
        let of = |protocol: &str| {
            let mut words = text.lines().find_map(|line| line.strip_prefix(protocol))?.split_ascii_whitespace();
            words.find(|word| *word == "mem")?;
            words.next()?.parse::<u64>().ok().map(|pages| pages * page_bytes)
        };
        Self { tcp_bytes: of("TCP:"), udp_bytes: of("UDP:") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_both_protocols_are_read() {
        let text = "sockets: used 32\nTCP: inuse 1 orphan 1 tw 55 alloc 2 mem 279\nUDP: inuse 0 mem 193\n\
                    UDPLITE: inuse 0\nRAW: inuse 0\nFRAG: inuse 0 memory 0\n";
        let memory = SocketMemory::parse(text, 4_096);
        assert_eq!(memory, SocketMemory { tcp_bytes: Some(279 * 4_096), udp_bytes: Some(193 * 4_096) });
        assert_eq!(SocketMemory::parse("sockets: used 3\nTCP: inuse 0\n", 4_096), SocketMemory::default());
        assert!(SocketMemory::read(std::process::id()).unwrap().tcp_bytes.is_some());
    }
}
