//! Replayed traces, checked at the receiver: each query arrives once, unchanged and in order, and sources are kept
//! apart.

use crate::support;
use crate::support::Folder;
use crate::support::engines::engine_alone;
use crate::support::far_end::{Arrival, FarEnd};
use crate::support::traffic;
use crate::support::traffic::number;
use lab::results;
use load::engine::{Outcome, Pace, Plan, TlsPlan};
use load::population::Server;
use load::replay::{LatePolicy, Replay, ReplayMode, Route, Selection, Sources};
use load::workload::Workload;
use measure::Transport;
use report::{Rules, Summary, Validity};
use skip::stalls::StallWatch;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testbed::echo::{Echo, EchoPlan, Fault, Faults, ReceivedQuery};
use trace::{DnstapSide, Format, Message, UnreadReason, Writer};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

const MS: u64 = 1_000_000;
/// Any date.
const START_NS: u64 = 1_500_000_000 * 1_000 * MS;

/// Query `number`. Every query has its own name, and their lengths differ.
fn query(number: u64) -> Vec<u8> {
    let name: Name = format!("q{number}.{}example", "x.".repeat(number as usize % 5)).parse().unwrap();
    let builder = MessageBuilder::query(number as u16 ^ 0x5A5A, name.as_ref(), Rtype::AAAA);
    let builder = if number.is_multiple_of(3) { builder.edns(1_232, true) } else { builder };
    builder.header(|header| header.rd = number.is_multiple_of(2)).build()
}

/// A query of a trace: its time, source and transport.
struct Line {
    at_ns: u64,
    source: SocketAddr,
    transport: trace::Transport,
}

fn line(at_ns: u64, network: [u8; 3], source: u64) -> Line {
    let [one, two, three] = network;
    let source = SocketAddr::from((Ipv4Addr::new(one, two, three, source as u8 + 1), 1_024 + source as u16));
    Line { at_ns, source, transport: trace::Transport::Udp }
}

/// Writes a trace with one query per line, and a response after every seventh.
fn written(folder: &Folder, lines: &[Line]) -> PathBuf {
    let path = folder.path().join("trace.txt");
    let mut writer = Writer::create(&path, Format::Text).unwrap();
    let server = SocketAddr::from(([192, 0, 2, 53], 53));
    for (number, line) in lines.iter().enumerate() {
        let mut bytes = query(number as u64);
        let Line { at_ns, source, transport } = *line;
        let at_ns = START_NS + at_ns;
        writer.write(&Message { at_ns, source, destination: server, transport, bytes: &bytes }).unwrap();
        if number.is_multiple_of(7) {
            bytes[2] |= 0x80;
            writer.write(&Message { at_ns, source: server, destination: source, transport, bytes: &bytes }).unwrap();
        }
    }
    writer.finish().unwrap();
    path
}

fn route(server: SocketAddr, sources: Option<Sources>) -> Route {
    let server = Server::new(server.ip(), Some(server.port()));
    Route { servers: vec![server], ports: BTreeMap::new(), sources, open_files_max: 1_024, rules: None, live: None }
}

fn replay(path: &Path, selection: Selection, mode: ReplayMode, route: &Route) -> Replay {
    Replay::new(path, trace::Options::default(), selection, mode, route).unwrap()
}

