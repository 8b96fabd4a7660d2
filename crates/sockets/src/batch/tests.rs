//! Batches between sockets of this machine.

use super::*;
use crate::system::{enable_destinations, enable_stamps};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

/// Receives `count` datagrams: bytes, sender and destination.
fn take(socket: &UdpSocket, count: usize) -> Vec<(Vec<u8>, Option<SocketAddr>, Option<IpAddr>)> {
    let (mut incoming, mut received) = (Incoming::new().with_senders(), Vec::new());
    let start = Instant::now();
    while received.len() < count && start.elapsed() < Duration::from_secs(10) {
        for index in 0..incoming.receive(socket).unwrap() {
            let message = incoming.message(index).to_vec();
            received.push((message, incoming.sender(index), incoming.destination(index)));
        }
    }
    received
}

fn socket(address: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    enable_destinations(&socket, address.is_ipv6()).unwrap();
    // The timestamp comes before the address in the control data.
    enable_stamps(&socket).unwrap();
    socket
}

#[test]
fn the_length_of_a_cut_datagram_is_known() {
    let (near, far) = (socket(Ipv4Addr::LOCALHOST.into()), socket(Ipv4Addr::LOCALHOST.into()));
    let (mut incoming, bytes) = (Incoming::new(), vec![7; RESPONSE_BYTES_KEPT + 952]);
    far.send_to(&bytes, near.local_addr().unwrap()).unwrap();
    // Over loopback it is there at once.
    assert_eq!(incoming.receive(&near).unwrap(), 1);
    assert_eq!((incoming.message(0).len(), incoming.cut_bytes(0)), (RESPONSE_BYTES_KEPT, 952));
}

#[test]
fn each_message_has_its_own_source_and_answers_find_it() {
    let (near, far) = (socket(Ipv4Addr::UNSPECIFIED.into()), socket(Ipv4Addr::UNSPECIFIED.into()));
    let (port, far_port) = (near.local_addr().unwrap().port(), far.local_addr().unwrap().port());
    let server = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 53), far_port));
    let sources: Vec<IpAddr> = (1..=5).map(|last| Ipv4Addr::new(127, 9, 8, last).into()).collect();
    let mut outgoing = Outgoing::to(server);
    for (index, source) in sources.iter().enumerate() {
        outgoing.push(|slot| {
            slot[..3].fill(index as u8);
            3
        });
        outgoing.set_source(Some(*source));
    }
    assert_eq!(outgoing.send(&near, 0, true).unwrap(), 5);
    let received = take(&far, 5);
    let senders: Vec<_> = received.iter().map(|(bytes, sender, _)| (bytes[0], *sender)).collect();
    let expected: Vec<_> =
        (0..).zip(&sources).map(|(index, &source)| (index, Some(SocketAddr::new(source, port)))).collect();
    assert_eq!(senders, expected);
    assert!(received.iter().all(|(bytes, _, to)| bytes.len() == 3 && *to == Some(server.ip())), "{received:?}");
    let mut answers = Outgoing::to(SocketAddr::new(sources[3], port));
    answers.push(|slot| {
        slot[0] = 9;
        1
    });
    answers.set_source(Some(server.ip()));
    assert_eq!(answers.send(&far, 0, false).unwrap(), 1);
    let [(bytes, sender, to)] = &take(&near, 1)[..] else { panic!("no answer") };
    assert_eq!((&bytes[..], *sender, *to), (&[9][..], Some(server), Some(sources[3])));
}

