//! A TUN interface whose packets this process carries.

use crate::limits::{KERNEL_QUEUE_PACKETS, MTU};
use crate::{Namespace, system};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

/// A TUN interface in a namespace. Dropping it removes the interface.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
}

impl Tun {
    /// Creates an interface and sets it up.
    pub(crate) fn make(namespace: &Namespace, name: &str) -> io::Result<Self> {
        let file = namespace.inside(|| system::open_tun(name)).map_err(|error| {
            io::Error::new(error.kind(), format!("/dev/net/tun, interface {name} of {}: {error}", namespace.name()))
        })?;
        // No link-local address: its neighbor discovery would only disturb.
        namespace.ip(&format!("link set {name} addrgenmode none"))?;
        namespace.ip(&format!("link set {name} mtu {MTU} txqueuelen {KERNEL_QUEUE_PACKETS} up"))?;
        Ok(Self { file })
    }

    /// Reads the next packet, if there is one.
    pub(crate) fn read<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        match (&self.file).read(buffer) {
            Ok(count) => Ok(Some(&buffer[..count])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a packet into the interface.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// Packets that the kernel dropped before this process read them, from `/proc/net/dev`.
pub(crate) fn dropped_unread(namespace: &Namespace, name: &str) -> io::Result<u64> {
    let table = namespace.inside(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
    Ok(dropped_in(&table, name).unwrap_or(0))
}

/// A row has eight numbers for receiving, then bytes, packets, errors and drops for sending.
fn dropped_in(table: &str, name: &str) -> Option<u64> {
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    row.split_whitespace().nth(8 + 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read() {
        let head = "Inter-|   Receive  |  Transmit\n face |bytes ...\n";
        let rows = "    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n   up0: 1 2 3 4 5 6 7 8 9 10 11 42 13 14 15 16\n";
        let table = format!("{head}{rows}");
        assert_eq!(dropped_in(&table, "up0"), Some(42));
        assert_eq!(dropped_in(&table, "up"), None);
    }
}