/// A capture of a query and a packet of IPsec ESP.
#[test]
fn packets_in_unsupported_tunnels_are_counted() {
    let packet = |protocol: u8, payload: &[u8]| {
        let mut packet = vec![0x45, 0, 0, (20 + payload.len()) as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend([10, 0, 0, 1, 192, 0, 2, 53]);
        packet.extend(payload);
        let length = packet.len() as u32;
        [&[1, 0, length, length].map(u32::to_le_bytes).concat()[..], &packet].concat()
    };
    let query = query(1);
    let udp = [&[16, 0, 0, 53, 0, 8 + query.len() as u8, 0, 0][..], &query].concat();
    let header = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    let folder = Folder::new("replay-tunnel");
    let path = folder.path().join("tunnel.pcap");
    std::fs::write(&path, [header, packet(17, &udp), packet(50, &[7; 40])].concat()).unwrap();
    let route = route(SocketAddr::from((Ipv4Addr::LOCALHOST, 53)), Some(Sources::Sockets));
    let replay = replay(&path, Selection::default(), ReplayMode::default(), &route);
    assert_eq!(
        (replay.survey().queries, &replay.survey().left_out[..]),
        (1, &[(UnreadReason::EncapsulatedEsp, 1)][..])
    );
}

/// The log has eight messages of each type. Only the client queries are replayed.
#[test]
fn client_queries_of_a_dnstap_log_are_replayed() {
    let Some(path) = support::data("traces/bind-dnstap.saved.fstrm") else { return };
    let route = route(SocketAddr::from((Ipv4Addr::LOCALHOST, 53)), Some(Sources::Sockets));
    let replay = |dnstap: Vec<DnstapSide>| {
        let reading = trace::Options { dnstap, ..trace::Options::default() };
        Replay::new(&path, reading, Selection::default(), ReplayMode::default(), &route).unwrap()
    };
    let survey = replay(Vec::new()).survey().clone();
    let left_out: u64 = survey.left_out.iter().map(|(_, count)| count).sum();
    assert_eq!((survey.queries, survey.responses, left_out, survey.left_out.len()), (8, 8, 80, 5));
    assert_eq!(replay(DnstapSide::ALL.into()).survey().queries, 48);
}

fn plan(replay: Replay, worker_count: usize) -> Plan {
    Plan {
        worker_count,
        timeout: Duration::from_secs(2),
        socket_count: 2,
        tls: TlsPlan { is_insecure: true, ..TlsPlan::default() },
        ..Plan::new(replay.servers().collect(), Workload::traced(), Pace::of(replay))
    }
}

fn measure(plan: &Plan) -> (Outcome, Summary) {
    let (outcome, _) = traffic::measure(plan);
    let summary = results::summary(plan, &outcome, &Rules::default());
    (outcome, summary)
}

/// Checks the arrivals: each query once, the same bytes except the ID, those of a source in order and from one address
/// and port that no other source uses. Returns this address for each source.
fn judge(arrivals: &[Arrival], lines: &[Line]) -> BTreeMap<SocketAddr, SocketAddr> {
    let mut numbers: Vec<u64> = arrivals.iter().map(|arrival| number(&arrival.bytes)).collect();
    let mut senders = BTreeMap::new();
    let mut last = BTreeMap::new();
    for (arrival, &number) in arrivals.iter().zip(&numbers) {
        assert_eq!(arrival.bytes[2..], query(number)[2..], "{number}");
        let source = lines[number as usize].source;
        let sender = *senders.entry(source).or_insert(arrival.from);
        assert_eq!(sender, arrival.from, "{source}");
        let before = last.insert(source, number);
        assert!(before.is_none_or(|before| before < number), "{source}: {number} after {before:?}");
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..lines.len() as u64).collect::<Vec<_>>());
    let apart: BTreeSet<SocketAddr> = senders.values().copied().collect();
    assert_eq!(apart.len(), senders.len());
    senders
}

/// 1,000 queries from 40 sources in two seconds.
fn lines(network: [u8; 3]) -> Vec<Line> {
    (0..1_000).map(|number| line(2 * MS * number, network, number * number % 40)).collect()
}

#[test]
fn every_query_arrives_once_unchanged_from_the_address_of_its_source() {
    let folder = Folder::new("replay-places");
    let lines = lines([10, 20, 30]);
    let path = written(&folder, &lines);
    for (source_mode, workers) in [("prefix", 1), ("prefix=127.64.0.0/10", 2), ("sockets", 1), ("sockets", 2)] {
        let far_end = FarEnd::start(Duration::ZERO);
        let route = route(far_end.address, Some(source_mode.parse().unwrap()));
        let replay = replay(&path, Selection::default(), ReplayMode::default(), &route);
        let (outcome, summary) = measure(&plan(replay, workers));
        let senders = judge(&far_end.end(), &lines);
        let total = &outcome.total;
        assert_eq!((total.sent, total.answered, total.send_errors), (1_000, 1_000, 0), "{source_mode}: {summary:?}");
        let addresses: BTreeSet<_> = senders.values().map(|sender| sender.ip()).collect();
        assert_eq!(addresses.len(), if source_mode == "sockets" { 1 } else { senders.len() }, "{source_mode}");
        let figures = summary.replay.unwrap();
        assert_eq!((figures.replay.queries, figures.replay.responses), (1_000, 143), "{source_mode}");
        assert_eq!(figures.replay.sources as usize, senders.len(), "{source_mode}");
        assert_eq!(
            (figures.send_error_us.unwrap().n, figures.second_rate_error.unwrap().n),
            (1_000, 2),
            "{source_mode}"
        );
        assert!(figures.rate_error.is_some_and(f64::is_finite), "{source_mode}");
        // Intervals are measured within each worker.
        assert_eq!(figures.interval_error_us.unwrap().n, 1_000 - workers as u64, "{source_mode}");
    }
}

