//! Captures (pcap and pcapng): frames of a link, and the messages in them.
//!
//! ```text
//!   block --> link --> ip --> fragments --> UDP ---------------> MessageQueue
//!              ^                       +--> TCP --> streams --+
//!              +--------- tunnel <-----+
//! ```

// Link frames, and the IP packets in them.
mod header_bytes;
mod ip;
mod link;
mod wireless;
// Packets inside tunnels.
mod tunnel;
// Fragmented packets.
mod fragments;
// Messages in TCP streams, and the search for the next message after a gap.
mod search;
mod stream;
mod streams;

use crate::error::TraceError;
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, INTERFACES_MAX};
use crate::message::{Message, Transport, has_header};
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, UnreadReason};
use fragments::Fragments;
use ip::{Packet, TCP, UDP};
use link::Layer;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::io::BufRead;
use std::net::SocketAddr;
use streams::Streams;

const NO_BLOCK: &str = "no valid block here";

/// Reads a capture.
pub(crate) struct CaptureReader {
    blocks: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    at: u64,
    /// Byte order of the current section of a pcapng file.
    section: Option<Endian>,
    decoder: Decoder,
    /// How the file ended. Waiting messages come first.
    ended: Option<Result<(), TraceError>>,
}

#[derive(Clone, Copy)]
enum Endian {
    Big,
    Little,
}

/// Kind of its frames, and units of its time.
#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    units: u64,
    offset_s: i64,
}

impl CaptureReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>, ports: Vec<u16>) -> Result<Self, TraceError> {
        let blocks = create_reader(BLOCK_BYTES_MAX, bytes).map_err(|error| read_error(0, &error))?;
        Ok(Self { blocks, interfaces: Vec::new(), at: 0, section: None, decoder: Decoder::new(ports), ended: None })
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        if let Some(ended) = &mut self.ended {
            if self.decoder.end(queue, tally) {
                return Ok(true);
            }
            return std::mem::replace(ended, Ok(())).map(|()| false);
        }
        if self.section.is_some_and(|endian| is_too_short(self.blocks.data(), endian)) {
            self.ended = Some(Err(format_error(self.at, NO_BLOCK)));
            return Ok(true);
        }
        match self.blocks.next() {
            Ok((used, block)) => {
                if let PcapBlockOwned::NG(Block::SectionHeader(header)) = &block {
                    self.section = Some(if header.big_endian() { Endian::Big } else { Endian::Little });
                }
                if let Some(frame) = frame_of(&block, &mut self.interfaces) {
                    self.decoder.frame(&frame, queue, tally);
                }
                self.blocks.consume(used);
                self.at += used as u64;
            }
            Err(PcapError::Incomplete(_)) => {
                if let Err(error) = self.blocks.refill() {
                    self.ended = Some(Err(read_error(self.at, &error)));
                }
            }
            Err(PcapError::Eof) => self.ended = Some(Ok(())),
            Err(error) => self.ended = Some(Err(read_error(self.at, &error))),
        }
        Ok(true)
    }
}

/// Whether a pcapng block is shorter than any valid block. The library would subtract 12 from its length.
fn is_too_short(block: &[u8], endian: Endian) -> bool {
    let length = block.get(4..).and_then(|rest| rest.first_chunk::<4>()).map(|&bytes| match endian {
        Endian::Big => u32::from_be_bytes(bytes),
        Endian::Little => u32::from_le_bytes(bytes),
    });
    // The next section may have another byte order.
    !block.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]) && length.is_some_and(|length| length < BLOCK_BYTES_MIN)
}

fn read_error<I>(at: u64, error: &PcapError<I>) -> TraceError
where
    I: std::fmt::Debug,
{
    let what = match error {
        PcapError::Eof | PcapError::UnexpectedEof | PcapError::Incomplete(_) => "the file ends within a packet",
        PcapError::BufferTooSmall => "a block is larger than 4 MiB",
        PcapError::ReadError => "the file cannot be read, or is packed and damaged",
        PcapError::HeaderNotRecognized => "neither pcap nor pcapng",
        _ => NO_BLOCK,
    };
    format_error(at, what)
}

fn format_error(at: u64, what: &str) -> TraceError {
    TraceError::Format { format: "capture", at, what: what.into() }
}

/// A frame, as far as it was captured.
struct Frame<'f> {
    at_ns: u64,
    link: Option<Linktype>,
    bytes: &'f [u8],
}

