//! Captures (pcap and pcapng): the messages that clients sent to port 53.

use super::segments::Streams;
use super::{Recorded, TraceError, Transport, read_whole};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::net::IpAddr;
use std::path::Path;

/// Octets of the read buffer; a block larger than this is refused.
const BUFFER_OCTETS: usize = 4 << 20;
/// The server's port.
const DNS_PORT: u16 = 53;

/// Every message from a client, in the order of the capture; TCP streams are put together.
///
/// # Errors
/// [`TraceError`] for the file, its compression or its format.
pub fn read_pcap(path: &Path) -> Result<Vec<Recorded>, TraceError> {
    let octets = read_whole(path)?;
    let format = |what: String| TraceError::Format("pcap", what);
    let mut reader = create_reader(BUFFER_OCTETS, octets.as_slice()).map_err(|error| format(format!("{error:?}")))?;
    let mut link = Linktype::ETHERNET;
    let mut found = Found::default();
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => link = header.network,
                    PcapBlockOwned::Legacy(packet) => found.frame(link, packet.data),
                    PcapBlockOwned::NG(pcap_parser::Block::InterfaceDescription(interface)) => {
                        link = interface.linktype
                    }
                    PcapBlockOwned::NG(pcap_parser::Block::EnhancedPacket(packet)) => found.frame(link, packet.data),
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

#[derive(Default)]
struct Found {
    messages: Vec<Recorded>,
    streams: Streams,
}

impl Found {
    /// Without the responses to clients that use port 53 themselves.
    fn queries(self) -> Vec<Recorded> {
        let is_response = |message: &Recorded| message.octets.get(2).is_some_and(|flags| flags & 0x80 != 0);
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
            17 => self.datagram(payload),
            6 => self.streams.segment(source, payload, DNS_PORT, &mut self.messages),
            _ => {}
        }
    }

    fn datagram(&mut self, datagram: &[u8]) {
        let Some((header, payload)) = datagram.split_at_checked(8) else { return };
        let length = usize::from(u16::from_be_bytes([header[4], header[5]])).saturating_sub(8);
        if u16::from_be_bytes([header[2], header[3]]) == DNS_PORT {
            let octets = payload[..payload.len().min(length)].to_vec();
            self.messages.push(Recorded { transport: Transport::Udp, octets });
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
