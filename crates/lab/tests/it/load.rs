//! The load engine against a server with known faults.

use crate::support::engines::engine_permit;
use crate::support::program::closed_udp;
use crate::support::traffic;
use crate::support::traffic::{echo, measure, measure_alone, measure_seconds};
use lab::results;
use load::engine::{ConnectionPolicy, Pace, Plan, run};
use measure::Transport;
use report::{LimitSide, Rules};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testbed::echo::{Echo, EchoPlan, Fault};

/// The timeout where queries are lost on purpose.
const TIMEOUT_LOST: Duration = Duration::from_secs(5);

fn plan(server: SocketAddr, pace: Pace) -> Plan {
    Plan {
        timeout: Duration::from_secs(10),
        socket_count: 4,
        expected_rcodes: vec![0],
        ..Plan::new(vec![server], traffic::workload(), pace)
    }
}

fn open(echo: &Echo, rate: f64, seconds: u64) -> Plan {
    plan(echo.address(Transport::Udp), traffic::open(rate, seconds))
}

const fn pause(ms: u64) -> Fault {
    Fault::Pause(Duration::from_millis(ms))
}

#[test]
fn every_query_is_accounted_for() {
    let echo = echo(|number| match number % 100 {
        10 => Fault::Drop,
        20 | 21 => Fault::Twice,
        30..33 => Fault::OtherQuestion,
        40..44 => Fault::Rcode(5),
        _ => Fault::None,
    });
    let plan = Plan { timeout: TIMEOUT_LOST, ..open(&echo, 1_000.0, 3) };
    let (outcome, seconds) = measure(&plan);
    let total = &outcome.total;
    assert_eq!((total.sent, total.answered, total.timed_out), (3_000, 2_880, 120));
    assert_eq!((total.duplicate, total.mismatched, total.unexpected, total.stray, total.late), (60, 90, 120, 0, 0));
    assert_eq!((total.rcodes[0], total.rcodes[5], total.arrived), (2_760, 120, 2_880));
    assert_eq!((total.latency.len(), total.service.len(), total.send_lag.len()), (3_000, 3_000, 3_000));
    // Timeouts are in the distribution.
    let timeout_ns = TIMEOUT_LOST.as_nanos() as u64;
    assert!(total.latency.max() >= timeout_ns && total.latency.value_at_quantile(0.97) >= timeout_ns / 100 * 99);
    let sent: u64 = seconds.iter().map(|second| second.sent).sum();
    assert_eq!(sent, 3_000);
    // Wrong answers do not count as capacity.
    let summary = results::summary(&plan, &outcome, &Rules::default());
    let right = 2_760.0 / summary.duration_seconds;
    assert!((summary.achieved_rate - right).abs() < 0.01, "{}", summary.achieved_rate);
    // On a busy machine, the last query may be sent after the end of the plan. The wait for answers does not count.
    assert!((3.0..8.0).contains(&summary.duration_seconds), "{}", summary.duration_seconds);
}

