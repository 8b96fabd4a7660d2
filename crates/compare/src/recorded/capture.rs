//! Captures and other traces.

use super::file::{Recorded, TraceError};
use std::path::Path;
use trace::{Format, Options, Transport};

/// The port of servers (RFC 1035 4.2).
const DNS_PORT: u16 = 53;

/// Reads every message from a client to port 53, in the order of the capture. TCP streams are reassembled.
///
/// # Errors
/// [`TraceError`] if the file, its compression or its format is invalid.
pub fn read_pcap(path: &Path) -> Result<Vec<Recorded>, TraceError> {
    let options = Options { format: Some(Format::Capture), ports: vec![DNS_PORT], ..Options::default() };
    let mut reader = trace::open(path, &options)?;
    let mut queries = Vec::new();
    while let Some(message) = reader.next()? {
        // Clients may use the server's port themselves, so QR also decides, not only the direction.
        if message.server().port() == DNS_PORT && !message.is_response() {
            let transport = if message.transport == Transport::Udp { Transport::Udp } else { Transport::Tcp };
            queries.push(Recorded { transport, bytes: message.bytes.to_vec() });
        }
    }
    Ok(queries)
}
