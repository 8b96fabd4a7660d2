//! Captures (pcap and pcapng): queries to a server port, and the responses from it.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;
use trace::{Format, Options, TraceError, Transport};

/// The port of servers (RFC 1035 4.2).
pub const DNS_PORT: u16 = 53;

/// A message between a client and a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// When, since 1970.
    pub at: Duration,
    /// The client: of a query the source, of a response the destination.
    pub client: IpAddr,
    /// The port of the client.
    pub port: u16,
    /// The transport.
    pub transport: Transport,
    /// The message.
    pub bytes: Vec<u8>,
}

/// The messages of a capture, in its order. TCP streams are reassembled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capture {
    /// From clients.
    pub queries: Vec<Observed>,
    /// To clients. None if only one direction was captured.
    pub responses: Vec<Observed>,
}

/// Reads a capture: queries to servers at this port, and their responses.
///
/// # Errors
/// The reason why the file, its compression or its format cannot be read.
pub fn read_capture(path: &Path, port: u16) -> Result<Capture, String> {
    read(path, port).map_err(|error| match error {
        TraceError::File(error) => error.to_string(),
        other => format!("trace: {other}"),
    })
}

fn read(path: &Path, port: u16) -> Result<Capture, TraceError> {
    let options = Options { format: Some(Format::Capture), ports: vec![port], ..Options::default() };
    let mut reader = trace::open(path, &options)?;
    let mut capture = Capture::default();
    while let Some(message) = reader.next()? {
        // Clients may use the server's port themselves, so QR also decides, not only the direction.
        if message.server().port() != port {
            continue;
        }
        let (client, at) = (message.client(), Duration::from_nanos(message.at_ns));
        let (transport, bytes) = (message.transport, message.bytes.to_vec());
        let observed = Observed { at, client: client.ip(), port: client.port(), transport, bytes };
        if message.is_response() { capture.responses.push(observed) } else { capture.queries.push(observed) }
    }
    Ok(capture)
}
