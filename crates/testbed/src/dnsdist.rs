//! dnsdist: balancer and TLS proxy before other servers. No rate limit and no cache.
//!
//! The paper of Catamaran used the pass-through balancer of its cloud, with a health check each second. dnsdist has the
//! same health check here. A pass-through balancer sends each client to one server; dnsdist chooses for each query.

use super::error::PeerError;
use super::setup::Setup;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Maximum number of queries of one connection that are answered in any order. Without it, each query of a connection
/// waits for the answer to the one before.
const IN_FLIGHT_MAX: usize = 100;
/// Buffers of a UDP socket, in bytes. The kernel may limit them further (`net.core.rmem_max`). With the kernel's
/// default, dnsdist lost up to 4 % of the queries of a second, at 10,000 per second on a busy machine.
const BUFFER_BYTES: usize = 4 << 20;
/// The query of health checks. Every server answers it without asking others, also if only to refuse it.
const CHECK: &str =
    "checkInterval=1, maxCheckFailures=1, checkName=\"id.server.\", checkType=\"TXT\", checkClass=DNSClass.CHAOS";

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let connections_max = setup.connections();
    // The servers that are up get queries by their number of queries in flight. This is the default policy.
    let mut text = format!(
        "setSecurityPollSuffix(\"\")
setACL({{\"0.0.0.0/0\", \"::/0\"}})
setServerPolicy(leastOutstanding)
setMaxTCPQueuedConnections({connections_max})
setUDPSocketBufferSizes({BUFFER_BYTES}, {BUFFER_BYTES})
"
    );
    if let Some(threads) = setup.threads {
        let _written = writeln!(text, "setMaxTCPClientThreads({threads})");
    }
    if let Some(seconds) = setup.idle_s {
        let _written = writeln!(text, "setTCPRecvTimeout({seconds})");
    }
    // A listener is a thread that reads queries of UDP and accepts connections.
    for _ in 0..setup.threads.unwrap_or(1) {
        text.push_str(&listeners(setup));
    }
    for backend in &setup.backends {
        let _written = writeln!(text, "newServer({{address=\"{backend}\", {CHECK}}})");
    }
    text.push_str(&setup.lines);
    let config = setup.write("dnsdist.conf", &text)?;
    let mut command = Command::new(program);
    command.args(["--supervised", "--disable-syslog", "-C"]).arg(config);
    Ok(command)
}

/// One listener for each transport.
fn listeners(setup: &Setup) -> String {
    let (address, ip) = (setup.address, setup.address.ip());
    let options =
        format!("reusePort=true, maxInFlight={IN_FLIGHT_MAX}, maxConcurrentTCPConnections={}", setup.connections());
    let mut text = format!("addLocal(\"{address}\", {{{options}}})\n");
    let Some(encryption) = &setup.encryption else { return text };
    let files = format!("\"{}\", \"{}\"", encryption.certificate.display(), encryption.key.display());
    if let Some(port) = encryption.dot {
        let _written = writeln!(text, "addTLSLocal(\"{ip}:{port}\", {files}, {{{options}}})");
    }
    if let Some(port) = encryption.doh {
        let idle = setup.idle_s.map(|seconds| format!(", idleTimeout={seconds}")).unwrap_or_default();
        let _written = writeln!(text, "addDOHLocal(\"{ip}:{port}\", {files}, \"/dns-query\", {{{options}{idle}}})");
    }
    text
}
