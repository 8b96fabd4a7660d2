//! Captures (pcap and pcapng): the messages that clients sent to port 53.

use super::segments::Streams;
use super::{Observed, Recorded, TraceError, Transport, read_whole};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// Octets of the read buffer; a block larger than this is refused.
const BUFFER_OCTETS: usize = 4 << 20;
/// The server's port.
const DNS_PORT: u16 = 53;

/// Every message from a client, in the order of the capture; TCP streams are put together.
///
/// # Errors
/// [`TraceError`] for the file, its compression or its format.
pub fn read_pcap(path: &Path) -> Result<Vec<Recorded>, TraceError> {
    Ok(read_observed(path)?.into_iter().map(|observed| observed.recorded).collect())
}

/// The same with time and client.
///
/// # Errors
/// As [`read_pcap`].
pub fn read_observed(path: &Path) -> Result<Vec<Observed>, TraceError> {
    let octets = read_whole(path)?;
    let format = |what: String| TraceError::Format("pcap", what);
    let mut reader = create_reader(BUFFER_OCTETS, octets.as_slice()).map_err(|error| format(format!("{error:?}")))?;
    let mut link = Linktype::ETHERNET;
    // Units of a second, and seconds to add.
    let (mut units, mut offset) = (1_000_000, 0);
    let mut found = Found::default();
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
            Err(PcapError::Eof) => return Ok(found.queries()),
            Err(PcapError::Incomplete(_)) => reader.refill().map_err(|error| format(format!("{error:?}")))?,
            Err(error) => return Err(format(format!("{error:?}"))),
        }
    }
}

fn time(seconds: u32, fraction: u32, units: u64) -> Duration {
    let nanoseconds = u128::from(fraction) * 1_000_000_000 / u128::from(units.max(1));
    Duration::from_secs(u64::from(seconds)) + Duration::from_nanos(nanoseconds as u64)
}

#[derive(Default)]
struct Found {
    messages: Vec<Observed>,
    streams: Streams,
    /// When the packet that is looked at was seen.
    at: Duration,
}

impl Found {
    /// Without the responses to clients that use port 53 themselves.
    fn queries(self) -> Vec<Observed> {
        let is_response = |message: &Observed| message.recorded.octets.get(2).is_some_and(|flags| flags & 0x80 != 0);
        self.messages.into_iter().filter(|message| !is_response(message)).collect()
    }

    /// One frame of the link; whatever is no IP packet to port 53 is passed over.
    fn frame(&mut self, link: Linktype, frame: &[u8]) {
        let packet = match link {
            Linktype::ETHERNET => ethernet_payload(frame),
            Linktype::RAW | Linktype(12 | 14) | Linktype::IPV4 | Linktype::IPV6 => Some(frame),
            Linktype::LINUX_SLL => frame.get(16..),
            Linktype(276) => frame.get(20..),
            Linktype::NULL => frame.get(4..),
            _ => None,
        };
        let Some((source, protocol, payload)) = packet.and_then(ip_payload) else { return };
        match protocol {
            17 => self.datagram(source, payload),
            6 => self.streams.segment((source, self.at), payload, DNS_PORT, &mut self.messages),
            _ => {}
        }
    }

    fn datagram(&mut self, client: IpAddr, datagram: &[u8]) {
        let Some((header, payload)) = datagram.split_at_checked(8) else { return };
        let length = usize::from(u16::from_be_bytes([header[4], header[5]])).saturating_sub(8);
        if u16::from_be_bytes([header[2], header[3]]) == DNS_PORT {
            let octets = payload[..payload.len().min(length)].to_vec();
            let recorded = Recorded { transport: Transport::Udp, octets };
            let port = u16::from_be_bytes([header[0], header[1]]);
            self.messages.push(Observed { at: self.at, client, port, recorded });
        }
    }
}

/// Past the MAC addresses and any VLAN tags.
fn ethernet_payload(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    while matches!(frame.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xA8]) {
        at += 4;
    }
    frame.get(at + 2..)
}

/// Source address, protocol and payload of an IP packet that is no later fragment.
fn ip_payload(packet: &[u8]) -> Option<(IpAddr, u8, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0x0F) * 4;
            let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1FFF;
            let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
            let payload = packet.get(header..total.min(packet.len()))?;
            (fragment == 0).then(|| (IpAddr::from(source), packet[9], payload))
        }
        6 => {
            let length = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            let source: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
            let payload = packet.get(40..(40 + length).min(packet.len()))?;
            Some((IpAddr::from(source), packet[6], payload))
        }
        _ => None,
    }
}
