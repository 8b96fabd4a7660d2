//! Captures (pcap and pcapng): what clients sent to a port, and what came back from it.

use super::segments::Streams;
use super::{Observed, Recorded, TraceError, Transport, read_whole};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// Octets of the read buffer; a block larger than this is refused.
const BUFFER_OCTETS: usize = 4 << 20;
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
    let octets = read_whole(path)?;
    let format = |what: String| TraceError::Format("pcap", what);
    let mut reader = create_reader(BUFFER_OCTETS, octets.as_slice()).map_err(|error| format(format!("{error:?}")))?;
    let mut link = Linktype::ETHERNET;
    // Units of a second, and seconds to add.
    let (mut units, mut offset) = (1_000_000, 0);
    let mut found = Found::at_port(port);
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        link = header.network;
                        units = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        found.at = time(packet.ts_sec, packet.ts_usec, units);
                        found.frame(link, packet.data);
                    }
                    PcapBlockOwned::NG(pcap_parser::Block::InterfaceDescription(interface)) => {
                        link = interface.linktype;
                        units = interface.ts_resolution().unwrap_or(1_000_000);
                        offset = u64::try_from(interface.ts_offset()).unwrap_or_default();
                    }
                    PcapBlockOwned::NG(pcap_parser::Block::EnhancedPacket(packet)) => {
                        let (seconds, fraction) = packet.decode_ts(offset, units);
                        found.at = time(seconds, fraction, units);
                        found.frame(link, packet.data);
                    }
                    PcapBlockOwned::NG(_) => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return Ok(found.capture()),
            Err(PcapError::Incomplete(_)) => reader.refill().map_err(|error| format(format!("{error:?}")))?,
            Err(error) => return Err(format(format!("{error:?}"))),
        }
    }
}

fn time(seconds: u32, fraction: u32, units: u64) -> Duration {
    let nanoseconds = u128::from(fraction) * 1_000_000_000 / u128::from(units.max(1));
    Duration::from_secs(u64::from(seconds)) + Duration::from_nanos(nanoseconds as u64)
}

struct Found {
    /// Of servers.
    port: u16,
    /// To that port, and from it.
    to_port: Side,
    from_port: Side,
    /// When the packet that is looked at was seen.
    at: Duration,
}

/// One direction.
#[derive(Default)]
struct Side {
    messages: Vec<Observed>,
    streams: Streams,
}

impl Found {
    fn at_port(port: u16) -> Self {
        Self { port, to_port: Side::default(), from_port: Side::default(), at: Duration::ZERO }
    }

    /// Clients may use the server's port themselves: QR tells, not the direction alone.
    fn capture(self) -> Capture {
        let is_response = |message: &Observed| message.recorded.octets.get(2).is_some_and(|flags| flags & 0x80 != 0);
        let mut capture = Capture { queries: self.to_port.messages, responses: self.from_port.messages };
        capture.queries.retain(|message| !is_response(message));
        capture.responses.retain(is_response);
        capture
    }

    /// One frame of the link; whatever is no IP packet to or from the port is passed over.
    fn frame(&mut self, link: Linktype, frame: &[u8]) {
        let packet = match link {
            Linktype::ETHERNET => ethernet_payload(frame),
            Linktype::RAW | Linktype(12 | 14) | Linktype::IPV4 | Linktype::IPV6 => Some(frame),
            Linktype::LINUX_SLL => frame.get(16..),
            Linktype(276) => frame.get(20..),
            Linktype::NULL => frame.get(4..),
            _ => None,
        };
        let Some(packet) = packet.and_then(ip_packet) else { return };
        let Some((ports, _)) = packet.payload.split_first_chunk::<4>() else { return };
        let [from, to] = [[ports[0], ports[1]], [ports[2], ports[3]]].map(u16::from_be_bytes);
        if to == self.port {
            self.to_port.take((packet.source, from), self.at, &packet);
        }
        if from == self.port {
            self.from_port.take((packet.destination, to), self.at, &packet);
        }
    }
}

impl Side {
    /// Takes one packet of a client at its address and port.
    fn take(&mut self, client: (IpAddr, u16), at: Duration, packet: &Packet<'_>) {
        match packet.protocol {
            17 => self.datagram(client, at, packet.payload),
            6 => self.streams.segment(client, at, packet.payload, &mut self.messages),
            _ => {}
        }
    }

    fn datagram(&mut self, (client, port): (IpAddr, u16), at: Duration, datagram: &[u8]) {
        let Some((header, payload)) = datagram.split_at_checked(8) else { return };
        let length = usize::from(u16::from_be_bytes([header[4], header[5]])).saturating_sub(8);
        let octets = payload[..payload.len().min(length)].to_vec();
        self.messages.push(Observed { at, client, port, recorded: Recorded { transport: Transport::Udp, octets } });
    }
}

/// What matters of an IP packet.
struct Packet<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    payload: &'a [u8],
}

/// Past the MAC addresses and any VLAN tags.
fn ethernet_payload(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    while matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xA8]) {
        at += 4;
    }
    frame.get(at + 2..)
}

/// An IP packet that is no later fragment.
fn ip_packet(packet: &[u8]) -> Option<Packet<'_>> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0x0F) * 4;
            let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1FFF;
            let address = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
            let payload = packet.get(header..total.min(packet.len()))?;
            let (source, destination) = (address(12)?, address(16)?);
            (fragment == 0).then_some(Packet { source, destination, protocol: packet[9], payload })
        }
        6 => {
            let length = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            let address = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
            let payload = packet.get(40..(40 + length).min(packet.len()))?;
            Some(Packet { source: address(8)?, destination: address(24)?, protocol: packet[6], payload })
        }
        _ => None,
    }
}
