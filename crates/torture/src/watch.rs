//! Repeatedly queries each node for its SOA.

use crate::cluster::name;
use crate::history::Event;
use crate::limits::SOA_PERIOD;
use crate::net::address;
use crate::shared::{Shared, Target};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::Rtype;
use wire::builder::MessageBuilder;
use wire::number::Rcode;
use wire::parse::{Message, Section};

/// A query that was sent.
#[derive(Clone, Copy)]
struct Sent {
    node: u64,
    is_registers: bool,
    at_ns: u64,
}

/// Sends queries until the run is over.
pub(crate) fn run(shared: &Shared) {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return };
    let mut sent: Vec<Option<Sent>> = vec![None; 1 << 16];
    let (mut id, mut next) = (0u16, Instant::now());
    while !shared.is_over() {
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            next += SOA_PERIOD;
            for Target { node, slot } in shared.targets() {
                for is_registers in [true, false] {
                    id = id.wrapping_add(1);
                    let zone = if is_registers { &shared.registers } else { &shared.records };
                    let query = MessageBuilder::query(id, name(&format!("{zone}.")).as_ref(), Rtype::SOA).build();
                    sent[usize::from(id)] = Some(Sent { node, is_registers, at_ns: shared.recorder.now_ns() });
                    let _ = socket.send_to(&query, SocketAddr::from((address(slot), 53)));
                }
            }
            continue;
        }
        let _ = socket.set_read_timeout(Some(left.max(Duration::from_millis(1))));
        let mut response = [0; 1500];
        let Ok((len, _)) = socket.recv_from(&mut response) else { continue };
        let Some((id, serial)) = serial_of(&response[..len]) else { continue };
        if let Some(query) = sent[usize::from(id)].take() {
            let zone = if query.is_registers { &shared.registers } else { &shared.records }.clone();
            let (node, at_ns) = (query.node, shared.recorder.now_ns());
            shared.recorder.push(Event::Serial { zone, node, sent_ns: query.at_ns, at_ns, serial });
        }
    }
}

/// Returns the ID and the serial of a response with a SOA in its answer section.
fn serial_of(response: &[u8]) -> Option<(u16, u32)> {
    let message = Message::parse(response).ok()?;
    if message.rcode() != Rcode::NOERROR || !message.header().aa {
        return None;
    }
    let mut records = message.records(Section::Answer).flatten();
    let soa = records.find(|record| record.rtype == Rtype::SOA)?;
    let serial = soa.rdata().last_chunk::<20>()?.first_chunk::<4>()?;
    Some((message.header().id, u32::from_be_bytes(*serial)))
}