#[test]
fn sources_keep_addresses_that_this_machine_has() {
    let folder = Folder::new("replay-addresses");
    let lines = lines([127, 77, 3]);
    let path = written(&folder, &lines);
    let far_end = FarEnd::start(Duration::ZERO);
    let replay = replay(&path, Selection::default(), ReplayMode::default(), &route(far_end.address, None));
    assert_eq!(replay.sources(), Sources::Addresses);
    let (outcome, _) = measure(&plan(replay, 2));
    let senders = judge(&far_end.end(), &lines);
    assert!(senders.iter().all(|(source, sender)| source.ip() == sender.ip()), "{senders:?}");
    assert_eq!(outcome.total.answered, 1_000);
}

#[test]
fn each_source_has_a_connection_for_its_transport() {
    let folder = Folder::new("replay-transports");
    let lines: Vec<Line> = (0..1_000)
        .map(|number| {
            let source = number % 35;
            let transport = trace::Transport::ALL[source as usize % 5];
            Line { transport, ..line(2 * MS * number, [10, 0, 0], source) }
        })
        .collect();
    let path = written(&folder, &lines);
    let echo = Echo::start(&EchoPlan::new(&Transport::ALL).unwrap()).unwrap();
    let ports = Transport::ALL.into_iter().map(|transport| (transport, echo.address(transport).port())).collect();
    let route = Route { ports, ..route(echo.address(Transport::Udp), None) };
    let replay = replay(&path, Selection::default(), ReplayMode::default(), &route);
    let (outcome, _) = measure(&plan(replay, 2));
    assert_eq!((outcome.total.sent, outcome.total.answered), (1_000, 1_000));
    for (index, transport) in Transport::ALL.into_iter().enumerate() {
        let expected = lines.iter().filter(|line| line.transport as usize == index).count() as u64;
        assert_eq!(echo.counts().queries_of(transport), expected, "{transport}");
        if transport != Transport::Udp {
            assert_eq!(echo.counts().connections_of(transport), 7, "{transport}");
        }
    }
}

/// This includes QUIC, where connections share sockets.
#[test]
fn a_source_keeps_its_address_over_each_transport() {
    let folder = Folder::new("replay-transport-addresses");
    let of = |number: u64| (number % 35, trace::Transport::ALL[number as usize % 35 % 5]);
    let lines: Vec<Line> = (0..700)
        .map(|number| Line { transport: of(number).1, ..line(2 * MS * number, [127, 78, 9], of(number).0) })
        .collect();
    let path = written(&folder, &lines);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let faults: Faults = Arc::new(move |query: &ReceivedQuery<'_>| {
        noted.lock().unwrap().push((number(query.message), query.transport as usize, query.client));
        Fault::None
    });
    let plan_of_echo = EchoPlan { faults, ..EchoPlan::new(&Transport::ALL).unwrap() };
    let echo = Echo::start(&plan_of_echo).unwrap();
    let ports = Transport::ALL.into_iter().map(|transport| (transport, echo.address(transport).port())).collect();
    let route = Route { ports, ..route(echo.address(Transport::Udp), None) };
    let replay = replay(&path, Selection::default(), ReplayMode::default(), &route);
    assert_eq!(replay.sources(), Sources::Addresses);
    let (outcome, _) = measure(&plan(replay, 2));
    assert_eq!((outcome.total.sent, outcome.total.answered), (700, 700));
    drop(echo);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 700);
    for &(number, transport, client) in &*seen {
        let line = &lines[number as usize];
        assert_eq!((transport, client.ip()), (line.transport as usize, line.source.ip()), "{number}");
    }
}

