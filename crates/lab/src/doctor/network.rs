//! Limits of sockets, ports and buffers.

use super::finding::{Finding, Needs, Severity, number, words};
use sockets::limits::SOCKET_BUFFER_BYTES;

/// File descriptors of a run besides its sockets.
const FILES_BESIDE: u64 = 64;
/// Maximum fill level of the connection tracking table. Above it, new connections may be dropped during a run.
const CONNTRACK_SHARE_MAX: f64 = 0.5;

pub(super) fn findings(needs: &Needs) -> Vec<Finding> {
    let mut findings = vec![files(needs), ports(needs)];
    findings.extend(buffers());
    findings.push(conntrack(needs));
    findings
}

fn files(needs: &Needs) -> Finding {
    let (soft, hard) = open_files();
    let needed = needs.connection_count + FILES_BESIDE;
    let seen = format!("{soft} may be open, {hard} on request; this run needs {needed}");
    let remedy = format!("raise the limit (ulimit -Hn {needed}), or share the clients between several processes");
    Finding::unless(needed <= hard, Severity::Failure, "open files", seen, remedy)
}

/// The soft and the hard limit of open files.
fn open_files() -> (u64, u64) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut values = line.unwrap_or_default().split_ascii_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    let soft = values.next().unwrap_or(u64::MAX);
    (soft, values.next().unwrap_or(u64::MAX))
}

fn ports(needs: &Needs) -> Finding {
    let range = words("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let bounds: Vec<u64> = range.iter().filter_map(|word| word.parse().ok()).collect();
    let [low, high] = bounds[..] else {
        return Finding::ok("ports per address", "the kernel does not tell its range");
    };
    let count = (high + 1).saturating_sub(low);
    let (sources, servers) = (needs.source_count.max(1), needs.server_count.max(1));
    // Each pair of source and server address has its own ports.
    let needed = needs.connection_count.div_ceil(sources * servers);
    let seen = format!("{count} ({low} to {high}); this run needs {needed} on each");
    let sources = (needs.connection_count.div_ceil(count.max(1) * servers)).max(1);
    let remedy = format!(
        "use {sources} source addresses (--source with a list), or sysctl -w \
         net.ipv4.ip_local_port_range=\"1024 65535\""
    );
    Finding::unless(needed <= count, Severity::Failure, "ports per address", seen, remedy)
}

fn buffers() -> Vec<Finding> {
    let needed = SOCKET_BUFFER_BYTES as u64;
    let one = |what, path: &str| {
        let limit = number(&format!("/proc/sys/{}", path.replace('.', "/")))?;
        let seen = format!("{path} is {limit} bytes; a worker asks for {needed}");
        let remedy =
            format!("sysctl -w {path}={needed}; without it bursts of answers may be lost here (they are counted)");
        // Root may exceed the limit.
        Some(Finding::unless(limit >= needed || is_root(), Severity::Warning, what, seen, remedy))
    };
    let receive = one("receive buffers", "net.core.rmem_max");
    let send = one("send buffers", "net.core.wmem_max");
    receive.into_iter().chain(send).collect()
}

fn is_root() -> bool {
    // Owner of this process's entry: the effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

fn conntrack(needs: &Needs) -> Finding {
    let what = "connection tracking";
    let folder = "/proc/sys/net/netfilter";
    let Some(limit) = number(&format!("{folder}/nf_conntrack_max")) else {
        return Finding::ok(what, "not loaded");
    };
    let count = number(&format!("{folder}/nf_conntrack_count")).unwrap_or_default();
    let seen = format!("{count} of {limit} entries are taken; this run adds up to {}", needs.connection_count);
    let remedy = "take the test's traffic out of it (nft: `notrack` in a raw prerouting and output chain), or raise \
                  net.netfilter.nf_conntrack_max";
    let is_ok = (count + needs.connection_count) as f64 <= limit as f64 * CONNTRACK_SHARE_MAX;
    Finding::unless(is_ok, Severity::Warning, what, seen, remedy)
}