#[test]
fn segmented_sends_arrive_as_separate_datagrams() {
    let mut families: Vec<(IpAddr, [IpAddr; 2])> =
        vec![(Ipv4Addr::LOCALHOST.into(), [[127, 9, 8, 1].into(), [127, 9, 8, 2].into()])];
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        families.push((Ipv6Addr::LOCALHOST.into(), [Ipv6Addr::LOCALHOST.into(); 2]));
    } else {
        skip::platform("IPv6");
    }
    for (address, [one, other]) in families {
        let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let (near, far) = (socket(any), socket(address));
        let mut outgoing = Outgoing::to(far.local_addr().unwrap());
        // A run ends at another source, at another length, or at the end of the batch.
        let all: Vec<(usize, IpAddr)> =
            [(40, one), (40, one), (40, other), (40, other), (40, other), (41, other), (40, other), (40, one)].into();
        for (index, &(length, source)) in all.iter().enumerate() {
            outgoing.push(|slot| {
                slot[..length].fill(index as u8);
                length
            });
            outgoing.set_source(Some(source));
        }
        let mut runs = [0; BATCH_COUNT];
        let count = outgoing.lay_out(0, true, &mut runs);
        let expected: &[usize] = if one == other { &[5, 1, 2] } else { &[2, 3, 1, 1, 1] };
        assert_eq!(&runs[..count], expected);
        assert_eq!(outgoing.send(&near, 0, true).unwrap(), all.len());
        let received: Vec<_> = take(&far, all.len()).into_iter().map(|(bytes, from, _)| (bytes, from)).collect();
        let port = near.local_addr().unwrap().port();
        let sent = (0..).zip(&all).map(|(index, &(length, from))| (vec![index; length], Some((from, port).into())));
        assert_eq!(received, sent.collect::<Vec<_>>());
    }
}

#[test]
fn a_run_ends_at_another_destination() {
    let far: Vec<_> = (0..2).map(|_| socket(Ipv4Addr::LOCALHOST.into())).collect();
    let near = socket(Ipv4Addr::LOCALHOST.into());
    let mut outgoing = Outgoing::to_each();
    for index in [0, 0, 0, 1, 1, 0] {
        outgoing.push(|slot| {
            slot[..40].fill(index as u8);
            40
        });
        outgoing.set_destination(far[index].local_addr().unwrap());
    }
    let mut runs = [0; BATCH_COUNT];
    let count = outgoing.lay_out(0, true, &mut runs);
    assert_eq!(runs[..count], [3, 2, 1]);
    assert_eq!(outgoing.send(&near, 0, true).unwrap(), 6);
    for (index, far, expected) in [(0, &far[0], 4), (1, &far[1], 2)] {
        let received = take(far, expected);
        assert!(received.iter().all(|(bytes, ..)| *bytes == [index; 40]) && received.len() == expected);
    }
}

#[test]
fn each_message_can_have_its_own_destination() {
    let far: Vec<_> = (0..2).map(|_| socket(Ipv4Addr::LOCALHOST.into())).collect();
    let near = socket(Ipv4Addr::UNSPECIFIED.into());
    let mut outgoing = Outgoing::to_each();
    for round in 0..2 {
        for (index, far) in far.iter().enumerate() {
            outgoing.push(|slot| {
                slot[..2].copy_from_slice(&[round, index as u8]);
                2
            });
            outgoing.set_source(Some(Ipv4Addr::new(127, 0, 0, 9).into()));
            outgoing.set_destination(far.local_addr().unwrap());
        }
    }
    assert_eq!(outgoing.send(&near, 0, true).unwrap(), 4);
    for (index, far) in far.iter().enumerate() {
        let received = take(far, 2);
        let bytes: Vec<_> = received.iter().map(|(bytes, ..)| bytes.clone()).collect();
        assert_eq!(bytes, [[0, index as u8], [1, index as u8]]);
        assert!(received.iter().all(|(_, sender, _)| sender.unwrap().ip() == Ipv4Addr::new(127, 0, 0, 9)));
    }
}

#[test]
fn ipv6_destinations_are_reported() {
    let Ok(probe) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else {
        skip::platform("IPv6");
        return;
    };
    drop(probe);
    let (near, far) = (socket(Ipv6Addr::UNSPECIFIED.into()), socket(Ipv6Addr::UNSPECIFIED.into()));
    let server = SocketAddr::from((Ipv6Addr::LOCALHOST, far.local_addr().unwrap().port()));
    let mut outgoing = Outgoing::to(server);
    outgoing.push(|slot| {
        slot[0] = 7;
        1
    });
    outgoing.set_source(Some(Ipv6Addr::LOCALHOST.into()));
    assert_eq!(outgoing.send(&near, 0, false).unwrap(), 1);
    let [(bytes, sender, to)] = &take(&far, 1)[..] else { panic!("no query") };
    let expected = SocketAddr::from((Ipv6Addr::LOCALHOST, near.local_addr().unwrap().port()));
    assert_eq!((&bytes[..], *sender, *to), (&[7][..], Some(expected), Some(server.ip())));
}
