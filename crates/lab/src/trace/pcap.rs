//! Captures (pcap and pcapng): what clients sent to a port, and what came back from it.

use super::{Observed, Recorded, TraceError, Transport};
use ::trace::{Format, Options};
use std::path::Path;
use std::time::Duration;

/// The port of servers (RFC 1035 4.2).
pub const DNS_PORT: u16 = 53;

/// What a capture holds, in its order; TCP streams are put together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capture {
    /// From clients.
    pub queries: Vec<Observed>,
    /// To clients; none when only one direction was captured.
    pub responses: Vec<Observed>,
}

/// Every message from a client to port 53, in the order of the capture; TCP streams are put together.
///
/// # Errors
/// [`TraceError`] for the file, its compression or its format.
pub fn read_pcap(path: &Path) -> Result<Vec<Recorded>, TraceError> {
    Ok(read_capture(path, DNS_PORT)?.queries.into_iter().map(|observed| observed.recorded).collect())
}

/// The same with time and client, from servers that answer at this port, and what they answered.
///
/// # Errors
/// As [`read_pcap`].
pub fn read_capture(path: &Path, port: u16) -> Result<Capture, TraceError> {
    let options = Options { format: Some(Format::Capture), ports: vec![port], ..Options::default() };
    let mut reader = ::trace::open(path, &options)?;
    let mut capture = Capture::default();
    while let Some(message) = reader.next()? {
        // Clients may use the server's port themselves: QR tells, not the direction alone.
        if message.server().port() != port {
            continue;
        }
        let client = message.client();
        let transport = if message.transport == ::trace::Transport::Udp { Transport::Udp } else { Transport::Tcp };
        let recorded = Recorded { transport, bytes: message.bytes.to_vec() };
        let at = Duration::from_nanos(message.at_ns);
        let observed = Observed { at, client: client.ip(), port: client.port(), recorded };
        if message.is_response() { capture.responses.push(observed) } else { capture.queries.push(observed) }
    }
    Ok(capture)
}