/// Returns the frame of a block, if it has one.
fn frame_of<'f>(block: &'f PcapBlockOwned<'_>, interfaces: &mut Vec<Interface>) -> Option<Frame<'f>> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let units = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            // The upper 16 bits describe the frame check sequence, not the link type.
            let link = Linktype(header.network.0 & 0xFFFF);
            *interfaces = vec![Interface { link, units, offset_s: 0 }];
            None
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interfaces.first()?;
            let at = u128::from(packet.ts_sec) * u128::from(interface.units) + u128::from(packet.ts_usec);
            Some(Frame { at_ns: nanoseconds(at, *interface), link: Some(interface.link), bytes: packet.data })
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            None
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
            if interfaces.len() < INTERFACES_MAX {
                let units = description.ts_resolution().unwrap_or(1_000_000).max(1);
                let offset_s = description.ts_offset();
                interfaces.push(Interface { link: description.linktype, units, offset_s });
            }
            None
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interfaces.get(packet.if_id as usize);
            let at = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let bytes = packet.packet_data();
            let at_ns = interface.map_or(0, |&interface| nanoseconds(u128::from(at), interface));
            Some(Frame { at_ns, link: interface.map(|interface| interface.link), bytes })
        }
        // This block has no time.
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => Some(Frame {
            at_ns: 0,
            link: interfaces.first().map(|interface| interface.link),
            bytes: packet.packet_data(),
        }),
        PcapBlockOwned::NG(_) => None,
    }
}

/// Converts a time in the units of an interface. Too large values become the largest time.
fn nanoseconds(units: u128, interface: Interface) -> u64 {
    let nanoseconds = units * 1_000_000_000 / u128::from(interface.units);
    let at =
        i128::try_from(nanoseconds).unwrap_or(i128::MAX).saturating_add(i128::from(interface.offset_s) * 1_000_000_000);
    u64::try_from(at.max(0)).unwrap_or(u64::MAX)
}

/// Decodes frames into messages.
struct Decoder {
    ports: Vec<u16>,
    fragments: Fragments,
    streams: Streams,
}

impl Decoder {
    fn new(ports: Vec<u16>) -> Self {
        Self { ports, fragments: Fragments::default(), streams: Streams::default() }
    }

    /// Decodes a frame. It gives messages, or is counted under one reason.
    fn frame(&mut self, frame: &Frame<'_>, queue: &mut MessageQueue, tally: &mut Tally) {
        tally.records += 1;
        self.streams.expire(frame.at_ns, queue, tally);
        let link = frame.link.ok_or(UnreadReason::LinkUnknown).map(Layer::Link);
        if let Err(unread) = link.and_then(|link| self.layer(frame.at_ns, (link, frame.bytes), 0, queue, tally)) {
            tally.count(unread);
        }
    }

    /// Decodes the link and tunnel headers of a packet, then the message inside.
    fn layer(
        &mut self,
        at_ns: u64,
        (layer, bytes): (Layer, &[u8]),
        depth: usize,
        queue: &mut MessageQueue,
        tally: &mut Tally,
    ) -> Result<(), UnreadReason> {
        let (bytes, depth) = link::packet(layer, bytes, depth)?;
        let packet = ip::read(bytes)?;
        match packet.fragment {
            None => self.payload(at_ns, &packet, depth, queue, tally),
            Some(fragment) => {
                let reassembled = self.fragments.take(at_ns, &packet, fragment, tally)?;
                let packet = Packet { payload: &reassembled, fragment: None, is_cut: false, ..packet };
                self.payload(at_ns, &packet, depth, queue, tally)
            }
        }
    }

    fn payload(
        &mut self,
        at_ns: u64,
        packet: &Packet<'_>,
        depth: usize,
        queue: &mut MessageQueue,
        tally: &mut Tally,
    ) -> Result<(), UnreadReason> {
        if let Some(inner) = tunnel::in_packet(packet) {
            return self.layer(at_ns, inner?, depth + 1, queue, tally);
        }
        if !matches!(packet.protocol, UDP | TCP) {
            return Err(UnreadReason::OtherProtocol);
        }
        let short = if packet.is_cut { UnreadReason::CutShort } else { UnreadReason::HeaderMalformed };
        let &[a, b, c, d] = packet.payload.first_chunk::<4>().ok_or(short)?;
        let [from, to] = [[a, b], [c, d]].map(u16::from_be_bytes);
        if !self.ports.contains(&from) && !self.ports.contains(&to) {
            if let Some(inner) = tunnel::in_datagram(packet.protocol, [from, to], packet.payload) {
                return self.layer(at_ns, inner?, depth + 1, queue, tally);
            }
            return Err(UnreadReason::of_port([from, to]));
        }
        let (source, destination) = (SocketAddr::new(packet.source, from), SocketAddr::new(packet.destination, to));
        if packet.protocol == TCP {
            return self.streams.take(at_ns, (source, destination), packet, queue, tally);
        }
        let (header, payload) = packet.payload.split_first_chunk::<8>().ok_or(short)?;
        // RFC 768: the length includes the header. It is zero for jumbograms and with segmentation offload.
        let bytes = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
            0 => payload,
            length => payload.get(..length.checked_sub(8).ok_or(UnreadReason::HeaderMalformed)?).ok_or(short)?,
        };
        if !has_header(bytes) {
            return Err(UnreadReason::TooShort);
        }
        queue.push(Message { at_ns, source, destination, transport: Transport::Udp, bytes });
        tally.count_messages(1);
        Ok(())
    }

    /// Ends the capture. Returns true while waiting data may still give messages.
    fn end(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> bool {
        self.fragments.end(tally);
        self.streams.end(queue, tally)
    }
}
