//! Counts local ports in use. Each connection to one server needs its own port (RFC 9293 3.3.10).

use measure::Transport;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Ports used by the connections of a worker.
#[derive(Default, Debug)]
pub(super) struct PortCount {
    /// The current and the maximum number.
    in_use: BTreeMap<(Transport, SocketAddr), (u64, u64)>,
}

impl PortCount {
    /// A connection was opened.
    pub(super) fn acquire(&mut self, transport: Transport, server: SocketAddr) {
        let (now, most) = self.in_use.entry((transport, server)).or_default();
        *now += 1;
        *most = (*most).max(*now);
    }

    /// A connection has ended.
    pub(super) fn release(&mut self, transport: Transport, server: SocketAddr) {
        if let Some((now, _)) = self.in_use.get_mut(&(transport, server)) {
            *now = now.saturating_sub(1);
        }
    }

    /// The maximum numbers.
    pub(super) fn most(&self) -> impl Iterator<Item = ((Transport, SocketAddr), u64)> {
        self.in_use.iter().map(|(&key, &(_, most))| (key, most))
    }
}

/// The range of ephemeral ports. `None` if the kernel does not report it.
#[must_use]
pub fn range() -> Option<(u16, u16)> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut bounds = text.split_ascii_whitespace().filter_map(|field| field.parse().ok());
    Some((bounds.next()?, bounds.next()?))
}

/// Closed connections of this machine whose ports are still blocked (TIME-WAIT, RFC 9293 3.3.2).
pub(super) fn time_wait_count() -> u64 {
    time_wait(&std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default())
}

fn time_wait(sockstat: &str) -> u64 {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP:")).unwrap_or_default();
    let mut fields = line.split_ascii_whitespace().skip_while(|field| *field != "tw").skip(1);
    fields.next().and_then(|field| field.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_port_count_is_kept() {
        let (server, other) = (SocketAddr::from(([127, 0, 0, 1], 53)), SocketAddr::from(([127, 0, 0, 1], 54)));
        let mut ports = PortCount::default();
        (0..3).for_each(|_| ports.acquire(Transport::Tcp, server));
        (0..2).for_each(|_| ports.release(Transport::Tcp, server));
        ports.acquire(Transport::Tcp, server);
        ports.acquire(Transport::Tcp, other);
        let most: Vec<_> = ports.most().map(|((_, server), most)| (server.port(), most)).collect();
        assert_eq!(most, [(53, 3), (54, 1)]);
    }

    #[test]
    fn time_wait_sockets_are_counted() {
        let text = "sockets: used 290\nTCP: inuse 5 orphan 0 tw 312 alloc 9 mem 1\nUDP: inuse 2 mem 0\n";
        assert_eq!((time_wait(text), time_wait("")), (312, 0));
    }
}
