//! The sockets of processes from `/proc/PID/net`. Shared sockets count once.

use super::reading::Reading;
use super::socket_memory::SocketMemory;
use crate::limits::{DESCRIPTORS_READ_MAX, SOCKETS_AGE_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;

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

/// The sockets of the processes. Refreshed rarely, because there may be thousands of descriptors.
#[derive(Default, Debug)]
pub(super) struct Sockets {
    /// The processes.
    pids: BTreeSet<u32>,
    namespaces: Vec<Namespace>,
    age: u32,
}

/// The sockets in one network namespace. They are all in one table.
#[derive(Debug)]
struct Namespace {
    /// One of its processes.
    pid: u32,
    inodes: BTreeSet<u64>,
    /// Listening ports. Connections of closed sockets have no inode, but a port.
    ports: BTreeSet<u16>,
}

impl Sockets {
    /// Reads the sockets of these processes.
    ///
    /// # Errors
    /// If they may not be read.
    pub(super) fn read(&mut self, pids: &BTreeSet<u32>, reading: &mut Reading) -> io::Result<()> {
        if self.age >= SOCKETS_AGE_MAX || self.pids != *pids {
            self.find(pids)?;
        }
        self.age += 1;
        for namespace in &self.namespaces {
            match namespace.read(reading) {
                // The process whose table was read has exited. Another process is chosen next time.
                Err(error) if has_ended(&error) => self.age = SOCKETS_AGE_MAX,
                read => read?,
            }
        }
        Ok(())
    }

    fn find(&mut self, pids: &BTreeSet<u32>) -> io::Result<()> {
        let mut found: BTreeMap<PathBuf, Namespace> = BTreeMap::new();
        for &pid in pids {
            match find_inodes(pid) {
                Err(error) if has_ended(&error) => {}
                inodes => {
                    let (name, inodes) = inodes?;
                    let new = || Namespace { pid, inodes: BTreeSet::new(), ports: BTreeSet::new() };
                    found.entry(name).or_insert_with(new).inodes.extend(inodes);
                }
            }
        }
        self.namespaces = found.into_values().collect();
        for namespace in &mut self.namespaces {
            match namespace.find_ports() {
                Err(error) if has_ended(&error) => {}
                found => found?,
            }
        }
        self.pids.clone_from(pids);
        self.age = 0;
        Ok(())
    }
}

/// The network namespace of a process, and its sockets.
fn find_inodes(pid: u32) -> io::Result<(PathBuf, BTreeSet<u64>)> {
    let name = fs::read_link(format!("/proc/{pid}/ns/net"))?;
    let mut inodes = BTreeSet::new();
    for descriptor in fs::read_dir(format!("/proc/{pid}/fd"))?.take(DESCRIPTORS_READ_MAX) {
        // `socket:[12345]`. A descriptor may be closed between the two calls.
        let Ok(target) = fs::read_link(descriptor?.path()) else { continue };
        let number = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
        inodes.extend(number.and_then(|text| text.parse::<u64>().ok()));
    }
    Ok((name, inodes))
}

/// Whether the error shows that a process has exited or is exiting.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL))
}

impl Namespace {
    fn read(&self, reading: &mut Reading) -> io::Result<()> {
        for row in self.rows("tcp")?.iter().filter(|row| self.ports.contains(&row.port)) {
            if let Some(state) = row.state.checked_sub(1).and_then(|index| TCP_STATES.get(index)) {
                *reading.tcp_states.entry(state).or_default() += 1;
            }
        }
        let rows = self.rows("udp")?;
        let drops: u64 = rows.iter().filter(|row| self.inodes.contains(&row.inode)).map(|row| row.drops).sum();
        *reading.udp_drops.get_or_insert(0) += drops;
        let memory = SocketMemory::read(self.pid)?;
        (reading.tcp_memory_bytes, reading.udp_memory_bytes) = (memory.tcp_bytes, memory.udp_bytes);
        Ok(())
    }

    fn find_ports(&mut self) -> io::Result<()> {
        let tcp = self.rows("tcp")?;
        let listening = tcp.iter().filter(|row| row.state == LISTEN && self.inodes.contains(&row.inode));
        self.ports = listening.map(|row| row.port).collect();
        Ok(())
    }

    /// The rows for IPv4 and IPv6.
    fn rows(&self, protocol: &str) -> io::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for table in [protocol.to_owned(), format!("{protocol}6")] {
            let text = match fs::read_to_string(format!("/proc/{}/net/{table}", self.pid)) {
                // A kernel without IPv6 has no such file.
                Err(error) if error.kind() == io::ErrorKind::NotFound && table.ends_with('6') => String::new(),
                text => text?,
            };
            rows.extend(text.lines().skip(1).filter_map(Row::read));
        }
        Ok(rows)
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
        // The last column of a UDP line. In a TCP line it has another meaning and is ignored.
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