#[test]
fn idle_connections_are_closed_and_one_transport_may_be_forced() {
    let folder = Folder::new("replay-idle");
    // Two bursts of ten sources, each half a second long, three seconds apart.
    let lines: Vec<Line> = (0..100)
        .map(|number| line(number % 50 * 10 * MS + number / 50 * 3_500 * MS, [10, 0, 0], number % 10))
        .collect();
    let path = written(&folder, &lines);
    let over = |transport: Transport| {
        let echo = Echo::start(&EchoPlan::new(&[transport]).unwrap()).unwrap();
        let selection = Selection { transport: Some(transport), ..Selection::default() };
        let replay = replay(&path, selection, ReplayMode::default(), &route(echo.address(transport), None));
        let mut plan = plan(replay, 1);
        plan.connection_policy.idle_timeout = Some(Duration::from_millis(1_200));
        let (outcome, _) = measure(&plan);
        assert_eq!((outcome.total.sent, outcome.total.answered), (100, 100), "{transport}");
        let counts = echo.counts();
        assert_eq!((counts.queries_of(transport), counts.connections_of(transport)), (100, 20), "{transport}");
    };
    Transport::ALL.into_iter().filter(|transport| *transport != Transport::Udp).for_each(over);
}

#[test]
fn a_dependent_query_waits_for_the_answer_before_it() {
    const DELAY: Duration = Duration::from_millis(15);
    let folder = Folder::new("replay-dependent");
    // In the trace they come ten times as fast.
    let lines: Vec<Line> = (0..300).map(|number| line(MS / 4 * number, [10, 0, 0], number % 6)).collect();
    let path = written(&folder, &lines);
    for is_fast in [false, true] {
        let far_end = FarEnd::start(DELAY);
        let mode = ReplayMode { is_dependent: true, is_fast, late: LatePolicy::Slip };
        let replay = replay(&path, Selection::default(), mode, &route(far_end.address, None));
        let (outcome, summary) = measure(&plan(replay, 1));
        let arrivals = far_end.end();
        judge(&arrivals, &lines);
        assert_eq!((outcome.total.sent, outcome.total.answered), (300, 300), "{summary:?}");
        let mut last = BTreeMap::new();
        for arrival in &arrivals {
            if let Some(before) = last.insert(arrival.from, arrival.at) {
                assert!(arrival.at.duration_since(before) >= DELAY, "{:?}", arrival.at.duration_since(before));
            }
        }
        assert!(summary.replay.unwrap().replay.wait_for_answer);
    }
}

#[test]
fn dependent_queries_continue_after_the_timeout() {
    let folder = Folder::new("replay-silent");
    let lines: Vec<Line> = (0..20).map(|number| line(MS * number, [10, 0, 0], number % 4)).collect();
    let path = written(&folder, &lines);
    // This socket never answers.
    let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mode = ReplayMode { is_dependent: true, is_fast: true, late: LatePolicy::Slip };
    for sources in [Sources::Sockets, "prefix".parse().unwrap()] {
        let route = route(silent.local_addr().unwrap(), Some(sources));
        let replay = replay(&path, Selection::default(), mode, &route);
        let plan = Plan { timeout: Duration::from_millis(100), ..plan(replay, 1) };
        let (outcome, _) = measure(&plan);
        assert_eq!((outcome.total.sent, outcome.total.timed_out), (20, 20), "{sources}");
    }
}

#[test]
fn fast_ignores_times_and_speed_divides_them() {
    let folder = Folder::new("replay-fast");
    // One hour of queries.
    let lines: Vec<Line> = (0..200).map(|number| line(18_000 * MS * number, [10, 0, 0], number % 9)).collect();
    let path = written(&folder, &lines);
    let fast = (Selection::default(), ReplayMode { is_fast: true, ..ReplayMode::default() });
    let quick = (Selection { speed: 3_600.0, ..Selection::default() }, ReplayMode::default());
    for (selection, mode) in [fast, quick] {
        let far_end = FarEnd::start(Duration::ZERO);
        let replay = replay(&path, selection, mode, &route(far_end.address, None));
        let (outcome, summary) = measure(&plan(replay, 1));
        judge(&far_end.end(), &lines);
        assert_eq!(outcome.total.answered, 200);
        // Takes seconds; an hour would be far above this limit.
        assert!(outcome.second_count < 600, "{}", outcome.second_count);
        let figures = summary.replay.unwrap();
        assert_eq!(figures.send_error_us.is_none(), mode.is_fast);
        assert_eq!(figures.replay.timing, if mode.is_fast { "fast" } else { "trace" });
    }
}

