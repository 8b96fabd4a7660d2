//! The load engine against a server whose every fault is known.
#[path = "support/traffic.rs"]
mod traffic;

use lab::echo::{Echo, EchoPlan, Fault};
use lab::engine::{ConnectionPolicy, Pace, Plan, Transport, run};
use lab::report::{LimitSide, Rules, Summary};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use traffic::{echo, measure};

fn plan(server: SocketAddr, pace: Pace) -> Plan {
    Plan {
        timeout: Duration::from_millis(800),
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
    let plan = open(&echo, 1_000.0, 3);
    let (outcome, seconds) = measure(&plan);
    let total = &outcome.total;
    assert_eq!((total.sent, total.answered, total.timed_out), (3_000, 2_880, 120));
    assert_eq!((total.duplicate, total.mismatched, total.unexpected, total.stray, total.late), (60, 90, 120, 0, 0));
    assert_eq!((total.rcodes[0], total.rcodes[5], total.arrived), (2_760, 120, 2_880));
    assert_eq!((total.latency.len(), total.service.len(), total.send_lag.len()), (3_000, 3_000, 3_000));
    // Time-outs stand in the distribution.
    assert!(total.latency.max() >= 800_000_000 && total.latency.value_at_quantile(0.97) >= 790_000_000);
    let sent: u64 = seconds.iter().map(|second| second.sent).sum();
    assert_eq!(sent, 3_000);
    // What is wrong is no capacity.
    let summary = Summary::new(&plan, &outcome, &Rules::default());
    let right = 2_760.0 / summary.duration_seconds;
    assert!((summary.achieved_rate - right).abs() < 0.01, "{}", summary.achieved_rate);
    // The last query may go out a little after the end of the plan, on a machine that does other things too.
    assert!((3.0..3.2).contains(&summary.duration_seconds), "{}", summary.duration_seconds);
}

/// Queries that all wait hold all IDs of their socket: that is a limit of the tool, and said to be.
#[test]
fn a_closed_loop_that_runs_out_of_ids_is_limited_by_the_tool() {
    let echo = echo(|_| Fault::Drop);
    let pace = Pace::Closed { in_flight: 70_000, duration: Duration::from_secs(3) };
    let plan = Plan { socket_count: 1, timeout: Duration::from_secs(4), ..plan(echo.address(Transport::Udp), pace) };
    let (outcome, _) = measure(&plan);
    assert_eq!((outcome.total.sent, outcome.total.answered), (65_536, 0));
    let limit = Summary::new(&plan, &outcome, &Rules::default()).limit;
    assert!(limit.evidence.iter().any(|line| line.contains("no ID was free")), "{:?}", limit.evidence);
    assert_eq!(limit.side, LimitSide::Tool, "{:?}", limit.evidence);
}

#[test]
fn an_answer_that_is_lost_keeps_no_other_query_waiting() {
    let echo = echo(|number| if number == 10 { Fault::Drop } else { Fault::None });
    let pace = Pace::Closed { in_flight: 200, duration: Duration::from_secs(8) };
    let plan = Plan { socket_count: 1, timeout: Duration::from_secs(7), ..plan(echo.address(Transport::Udp), pace) };
    let (outcome, _) = measure(&plan);
    // Once round and on, beside the one that waits.
    assert!(outcome.total.sent > 70_000, "{}", outcome.total.sent);
    let evidence = Summary::new(&plan, &outcome, &Rules::default()).limit.evidence;
    assert!(!evidence.iter().any(|line| line.contains("no ID was free")), "{evidence:?}");
    // There are a million names, which come again.
    assert_eq!(outcome.total.timed_out, 1 + (outcome.total.sent - 11) / 1_000_000);
}

#[test]
fn a_loss_is_charged_to_the_second_of_its_query() {
    let echo =
        echo(|number| if (1_100..1_900).contains(&number) && number % 80 == 0 { Fault::Drop } else { Fault::None });
    let (_, seconds) = measure(&open(&echo, 1_000.0, 4));
    let lost: Vec<u64> = seconds.iter().take(4).map(|second| second.timed_out).collect();
    assert_eq!(lost, [0, 10, 0, 0]);
}

#[test]
fn a_server_that_stops_is_seen_where_and_when_it_stops() {
    // 200 ms in each second: a fifth of the queries wait, the longest for all of it. A closed loop would see one.
    let echo = echo(|number| if number % 1_000 == 300 { pause(200) } else { Fault::None });
    let (_, seconds) = measure(&open(&echo, 1_000.0, 3));
    for second in &seconds[..3] {
        let slow = second.latency.count_between(20_000_000, u64::MAX);
        assert!((150..=400).contains(&slow), "{slow}");
        assert!(second.latency.max() >= 195_000_000, "{}", second.latency.max());
    }
}

#[test]
fn answers_after_the_time_out_are_late() {
    let echo = echo(|number| if number == 100 { pause(1_000) } else { Fault::None });
    let (outcome, seconds) = measure(&open(&echo, 200.0, 3));
    // All that was sent in the first 200 ms of the pause waits for more than 800 ms.
    assert!((20..=60).contains(&outcome.total.timed_out), "{}", outcome.total.timed_out);
    assert_eq!(outcome.total.late, outcome.total.timed_out);
    assert_eq!(seconds[0].timed_out, outcome.total.timed_out);
    assert_eq!(outcome.total.answered + outcome.total.timed_out, 600);
}

#[test]
fn a_closed_loop_keeps_as_many_in_flight() {
    let echo = echo(|_| pause(2));
    let pace = Pace::Closed { in_flight: 8, duration: Duration::from_secs(1) };
    let (outcome, _) = measure(&plan(echo.address(Transport::Udp), pace));
    // One answer every 2 ms: eight that wait take 16 ms each.
    let median = outcome.total.latency.value_at_quantile(0.5);
    assert!((12_000_000..40_000_000).contains(&median), "{median}");
    assert_eq!(outcome.total.timed_out, 0);
}

#[test]
fn nobody_there_is_said() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = socket.local_addr().unwrap();
    drop(socket);
    let plan = plan(closed, traffic::open(100.0, 1));
    let (outcome, _) = measure(&plan);
    assert_eq!((outcome.total.answered, outcome.total.sent), (0, 100));
    let summary = Summary::new(&plan, &outcome, &Rules::default());
    assert!(summary.limit.evidence.iter().any(|line| line.contains("nobody listens")), "{:?}", summary.limit);
}

