//! Compares the line with a model that keeps all packets in one list, and checks its promises for any input.

use super::*;
use crate::limits::MTU;
use proptest::prelude::*;
use std::time::Duration;

fn shape(rtt_ms: u64) -> Shape {
    Shape::constant(Duration::from_millis(rtt_ms))
}

/// An IPv4 packet of a client with a number in it.
fn packet(client: u8, number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.max(24)];
    bytes[0] = 0x45;
    bytes[12..16].copy_from_slice(&[10, 100, 0, client]);
    bytes[16..20].copy_from_slice(&[10, 53, 0, 1]);
    bytes[20..24].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number_of(bytes: &[u8]) -> usize {
    u32::from_be_bytes(bytes[20..24].try_into().unwrap()) as usize
}

/// Empties the line. Returns the time and number of each packet.
fn drained(line: &mut Line) -> Vec<(u64, usize)> {
    let mut out = Vec::new();
    while let Some(at_ns) = line.poll_timeout() {
        assert!(at_ns == 0 || line.poll_due(at_ns - 1).is_none(), "nothing comes before it is due");
        let due = line.poll_due(at_ns).unwrap();
        out.push((due.at_ns, number_of(&due.bytes)));
        line.recycle(due);
    }
    out
}

#[test]
fn a_constant_delay_is_half_the_round_trip() {
    let mut line = Line::new(shape(20), Direction::Up, 1);
    line.handle_packet(&packet(1, 7, 100), 1_000);
    assert_eq!(line.poll_timeout(), Some(10_001_000));
    assert!(line.poll_due(10_000_999).is_none());
    let due = line.poll_due(10_001_000).unwrap();
    assert_eq!(due.bytes, packet(1, 7, 100));
    assert!(line.poll_timeout().is_none());
}

#[test]
fn a_rate_serializes_packets_and_drops_queue_overflow() {
    // 1,500 bytes take 12 ms at 1 Mbit/s. Three packets may wait behind the one being sent.
    let rate = Some(Rate { bits: 1_000_000, queue_bytes: 3 * 1_500 });
    let mut line = Line::new(Shape { rate, ..shape(0) }, Direction::Up, 1);
    for number in 0..10 {
        line.handle_packet(&packet(1, number, 1_500), 0);
    }
    let out = drained(&mut line);
    assert_eq!(out, (1..=4).map(|turn| (turn * 12_000_000, turn as usize - 1)).collect::<Vec<_>>());
    assert_eq!(line.counts().dropped_by_rate, 6);
    line.handle_packet(&packet(1, 10, 1_500), 100_000_000);
    assert_eq!(drained(&mut line), [(112_000_000, 10)]);
}

#[test]
fn losses_and_bursts_are_as_configured() {
    for (share, burst) in [(0.1, 1.0), (0.1, 5.0), (0.0, 1.0), (1.0, 1.0)] {
        let loss = Loss { share, burst };
        let mut line = Line::new(Shape { loss, ..shape(0) }, Direction::Up, 3);
        let mut fates = Vec::new();
        for number in 0..200_000 {
            let before = line.counts().lost;
            line.handle_packet(&packet(1, number, 40), 0);
            drained(&mut line);
            fates.push(line.counts().lost > before);
        }
        let lost = fates.iter().filter(|lost| **lost).count();
        let found = lost as f64 / 200_000.0;
        assert!((found - share).abs() < 0.01, "{share} {burst}: {found}");
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        if burst > 1.0 {
            let found = lost as f64 / bursts as f64;
            assert!((found / burst - 1.0).abs() < 0.05, "{found}");
        }
    }
}

#[test]
fn losses_depend_on_seed_and_direction() {
    let lost = |direction, seed| {
        let loss = Loss { share: 0.5, burst: 1.0 };
        let mut line = Line::new(Shape { loss, ..shape(0) }, direction, seed);
        (0..64).for_each(|number| line.handle_packet(&packet(1, number, 40), 0));
        drained(&mut line)
    };
    assert_eq!(lost(Direction::Up, 1), lost(Direction::Up, 1));
    assert_ne!(lost(Direction::Up, 1), lost(Direction::Up, 2));
    assert_ne!(lost(Direction::Up, 1), lost(Direction::Down, 1));
}

#[test]
fn queues_are_bounded_in_packets_and_bytes() {
    let mut line = Line::new(shape(20), Direction::Up, 1);
    for number in 0..QUEUED_PACKETS_MAX as u32 + 5 {
        line.handle_packet(&packet(1, number, 40), 0);
    }
    assert_eq!(line.counts().dropped_by_room, 5);
    assert_eq!(line.counts().held_max, QUEUED_PACKETS_MAX as u64);
    let mut line = Line::new(shape(20), Direction::Up, 1);
    let fit = QUEUED_BYTES_MAX / MTU;
    (0..fit as u32 + 3).for_each(|number| line.handle_packet(&packet(1, number, MTU), 0));
    assert_eq!(line.counts().dropped_by_room, 3);
    assert_eq!(drained(&mut line).len(), fit);
}