#[test]
fn a_part_of_a_trace_is_sent_from_its_first_query() {
    let folder = Folder::new("replay-part");
    let lines: Vec<Line> = (0..100).map(|number| line(100 * MS * number, [10, 0, 0], number % 9)).collect();
    let path = written(&folder, &lines);
    let far_end = FarEnd::start(Duration::ZERO);
    let (from, until) = (Duration::from_secs(4), Some(Duration::from_secs(5)));
    let selection = Selection { from, until, limit: Some(8), ..Selection::default() };
    let replay = replay(&path, selection, ReplayMode::default(), &route(far_end.address, None));
    assert_eq!((replay.survey().queries, replay.duration()), (8, Duration::from_millis(700)));
    measure(&plan(replay, 1));
    let numbers: Vec<u64> = far_end.end().iter().map(|arrival| number(&arrival.bytes)).collect();
    assert_eq!(numbers, (40..48).collect::<Vec<_>>());
}

#[test]
fn rules_change_messages_before_they_are_sent() {
    let folder = Folder::new("replay-rules");
    let lines: Vec<Line> = (0..100).map(|number| line(2 * MS * number, [10, 0, 0], number % 10)).collect();
    let path = written(&folder, &lines);
    let rules = "[[rule]]\nwhen = { client = [\"10.0.0.3/32\"] }\ndrop = true\n[[rule]]\nname = \"u{n}.{name}\"\n";
    let rules = Some(Arc::new(load::mutation::parse_rules(rules).unwrap()));
    let far_end = FarEnd::start(Duration::ZERO);
    let route = Route { rules, ..route(far_end.address, None) };
    let replay = replay(&path, Selection::default(), ReplayMode::default(), &route);
    assert_eq!((replay.survey().queries, replay.survey().source_count()), (90, 9));
    let (outcome, _) = measure(&plan(replay, 2));
    let arrivals = far_end.end();
    assert_eq!((outcome.total.answered, arrivals.len()), (90, 90));
    let names: BTreeSet<&[u8]> = arrivals.iter().map(|arrival| &arrival.bytes[12..]).collect();
    assert!(names.len() == 90 && names.iter().all(|name| name[1] == b'u'), "{names:?}");
}

/// More queries than any machine sends in that time.
fn too_many(folder: &Folder) -> PathBuf {
    let lines: Vec<Line> = (0..20_000).map(|number| line(50 * number, [10, 0, 0], number % 50)).collect();
    written(folder, &lines)
}

#[test]
fn a_run_that_falls_behind_slips_or_stops_and_reports_it() {
    let folder = Folder::new("replay-late");
    let path = too_many(&folder);
    // Nothing reads from this socket.
    let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let route = route(silent.local_addr().unwrap(), None);
    let run = |late| {
        let replay = replay(&path, Selection::default(), ReplayMode { late, ..ReplayMode::default() }, &route);
        measure(&Plan { timeout: Duration::from_millis(100), ..plan(replay, 1) })
    };
    let (outcome, summary) = run(LatePolicy::Slip);
    assert_eq!((outcome.total.sent, outcome.is_interrupted), (20_000, false));
    let figures = summary.replay.unwrap();
    assert_eq!((&figures.replay.late[..], figures.replay.stopped), ("slip", None));
    let (outcome, summary) = run(LatePolicy::Stop(Duration::from_micros(500)));
    assert!(outcome.total.sent < 20_000 && outcome.is_interrupted, "{}", outcome.total.sent);
    let figures = summary.replay.unwrap();
    let [planned, late_us] = figures.replay.stopped.unwrap();
    assert!(&figures.replay.late == "stop" && planned < 0.001 && late_us > 500.0, "{:?}", figures.replay);
    let Validity { valid, reasons } = summary.validity;
    assert!(!valid && reasons.concat().contains("stopped: the query at"), "{reasons:?}");
}

