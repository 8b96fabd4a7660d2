//! The sockets of a process, as `/proc/PID/net` lists them.

use super::Reading;
use crate::limits::{DESCRIPTORS_READ_MAX, SOCKETS_AGE_MAX};
use std::collections::BTreeSet;
use std::fs;
use std::io;

/// States of a TCP connection by the kernel's number, from 1.
const TCP_STATES: [&str; 12] = [
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
];
/// The number of `LISTEN`.
const LISTEN: usize = 10;

/// Which sockets belong to a process: looked up seldom, since it may have many thousands of descriptors.
#[derive(Debug)]
pub(super) struct Sockets {
    pid: u32,
    inodes: BTreeSet<u64>,
    /// Ports that it listens on: connections of a closed socket have no inode, but their port.
    ports: BTreeSet<u16>,
    age: u32,
}

impl Sockets {
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, inodes: BTreeSet::new(), ports: BTreeSet::new(), age: SOCKETS_AGE_MAX }
    }

    pub(super) fn read(&mut self, reading: &mut Reading) -> io::Result<()> {
        let tcp = [self.table("tcp")?, self.table("tcp6")?];
        let tcp: Vec<Row> = tcp.iter().flat_map(|table| table.lines().skip(1).filter_map(Row::read)).collect();
        if self.age >= SOCKETS_AGE_MAX {
            self.find(&tcp)?;
        }
        self.age += 1;
        for row in tcp.iter().filter(|row| self.ports.contains(&row.port)) {
            if let Some(state) = row.state.checked_sub(1).and_then(|index| TCP_STATES.get(index)) {
                *reading.tcp_states.entry(state).or_default() += 1;
            }
        }
        let mut drops = 0;
        for table in [self.table("udp")?, self.table("udp6")?] {
            let rows = table.lines().skip(1).filter_map(Row::read);
            drops += rows.filter(|row| self.inodes.contains(&row.inode)).map(|row| row.drops).sum::<u64>();
        }
        reading.udp_drops = Some(drops);
        Ok(())
    }

    fn table(&self, protocol: &str) -> io::Result<String> {
        match fs::read_to_string(format!("/proc/{}/net/{protocol}", self.pid)) {
            // A kernel without IPv6 has no such file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && protocol.ends_with('6') => Ok(String::new()),
            table => table,
        }
    }

    fn find(&mut self, tcp: &[Row]) -> io::Result<()> {
        self.inodes.clear();
        for descriptor in fs::read_dir(format!("/proc/{}/fd", self.pid))?.take(DESCRIPTORS_READ_MAX) {
            // `socket:[12345]`; a descriptor may be closed between the two calls.
            let Ok(target) = fs::read_link(descriptor?.path()) else { continue };
            let number = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
            self.inodes.extend(number.and_then(|text| text.parse::<u64>().ok()));
        }
        let listening = tcp.iter().filter(|row| row.state == LISTEN && self.inodes.contains(&row.inode));
        self.ports = listening.map(|row| row.port).collect();
        self.age = 0;
        Ok(())
    }
}

/// A line of `/proc/PID/net/tcp` or `udp` (proc_pid_net(5)).
struct Row {
    port: u16,
    state: usize,
    inode: u64,
    drops: u64,
}

impl Row {
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let port = u16::from_str_radix(fields.nth(1)?.rsplit_once(':')?.1, 16).ok()?;
        let state = usize::from_str_radix(fields.nth(1)?, 16).ok()?;
        let inode = fields.nth(5)?.parse().ok()?;
        // The last column of a UDP line; of a TCP line it is something else, and not read.
        let drops = fields.next_back().and_then(|text| text.parse().ok()).unwrap_or_default();
        Some(Self { port, state, inode, drops })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let tcp = "   0: 0100007F:14B5 00000000:0000 0A 00000000:00000000 00:00000000 \
                   00000000     0        0 4711 1 ffff 100 0 0 10 0";
        let row = Row::read(tcp).unwrap();
        assert_eq!((row.port, row.state, row.inode), (5301, LISTEN, 4711));
        let udp = "  123: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 \
                   00000000     0        0 4712 2 ffff 987";
        let row = Row::read(udp).unwrap();
        assert_eq!((row.port, row.inode, row.drops), (53, 4712, 987));
        assert!(Row::read("  sl  local_address rem_address").is_none());
    }
}