#[test]
fn a_run_that_is_broken_off_keeps_its_account() {
    let echo = echo(|_| Fault::None);
    let _turn = traffic::turn();
    let began = Instant::now();
    let outcome = run(&open(&echo, 500.0, 60), |_| u8::from(began.elapsed() > Duration::from_millis(1_500))).unwrap();
    assert!(outcome.is_interrupted && began.elapsed() < Duration::from_secs(5));
    assert!((500..2_000).contains(&outcome.total.sent), "{}", outcome.total.sent);
    assert_eq!(outcome.total.answered, outcome.total.sent);
}

/// Rules that also hold on a busy machine.
fn patient() -> Rules {
    Rules { lag_p99_max: Duration::from_secs(10), ..Rules::default() }
}

#[test]
fn where_the_offered_rate_was_reached_nobody_was_the_limit() {
    let judged = |plan: &Plan| Summary::new(plan, &measure(plan).0, &patient()).limit.side;
    let whole = echo(|_| Fault::None);
    assert_eq!(judged(&open(&whole, 200.0, 1)), LimitSide::None);
    // A closed loop has no offered rate.
    let pace = Pace::Closed { in_flight: 8, duration: Duration::from_secs(1) };
    let slow = echo(|_| pause(2));
    assert_eq!(judged(&plan(slow.address(Transport::Udp), pace)), LimitSide::Server);
    let lossy = echo(|number| if number % 10 == 0 { Fault::Drop } else { Fault::None });
    assert_eq!(judged(&open(&lossy, 200.0, 1)), LimitSide::Server);
}

#[test]
fn a_reason_names_the_option_and_what_still_holds() {
    let echo = echo(|_| Fault::None);
    let plan = open(&echo, 200.0, 1);
    let rules = Rules { lag_p99_max: Duration::ZERO, ..Rules::default() };
    let validity = Summary::new(&plan, &measure(&plan).0, &rules).validity;
    assert!(!validity.valid);
    let reason = &validity.reasons[0];
    assert!(reason.contains("--lag-limit") && reason.contains("losses and RCODEs still hold"), "{reason}");
}

#[test]
fn a_service_time_of_one_query_to_the_next_is_reported() {
    let evidence = |delay_ms: u64| {
        let faults = Arc::new(move |_: &lab::echo::ReceivedQuery<'_>| Fault::Delay(Duration::from_millis(delay_ms)));
        let echo = Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Tcp]).unwrap() }).unwrap();
        let plan = plan(echo.address(Transport::Tcp), traffic::open(10.0, 2));
        let plan = Plan { transport: Transport::Tcp, connection_count: 1, ..plan };
        Summary::new(&plan, &measure(&plan).0, &patient()).limit.evidence
    };
    let has_line = |lines: &[String]| lines.iter().any(|line| line.contains("when the next one arrives"));
    // Ten queries a second on one connection.
    let lines = evidence(100);
    assert!(has_line(&lines), "{lines:?}");
    assert!(!has_line(&evidence(50)));
}

#[test]
fn the_most_open_connections_are_those_at_one_time() {
    let echo = Echo::start(&EchoPlan::new(&[Transport::Tcp]).unwrap()).unwrap();
    let plan = plan(echo.address(Transport::Tcp), traffic::open(200.0, 2));
    let connection_policy = ConnectionPolicy { queries_max: Some(5), ..plan.connection_policy };
    let plan = Plan { transport: Transport::Tcp, connection_count: 8, worker_count: 1, connection_policy, ..plan };
    let summary = Summary::new(&plan, &measure(&plan).0, &patient());
    let connections = summary.transports[&Transport::Tcp].connections.as_ref().unwrap();
    assert!(connections.opened >= 40, "{connections:?}");
    assert_eq!(connections.open_max, 8, "{connections:?}");
}