/// Replays a real trace over UDP within `seconds` and checks arrivals. Returns the number of sources.
fn real(file: &str, limit: Option<u64>, seconds: f64) -> Option<usize> {
    let path = support::data(file)?;
    let far_end = FarEnd::start(Duration::ZERO);
    let route = route(far_end.address, None);
    let whole = Selection { limit, transport: Some(Transport::Udp), ..Selection::default() };
    let known = replay(&path, whole, ReplayMode::default(), &route);
    let speed = known.duration().as_secs_f64() / seconds;
    let replay = replay(&path, Selection { speed, ..whole }, ReplayMode::default(), &route);
    let (queries, sources) = (replay.survey().queries, replay.survey().source_count());
    let plan = plan(replay, 1);
    let alone = engine_alone();
    let watch = StallWatch::start();
    let (outcome, _) = traffic::measure_now(&plan);
    let has_stalled = watch.stall("the times of arrivals").is_some();
    drop(alone);
    let summary = results::summary(&plan, &outcome, &Rules::default());
    let arrivals = far_end.end();
    // Among queries with the same bytes, the first one arrives first.
    let mut arrived = BTreeMap::<Vec<u8>, VecDeque<Instant>>::new();
    for arrival in &arrivals {
        arrived.entry(arrival.bytes[2..].to_vec()).or_default().push_back(arrival.at);
    }
    let mut reader = trace::open(&path, &trace::Options::default()).unwrap();
    let mut recorded = Vec::new();
    while let Some(message) = reader.next().unwrap() {
        if !message.is_response() {
            recorded.push((message.at_ns, message.bytes[2..].to_vec()));
        }
    }
    recorded.sort_by_key(|(at_ns, _)| *at_ns);
    recorded.truncate(queries as usize);
    let (first_ns, mut wrong, mut times) = (recorded[0].0, 0, Vec::new());
    for (at_ns, bytes) in recorded {
        match arrived.get_mut(&bytes).and_then(VecDeque::pop_front) {
            Some(at) => times.push(((at_ns - first_ns) as f64 / 1e9 / speed, at)),
            None => wrong += 1,
        }
    }
    wrong += arrived.values().map(VecDeque::len).sum::<usize>();
    println!("{file}: {queries} queries of {sources} sources, speed {speed:.1}, {wrong} wrong");
    assert_eq!((wrong, outcome.total.sent), (0, queries), "{summary:?}");
    let figures = summary.replay.unwrap().replay;
    assert_eq!((figures.backwards, figures.jumps), (0, 0), "{file}");
    let senders: BTreeSet<SocketAddr> = arrivals.iter().map(|arrival| arrival.from).collect();
    assert_eq!(senders.len(), sources);
    if !has_stalled {
        judge_times(file, &times);
    }
    Some(sources)
}

/// Checks that each query arrives at its time, in seconds after the first one, except for delays of a busy machine.
/// LDplayer has quartiles of 2.5 ms (IMC 2018, Figure 6). A late query must not delay the ones after it.
fn judge_times(file: &str, times: &[(f64, Instant)]) {
    let start = times[0].1;
    let late = |&(planned, at): &(f64, Instant)| match at.checked_duration_since(start) {
        Some(after) => after.as_secs_f64() - planned,
        None => -start.duration_since(at).as_secs_f64() - planned,
    };
    let mut late: Vec<f64> = times.iter().map(late).collect();
    late.sort_by(f64::total_cmp);
    // The first query may be a late one, so times are relative to the median.
    let at = |share: usize| 1e3 * (late[late.len() * share / 100] - late[late.len() / 2]);
    let (q1, q3, p10, p90) = (at(25), at(75), at(10), at(90));
    let median = 1e3 * late[late.len() / 2];
    println!("{file}: median {median:.3} ms late; relative to it {p10:.3}, {q1:.3}, {q3:.3}, {p90:.3}");
    assert!(median.abs() <= 50.0, "{file}: {median} ms");
    assert!(q1 >= -QUARTILE_MS_MAX && q3 <= QUARTILE_MS_MAX, "{file}: quartiles {q1} and {q3} ms");
    assert!(p10 >= -50.0 && p90 <= 50.0, "{file}: p10 {p10}, p90 {p90} ms");
}

/// Limit for the quartiles around the median difference from the plan.
const QUARTILE_MS_MAX: f64 = 2.5;

#[test]
fn the_queries_of_a_root_server_arrive_as_recorded() {
    real("captures/lroot-20161006-1354-knot-live.pcap.xz", None, 8.0);
}

/// All of them with `CATAMARAN_TEST_FULL=1`, in a minute instead of 21.
#[test]
fn the_queries_of_a_log_arrive_as_recorded() {
    let (limit, seconds) = if skip::is_full_run() { (None, 60.0) } else { (Some(4_000), 4.0) };
    let Some(sources) = real("queries/wrccdc-zeek-dns.log.gz", limit, seconds) else { return };
    assert!(limit.is_some() || sources == 77, "{sources} clients");
}
