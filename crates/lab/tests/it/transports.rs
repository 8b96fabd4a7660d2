//! The load engine over connections, against a server with known faults.

use crate::support::engines::engine_permit;
use crate::support::traffic;
use crate::support::traffic::{number, open, workload};
use load::engine::{ConnectionPolicy, Outcome, Plan, TlsPlan, run};
use measure::{Second, Transport};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use testbed::echo::{Certificate, Echo, EchoPlan, Fault, ReceivedQuery};

/// The timeout where queries are lost on purpose.
const TIMEOUT_LOST: Duration = Duration::from_secs(5);

const CONNECTED: [Transport; 4] = [Transport::Tcp, Transport::Dot, Transport::Doh, Transport::Doq];

/// An echo server over one transport, and a plan for it.
struct Bench {
    echo: Echo,
    plan: Plan,
    authority: PathBuf,
}

impl Drop for Bench {
    fn drop(&mut self) {
        // If removal fails, a leftover file in the temporary folder does no harm.
        let _removed = std::fs::remove_file(&self.authority);
    }
}

impl Bench {
    fn new(transport: Transport, faults: impl Fn(&ReceivedQuery<'_>) -> Fault + Send + Sync + 'static) -> Self {
        Self::at(EchoPlan { faults: Arc::new(faults), ..EchoPlan::new(&[transport]).unwrap() }, transport)
    }

    fn at(plan: EchoPlan, transport: Transport) -> Self {
        let echo = Echo::start(&plan).unwrap();
        let address = echo.address(transport);
        let authority = std::env::temp_dir().join(format!("catlab-ca-{}-{}", std::process::id(), address.port()));
        std::fs::write(&authority, plan.certificate.authority_pem()).unwrap();
        let plan = Plan {
            transport,
            timeout: Duration::from_secs(10),
            connection_count: 4,
            tls: TlsPlan { authorities: Some(authority.clone()), ..TlsPlan::default() },
            expected_rcodes: vec![0],
            ..Plan::new(vec![address], workload(), open(1_000.0, 3))
        };
        Self { echo, plan, authority }
    }

    /// Sends as many queries within one second, for tests that do not look at seconds.
    fn brief(mut self) -> Self {
        self.plan.pace = open(3_000.0, 1);
        self
    }

    /// Waits less for queries that are lost on purpose.
    fn lossy(mut self) -> Self {
        self.plan.timeout = TIMEOUT_LOST;
        self
    }

    fn measure(&self) -> (Outcome, Vec<Second>) {
        traffic::measure(&self.plan)
    }
}

#[test]
fn every_query_is_accounted_for_over_each_transport() {
    for transport in CONNECTED {
        let bench = Bench::new(transport, |query| match number(query.message) % 100 {
            10 => Fault::Drop,
            20 | 21 => Fault::Rcode(5),
            30..33 => Fault::OtherQuestion,
            40..44 => Fault::Truncated,
            _ => Fault::None,
        })
        .brief()
        .lossy();
        let (outcome, seconds) = bench.measure();
        let total = &outcome.total;
        let account = &outcome.transports[&transport];
        // A DoQ stream that ends with another message is over, so its query does not wait for the timeout.
        let (timed_out, lost) = if transport == Transport::Doq { (30, 90) } else { (120, 0) };
        assert_eq!((total.sent, total.answered), (3_000, 2_880), "{transport}");
        assert_eq!((total.timed_out, total.connection_lost), (timed_out, lost), "{transport}");
        assert_eq!((total.mismatched, total.unexpected, total.truncated), (90, 60, 120), "{transport}");
        assert_eq!((total.duplicate, total.stray, total.late), (0, 0, 0), "{transport}");
        assert_eq!((total.latency.len(), total.service.len()), (3_000, 3_000), "{transport}");
        assert_eq!(seconds.iter().map(|second| second.sent).sum::<u64>(), 3_000);
        let connections = &account.connection_total;
        assert_eq!((connections.opened, connections.failed, connections.open), (4, 0, 4), "{transport}");
        assert_eq!(connections.reused_queries, 2_996, "{transport}");
        assert_eq!(bench.echo.counts().queries_of(transport), 3_000, "{transport}");
        assert_eq!(bench.echo.counts().connections_of(transport), 4, "{transport}");
        assert!(connections.handshake.max() > 10_000, "{transport}");
        assert_eq!(connections.first_query.len(), 4, "{transport}");
        // Queries that are answered do not wait for the lost ones.
        assert!(total.latency.value_at_quantile(0.5) < TIMEOUT_LOST.as_nanos() as u64 / 2, "{transport}");
    }
}

#[test]
fn a_server_that_stops_is_seen_in_each_second() {
    // The server stops for 200 ms in each second: a fifth of the queries wait, the longest for all of it.
    for transport in CONNECTED {
        let pause = Duration::from_millis(200);
        let stops = move |query: &ReceivedQuery<'_>| number(query.message) % 1_000 == 300;
        let bench = Bench::new(transport, move |query| if stops(query) { Fault::Pause(pause) } else { Fault::None });
        let (outcome, seconds, has_stalled) = traffic::measure_seconds(&bench.plan);
        let slow = outcome.total.latency.count_between(20_000_000, u64::MAX);
        assert!(slow >= 3 * 150 && outcome.total.latency.max() >= 195_000_000, "{transport}: {slow}");
        for second in seconds[..3].iter().filter(|_| !has_stalled) {
            let slow = second.latency.count_between(20_000_000, u64::MAX);
            assert!((150..=400).contains(&slow), "{transport}: {slow}");
            assert!(second.latency.max() >= 195_000_000, "{transport}: {}", second.latency.max());
        }
    }
}

#[test]
fn a_loss_is_charged_to_the_second_of_its_query() {
    for transport in CONNECTED {
        // One query in a hundred, in one second of four.
        let mut bench = Bench::new(transport, |query| match number(query.message) {
            number @ 1_000..2_000 if number % 100 == 50 => Fault::Drop,
            _ => Fault::None,
        })
        .lossy();
        bench.plan = Plan { pace: open(1_000.0, 4), ..bench.plan.clone() };
        let (outcome, seconds, has_stalled) = traffic::measure_seconds(&bench.plan);
        assert_eq!((outcome.total.sent, outcome.total.timed_out), (4_000, 10), "{transport}");
        let lost: Vec<u64> = seconds.iter().map(|second| second.timed_out).collect();
        assert_eq!(lost.iter().sum::<u64>(), 10, "{transport}");
        assert!(has_stalled || lost[..4] == [0, 10, 0, 0], "{transport}: {lost:?}");
    }
}

#[test]
fn answers_after_the_timeout_are_late() {
    for transport in CONNECTED {
        let mut bench = Bench::new(transport, |query| match number(query.message) {
            number if number % 100 == 7 => Fault::Delay(Duration::from_millis(2_500)),
            number if number % 100 == 8 => Fault::Delay(Duration::from_millis(500)),
            _ => Fault::None,
        });
        bench.plan.timeout = Duration::from_secs(2);
        let (outcome, seconds, has_stalled) = traffic::measure_seconds(&bench.plan);
        let total = &outcome.total;
        assert_eq!((total.timed_out, total.answered), (30, 2_970), "{transport}");
        let slow = total.latency.count_between(480_000_000, u64::MAX);
        assert!(total.late <= 30 && slow >= 60, "{transport}: {} {slow}", total.late);
        if has_stalled {
            continue;
        }
        assert_eq!(seconds.iter().take(3).map(|second| second.timed_out).collect::<Vec<_>>(), [10, 10, 10]);
        // A run waits two seconds at its end. Answers that come later are not counted as late.
        assert!(total.late >= 20, "{transport}: {}", total.late);
        let slow = total.latency.count_between(480_000_000, 1_900_000_000);
        assert_eq!(slow, 30, "{transport}");
    }
}

#[test]
fn connections_that_the_server_closes_are_opened_again() {
    for transport in CONNECTED {
        // Each connection is closed with its hundredth answer.
        let bench = Bench::new(transport, |query| if query.number == 99 { Fault::Close } else { Fault::None });
        let (outcome, _) = bench.measure();
        let total = &outcome.total;
        let connections = &outcome.transports[&transport].connection_total;
        assert_eq!(total.sent, 3_000, "{transport}");
        assert_eq!(total.answered + total.connection_lost + total.timed_out, 3_000, "{transport}");
        // Queries in flight when a connection closes are lost and counted. Their number depends on the load of the
        // machine.
        assert!(total.answered > 2_400, "{transport}: {} {}", total.answered, total.connection_lost);
        assert!((25..=31).contains(&connections.closed_by_peer), "{transport}: {}", connections.closed_by_peer);
        assert_eq!(connections.opened, connections.open + connections.closed_by_peer, "{transport}");
    }
}

#[test]
fn half_an_answer_loses_the_queries_in_flight_on_its_connection() {
    for transport in [Transport::Tcp, Transport::Dot, Transport::Doq] {
        let bench = Bench::new(transport, |query| if number(query.message) == 500 { Fault::Half } else { Fault::None });
        let (outcome, _) = bench.measure();
        let total = &outcome.total;
        // The number of queries in flight depends on the load of the machine.
        assert!((1..=300).contains(&total.connection_lost), "{transport}: {}", total.connection_lost);
        assert_eq!(total.answered + total.connection_lost, 3_000, "{transport}");
        assert!(total.stray <= 1, "{transport}");
    }
}

#[test]
fn garbage_wrong_ids_and_second_answers_are_counted_apart_over_tcp() {
    for transport in [Transport::Tcp, Transport::Dot] {
        let bench = Bench::new(transport, |query| match number(query.message) % 100 {
            5 => Fault::Garbage,
            6 => Fault::WrongId,
            7 => Fault::Twice,
            _ => Fault::None,
        })
        .brief()
        .lossy();
        let (outcome, _) = bench.measure();
        let total = &outcome.total;
        assert_eq!((total.answered, total.timed_out), (2_940, 60), "{transport}");
        // Seven bytes are no message; an ID with its top bit changed was never sent.
        assert_eq!((total.stray, total.duplicate, total.mismatched), (60, 30, 0), "{transport}");
    }
}

#[test]
fn query_limits_and_idle_timeouts_close_connections() {
    for transport in CONNECTED {
        let mut bench = Bench::new(transport, |_| Fault::None).brief();
        let connection_policy = ConnectionPolicy { queries_max: Some(50), ..ConnectionPolicy::default() };
        bench.plan = Plan { connection_policy, ..bench.plan.clone() };
        let (outcome, _) = bench.measure();
        let connections = &outcome.transports[&transport].connection_total;
        assert_eq!(outcome.total.answered, 3_000, "{transport}");
        assert_eq!((connections.closed_by_us, connections.closed_by_peer), (60, 0), "{transport}");
        let connection_policy =
            ConnectionPolicy { idle_timeout: Some(Duration::from_millis(100)), ..ConnectionPolicy::default() };
        bench.plan = Plan { connection_policy, pace: open(6.0, 2), ..bench.plan.clone() };
        let (outcome, _) = bench.measure();
        let connections = &outcome.transports[&transport].connection_total;
        assert_eq!(outcome.total.answered, 12, "{transport}");
        // The first four connections, which become idle too, and one for most queries.
        assert!((12..=16).contains(&connections.closed_by_us), "{transport}: {}", connections.closed_by_us);
    }
}

#[test]
fn sessions_are_resumed_and_early_data_is_accepted() {
    for transport in [Transport::Dot, Transport::Doh, Transport::Doq] {
        for (resumption, early_data) in [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)] {
            let mut bench = Bench::new(transport, |_| Fault::None);
            let connection_policy =
                ConnectionPolicy { queries_max: Some(20), resumption, early_data, ..ConnectionPolicy::default() };
            let plan = Plan { connection_policy, pace: open(600.0, 1), connection_count: 2, ..bench.plan.clone() };
            bench.plan = plan;
            let (outcome, _) = bench.measure();
            let connections = &outcome.transports[&transport].connection_total;
            assert_eq!(outcome.total.answered, 600, "{transport} {early_data}");
            assert_eq!(connections.opened, 30, "{transport}");
            let expected = (28.0 * resumption) as u64;
            assert_eq!(connections.resumed, expected, "{transport} {early_data}");
            let taken = connections.early_data;
            let expected = (28.0 * early_data) as u64;
            assert_eq!(taken, expected, "{transport} {resumption} {early_data}");
            // Each of these connections sent its first query as early data; some sent more before the handshake was
            // complete.
            let (sent, answered) = (connections.early_queries, connections.early_answers);
            let least = if transport == Transport::Doq { expected } else { 0 };
            assert!(sent >= least && (sent > 0) == (least > 0) && answered == sent, "{transport}: {sent} {answered}");
        }
    }
}

