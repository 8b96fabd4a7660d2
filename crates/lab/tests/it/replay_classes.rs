//! Latency of busy and of other clients of a trace.

use crate::support::Folder;
use crate::support::far_end::FarEnd;
use crate::support::traffic;
use lab::results;
use load::engine::{Pace, Plan};
use load::population::Server;
use load::replay::{Replay, ReplayMode, Route, Selection};
use load::workload::Workload;
use report::Rules;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use trace::{Format, Message, Transport, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Queries of each source, counted from 10.0.0.1.
const COUNTS: [u64; 5] = [120, 3, 99, 100, 7];

#[test]
fn busy_clients_and_others_are_told_apart() {
    let folder = Folder::new("replay-classes");
    let path = folder.path().join("trace.txt");
    let mut writer = Writer::create(&path, Format::Text).unwrap();
    let mut at_ns = 1_500_000_000_000_000_000;
    for number in 0..120 {
        for (source, _) in COUNTS.iter().enumerate().filter(|&(_, &count)| number < count) {
            let name: Name = format!("q{number}.s{source}.example").parse().unwrap();
            let bytes = MessageBuilder::query(number as u16, name.as_ref(), Rtype::A).build();
            let source = SocketAddr::from((Ipv4Addr::new(10, 0, 0, source as u8 + 1), 1_024));
            let destination = SocketAddr::from(([192, 0, 2, 53], 53));
            writer.write(&Message { at_ns, source, destination, transport: Transport::Udp, bytes: &bytes }).unwrap();
            at_ns += 2_000_000;
        }
    }
    writer.finish().unwrap();
    let far_end = FarEnd::start(Duration::ZERO);
    let route = Route {
        servers: vec![Server::new(far_end.address.ip(), Some(far_end.address.port()))],
        ports: BTreeMap::new(),
        sources: Some("prefix".parse().unwrap()),
        open_files_max: 1_024,
        rules: None,
        live: None,
    };
    let reading = trace::Options::default();
    let replay = Replay::new(&path, reading, Selection::default(), ReplayMode::default(), &route).unwrap();
    let servers = replay.servers().collect();
    let plan = Plan { busy_queries: 100, worker_count: 2, ..Plan::new(servers, Workload::traced(), Pace::of(replay)) };
    let (outcome, _) = traffic::measure(&plan);
    assert_eq!(far_end.end().len() as u64, COUNTS.iter().sum::<u64>());
    let mut summary = results::summary(&plan, &outcome, &Rules::default());
    summary.note_rtt(Duration::from_millis(20));
    let latency = summary.client_latency.as_ref().unwrap();
    assert_eq!((latency.busy_queries, latency.busy.clients, latency.busy.queries), (100, 2, 220));
    assert_eq!((latency.non_busy.clients, latency.non_busy.queries), (3, 109));
    for class in [&latency.busy, &latency.non_busy] {
        let (us, rtts) = (class.latency_us.p50, class.latency_rtts.unwrap().p50);
        assert!(us > 0.0 && (rtts - us / 20_000.0).abs() < 1e-9, "{latency:?}");
    }
    let shares = latency.busy.query_share + latency.non_busy.query_share;
    assert!((shares - 1.0).abs() < 1e-9 && summary.rtt.is_some(), "{latency:?}");
}