#[test]
fn clients_are_equal_in_both_directions_and_families() {
    let mut six = vec![0_u8; 40];
    six[0] = 0x60;
    six[8..24].copy_from_slice(&[1; 16]);
    six[24..40].copy_from_slice(&[2; 16]);
    assert_eq!(client_of(&six, Direction::Up), Some(Ipv6Addr::from([1; 16]).into()));
    assert_eq!(client_of(&six, Direction::Down), Some(Ipv6Addr::from([2; 16]).into()));
    let four = packet(9, 0, 40);
    assert_eq!(client_of(&four, Direction::Up), Some("10.100.0.9".parse().unwrap()));
    assert_eq!(client_of(&four, Direction::Down), Some("10.53.0.1".parse().unwrap()));
    for cut in [&[][..], &four[..13], &six[..20], &[0xFF; 60]] {
        assert_eq!(client_of(cut, Direction::Up), None);
    }
}

prop_compose! {
    /// Gaps between arrivals, clients and lengths.
    fn arrivals()(arrivals in prop::collection::vec((0_u64..3_000_000, 0_u8..4, 24_usize..1_500), 1..200))
        -> Vec<(u64, u8, usize)> {
        let mut now_ns = 0;
        arrivals.into_iter().map(|(gap, client, length)| { now_ns += gap; (now_ns, client, length) }).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Without randomness, the line equals a list from which the earliest packet is always taken.
    #[test]
    fn the_line_equals_a_sorted_list(
        arrivals in arrivals(),
        rtts in prop::collection::vec(0_u64..40, 1..4),
        bits in prop::option::of(100_000_u64..100_000_000),
        queue_bytes in 0_u64..20_000,
    ) {
        let rtt = Rtt::List(rtts.iter().map(|rtt| Duration::from_millis(*rtt)).collect());
        let rate = bits.map(|bits| Rate { bits, queue_bytes });
        let shape = Shape { rtt: rtt.clone(), rate, ..shape(0) };
        let mut line = Line::new(shape, Direction::Up, 5);
        let (mut model, mut free_ns, mut dropped) = (Vec::new(), 0_u64, 0);
        for (number, &(now_ns, client, length)) in arrivals.iter().enumerate() {
            line.handle_packet(&packet(client, number as u32, length), now_ns);
            let mut leaves = now_ns;
            if let Some(bits) = bits {
                let transmit_ns = |bytes: u64| bytes * 8_000_000_000 / bits;
                if free_ns.saturating_sub(now_ns) > transmit_ns(queue_bytes) {
                    dropped += 1;
                    continue;
                }
                free_ns = free_ns.max(now_ns) + transmit_ns(length as u64);
                leaves = free_ns;
            }
            let rtt = rtt.of(Ipv4Addr::new(10, 100, 0, client).into(), 5);
            model.push((leaves + rtt.as_nanos() as u64 / 2, number));
        }
        model.sort_unstable();
        prop_assert_eq!(drained(&mut line), model);
        prop_assert_eq!(line.counts().dropped_by_rate, dropped);
    }

    /// For any shape: no packet is early, or later than jitter and order allow. None comes twice, and each is counted
    /// once. The packets of a client stay in order unless reordering is allowed.
    #[test]
    fn packets_are_not_early_and_counted_once(
        arrivals in arrivals(),
        jitter_ms in 0_u64..30,
        share in 0.0_f64..0.5,
        burst in 1.0_f64..4.0,
        reorder: bool,
    ) {
        let jitter = Duration::from_millis(jitter_ms);
        let loss = Loss { share, burst };
        let mut line = Line::new(Shape { jitter, loss, reorder, ..shape(20) }, Direction::Up, 5);
        let mut out = Vec::new();
        for (number, &(now_ns, client, length)) in arrivals.iter().enumerate() {
            while let Some(due) = line.poll_due(now_ns) {
                out.push((due.at_ns, number_of(&due.bytes)));
                line.recycle(due);
            }
            line.handle_packet(&packet(client, number as u32, length), now_ns);
        }
        out.extend(drained(&mut line));
        let mut last = [0_usize; 4];
        let mut seen = vec![false; arrivals.len()];
        for &(at_ns, number) in &out {
            let (arrived_ns, client, _) = arrivals[number];
            prop_assert!(at_ns >= arrived_ns + 10_000_000);
            prop_assert!(at_ns <= arrived_ns + 10_000_000 + jitter_ms * 500_000);
            prop_assert!(!std::mem::replace(&mut seen[number], true));
            prop_assert!(reorder || number >= last[client as usize]);
            last[client as usize] = number;
        }
        let counts = line.counts();
        prop_assert_eq!(counts.held, 0);
        prop_assert_eq!(counts.packets, arrivals.len() as u64);
        prop_assert_eq!(counts.delivered, out.len() as u64);
        prop_assert_eq!(counts.lost + counts.delivered, counts.packets);
        prop_assert!(line.clients.is_empty() && line.bytes_held == 0);
    }
}