#[test]
fn sessions_of_tls_1_2_are_resumed_without_early_data() {
    for transport in [Transport::Dot, Transport::Doh] {
        for resumption in [0.0, 1.0] {
            let old = EchoPlan { is_tls12: true, ..EchoPlan::new(&[transport]).unwrap() };
            let mut bench = Bench::at(old, transport);
            let connection_policy =
                ConnectionPolicy { queries_max: Some(20), resumption, early_data: 1.0, ..ConnectionPolicy::default() };
            let plan = Plan { connection_policy, pace: open(600.0, 1), connection_count: 2, ..bench.plan.clone() };
            bench.plan = plan;
            let (outcome, _) = bench.measure();
            let connections = &outcome.transports[&transport].connection_total;
            assert_eq!((outcome.total.answered, connections.opened), (600, 30), "{transport}");
            assert_eq!(connections.resumed, (28.0 * resumption) as u64, "{transport}");
            assert_eq!(connections.early_data, 0, "{transport}");
        }
    }
}

#[test]
fn servers_that_cannot_be_reached_or_trusted_are_reported() {
    let reason = |plan: &Plan| {
        let _permit = engine_permit();
        let outcome = run(plan, |_| 0).unwrap();
        assert_eq!(outcome.total.answered, 0);
        outcome.failure.expect("a failure")
    };
    for transport in CONNECTED {
        let bench = Bench::new(transport, |_| Fault::None);
        let tls = |tls| Plan { tls, ..bench.plan.clone() };
        if transport.is_encrypted() {
            let authorities = Some(bench.authority.clone());
            let other = TlsPlan { name: Some("other.example".into()), authorities, ..TlsPlan::default() };
            let failure = reason(&tls(other));
            assert!(failure.contains("not for other.example") && failure.contains("--tls-name"), "{failure}");
            let stranger = bench.authority.with_extension("stranger");
            std::fs::write(&stranger, Certificate::new().unwrap().authority_pem()).unwrap();
            let failure = reason(&tls(TlsPlan { authorities: Some(stranger.clone()), ..TlsPlan::default() }));
            std::fs::remove_file(stranger).unwrap();
            assert!(failure.contains("not signed by a trusted CA") && failure.contains("--ca"), "{failure}");
        }
        let mut plan = bench.plan.clone();
        plan.handshake_timeout = Duration::from_secs(1);
        plan.tls = TlsPlan { is_insecure: true, ..TlsPlan::default() };
        drop(bench);
        let failure = reason(&plan);
        let expected = if transport == Transport::Doq { "within 1 s" } else { "nobody listens" };
        assert!(failure.contains(expected) && failure.contains(transport.label()), "{transport}: {failure}");
    }
}

#[test]
fn a_server_with_another_protocol_is_reported() {
    // DoT to a plain TCP port, and DoH to one without HTTP.
    let plain = Bench::new(Transport::Tcp, |_| Fault::None);
    let dot = Bench::new(Transport::Dot, |_| Fault::None);
    for (server, transport, words) in
        [(&plain, Transport::Dot, &["TLS", "handshake"][..]), (&dot, Transport::Doh, &["HTTP/2", "ALPN"][..])]
    {
        let plan = Plan {
            transport,
            handshake_timeout: Duration::from_millis(500),
            tls: dot.plan.tls.clone(),
            ..server.plan.clone()
        };
        let _permit = engine_permit();
        let outcome = run(&plan, |_| 0).unwrap();
        let failure = outcome.failure.expect("a failure");
        assert!(words.iter().any(|word| failure.contains(word)), "{failure}");
    }
}