/// Only the beginning of a long answer is read, but all of it counts.
#[test]
fn long_answers_count_with_all_their_bytes() {
    const ANSWER_BYTES: usize = 5_000;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (server, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let answer = move || {
        let mut bytes = [0; ANSWER_BYTES];
        while !stopped.load(Ordering::Relaxed) {
            let Ok((_, client)) = socket.recv_from(&mut bytes) else { continue };
            bytes[2] |= 0x80;
            socket.send_to(&bytes, client).unwrap();
        }
    };
    let thread = std::thread::spawn(answer);
    let plan = plan(server, traffic::open(100.0, 2));
    let (outcome, _) = measure(&plan);
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let mut summary = results::summary(&plan, &outcome, &Rules::default());
    summary.note_recording(&results::recording(&plan, &outcome));
    let bytes = (200 * ANSWER_BYTES) as u64;
    assert_eq!((outcome.total.answered, summary.seconds.response_bytes), (200, bytes));
    let mbps = bytes as f64 * 8.0 / 1e6 / summary.duration_seconds;
    assert!((summary.seconds.response_mbps - mbps).abs() < 1e-9, "{:?}", summary.seconds);
}

/// Unanswered queries hold all IDs of their socket. This is reported as a limit of the tool.
#[test]
fn a_closed_loop_that_runs_out_of_ids_is_limited_by_the_tool() {
    let echo = echo(|_| Fault::Drop);
    let pace = Pace::Closed { in_flight: 70_000, duration: Duration::from_secs(3) };
    let plan = Plan { socket_count: 1, timeout: Duration::from_secs(4), ..plan(echo.address(Transport::Udp), pace) };
    let (outcome, _) = measure(&plan);
    assert_eq!((outcome.total.sent, outcome.total.answered), (65_536, 0));
    let limit = results::summary(&plan, &outcome, &Rules::default()).limit;
    assert!(limit.evidence.iter().any(|line| line.contains("no ID was free")), "{:?}", limit.evidence);
    assert_eq!(limit.side, LimitSide::Tool, "{:?}", limit.evidence);
}

#[test]
fn a_lost_answer_delays_no_other_query() {
    let echo = echo(|number| if number == 10 { Fault::Drop } else { Fault::None });
    let pace = Pace::Closed { in_flight: 200, duration: Duration::from_secs(8) };
    let plan = Plan { socket_count: 1, timeout: Duration::from_secs(7), ..plan(echo.address(Transport::Udp), pace) };
    let (outcome, _) = measure(&plan);
    // IDs are used again, except that of the unanswered query.
    assert!(outcome.total.sent > 70_000, "{}", outcome.total.sent);
    let evidence = results::summary(&plan, &outcome, &Rules::default()).limit.evidence;
    assert!(!evidence.iter().any(|line| line.contains("no ID was free")), "{evidence:?}");
    // There are a million names. They repeat, and the dropped one is dropped each time.
    assert_eq!(outcome.total.timed_out, 1 + (outcome.total.sent - 11) / 1_000_000);
}

#[test]
fn a_loss_is_charged_to_the_second_of_its_query() {
    let echo =
        echo(|number| if (1_100..1_900).contains(&number) && number % 80 == 0 { Fault::Drop } else { Fault::None });
    let plan = Plan { timeout: TIMEOUT_LOST, ..open(&echo, 1_000.0, 4) };
    let (outcome, seconds, has_stalled) = measure_seconds(&plan);
    assert_eq!((outcome.total.sent, outcome.total.timed_out), (4_000, 10));
    let lost: Vec<u64> = seconds.iter().map(|second| second.timed_out).collect();
    assert_eq!(lost.iter().sum::<u64>(), 10);
    assert!(has_stalled || lost[..4] == [0, 10, 0, 0], "{lost:?}");
}

#[test]
fn a_server_that_stops_is_seen_in_each_second() {
    // The server stops for 200 ms in each second: a fifth of the queries wait, the longest for all of it. A closed loop
    // would see one slow query.
    let echo = echo(|number| if number % 1_000 == 300 { pause(200) } else { Fault::None });
    let (outcome, seconds, has_stalled) = measure_seconds(&open(&echo, 1_000.0, 3));
    let slow = outcome.total.latency.count_between(20_000_000, u64::MAX);
    assert!(slow >= 3 * 150 && outcome.total.latency.max() >= 195_000_000, "{slow}");
    for second in seconds[..3].iter().filter(|_| !has_stalled) {
        let slow = second.latency.count_between(20_000_000, u64::MAX);
        assert!((150..=400).contains(&slow), "{slow}");
        assert!(second.latency.max() >= 195_000_000, "{}", second.latency.max());
    }
}

#[test]
fn answers_after_the_timeout_are_late() {
    let echo = echo(|number| if number == 100 { pause(1_000) } else { Fault::None });
    let plan = Plan { timeout: Duration::from_millis(800), ..open(&echo, 200.0, 3) };
    let (outcome, seconds, has_stalled) = measure_seconds(&plan);
    let timed_out = outcome.total.timed_out;
    assert!(timed_out > 0);
    assert_eq!((outcome.total.late, seconds.iter().map(|second| second.timed_out).sum()), (timed_out, timed_out));
    // All queries of the first 200 ms of the pause wait for more than 800 ms.
    assert!(has_stalled || ((20..=60).contains(&timed_out) && seconds[0].timed_out == timed_out), "{timed_out}");
    assert_eq!(outcome.total.answered + outcome.total.timed_out, 600);
}

#[test]
fn a_closed_loop_keeps_its_number_of_queries_in_flight() {
    let echo = echo(|_| pause(2));
    let pace = Pace::Closed { in_flight: 8, duration: Duration::from_secs(1) };
    let (outcome, _) = measure_alone(&plan(echo.address(Transport::Udp), pace));
    // One answer every 2 ms and eight in flight: each takes 16 ms.
    let median = outcome.total.latency.value_at_quantile(0.5);
    assert!((12_000_000..40_000_000).contains(&median), "{median}");
    assert_eq!(outcome.total.timed_out, 0);
}

#[test]
fn a_missing_server_is_reported() {
    let (_holder, closed) = closed_udp();
    let plan = Plan { timeout: Duration::from_secs(2), ..plan(closed, traffic::open(100.0, 1)) };
    let (outcome, _) = measure(&plan);
    assert_eq!((outcome.total.answered, outcome.total.sent), (0, 100));
    let summary = results::summary(&plan, &outcome, &Rules::default());
    assert!(summary.limit.evidence.iter().any(|line| line.contains("nobody listens")), "{:?}", summary.limit);
}

#[test]
fn an_interrupted_run_keeps_its_counts() {
    let echo = echo(|_| Fault::None);
    let _permit = engine_permit();
    let began = Instant::now();
    let outcome = run(&open(&echo, 500.0, 60), |_| u8::from(began.elapsed() > Duration::from_millis(1_500))).unwrap();
    // Much less than the planned minute.
    assert!(outcome.is_interrupted && began.elapsed() < Duration::from_secs(30));
    let sent_max = (500.0 * began.elapsed().as_secs_f64()).ceil() as u64;
    assert!((100..=sent_max).contains(&outcome.total.sent), "{} of {sent_max}", outcome.total.sent);
    assert_eq!(outcome.total.answered, outcome.total.sent);
}

/// Rules that hold on a busy machine too.
fn patient() -> Rules {
    Rules { lag_p99_max: Duration::from_secs(10), ..Rules::default() }
}

#[test]
fn there_is_no_limit_if_the_offered_rate_was_reached() {
    let judged = |plan: &Plan| results::summary(plan, &measure(plan).0, &patient()).limit.side;
    let whole = echo(|_| Fault::None);
    assert_eq!(judged(&open(&whole, 200.0, 1)), LimitSide::None);
    // A closed loop has no offered rate.
    let pace = Pace::Closed { in_flight: 8, duration: Duration::from_secs(1) };
    let slow = echo(|_| pause(2));
    assert_eq!(judged(&plan(slow.address(Transport::Udp), pace)), LimitSide::Server);
    let lossy = echo(|number| if number % 10 == 0 { Fault::Drop } else { Fault::None });
    let lossy = Plan { timeout: TIMEOUT_LOST, ..open(&lossy, 200.0, 1) };
    assert_eq!(judged(&lossy), LimitSide::Server);
}

#[test]
fn the_reason_of_an_invalid_run_names_the_option_and_valid_figures() {
    let echo = echo(|_| Fault::None);
    let plan = open(&echo, 200.0, 1);
    let rules = Rules { lag_p99_max: Duration::ZERO, ..Rules::default() };
    let validity = results::summary(&plan, &measure(&plan).0, &rules).validity;
    assert!(!validity.valid);
    let reason = &validity.reasons[0];
    assert!(reason.contains("--lag-limit") && reason.contains("losses and RCODEs still hold"), "{reason}");
}

#[test]
fn answers_that_come_with_the_next_query_are_reported() {
    let evidence = |delay_ms: u64| {
        let faults =
            Arc::new(move |_: &testbed::echo::ReceivedQuery<'_>| Fault::Delay(Duration::from_millis(delay_ms)));
        let echo = Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Tcp]).unwrap() }).unwrap();
        let plan = plan(echo.address(Transport::Tcp), traffic::open(10.0, 2));
        let plan = Plan { transport: Transport::Tcp, connection_count: 1, ..plan };
        results::summary(&plan, &measure(&plan).0, &patient()).limit.evidence
    };
    let has_line = |lines: &[String]| lines.iter().any(|line| line.contains("when the next one arrives"));
    // Ten queries a second on one connection: the delay equals the interval.
    let lines = evidence(100);
    assert!(has_line(&lines), "{lines:?}");
    assert!(!has_line(&evidence(50)));
}

#[test]
fn open_max_counts_connections_open_at_the_same_time() {
    let echo = Echo::start(&EchoPlan::new(&[Transport::Tcp]).unwrap()).unwrap();
    let plan = plan(echo.address(Transport::Tcp), traffic::open(200.0, 2));
    let connection_policy = ConnectionPolicy { queries_max: Some(5), ..plan.connection_policy };
    let plan = Plan { transport: Transport::Tcp, connection_count: 8, worker_count: 1, connection_policy, ..plan };
    let summary = results::summary(&plan, &measure(&plan).0, &patient());
    let connections = summary.transports[&Transport::Tcp].connections.as_ref().unwrap();
    assert!(connections.opened >= 40, "{connections:?}");
    assert_eq!(connections.open_max, 8, "{connections:?}");
}
