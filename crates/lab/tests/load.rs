//! The load engine against a server whose every fault is known.
use lab::engine::{Outcome, Pace, Plan, Progress, run};
use lab::measure::Second;
use lab::report::{Rules, Summary};
use lab::schedule::{Arrivals, Schedule};
use lab::workload::{Extras, Generator, NameDistribution, Popularity, Workload};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::number::Rtype;

/// What the server does with a query, by the number in its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Drop,
    Twice,
    OtherQuestion,
    Refused,
    /// Answers after so many milliseconds; whatever else comes waits as long.
    Pause(u64),
}

struct Echo {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start(fault: impl Fn(u64) -> Fault + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut message = [0u8; 4096];
            while !flag.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut message) else { continue };
                let message = &mut message[..length];
                message[2] |= 0x80;
                let fault = fault(number(message));
                match fault {
                    Fault::Drop => continue,
                    Fault::OtherQuestion => message[13] ^= 1,
                    Fault::Refused => message[3] = 5,
                    Fault::Pause(ms) => std::thread::sleep(Duration::from_millis(ms)),
                    Fault::None | Fault::Twice => {}
                }
                for _ in 0..=u8::from(fault == Fault::Twice) {
                    socket.send_to(message, client).unwrap();
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The digits of `q123.example.`.
fn number(message: &[u8]) -> u64 {
    let label = &message[14..13 + usize::from(message[12])];
    std::str::from_utf8(label).unwrap().parse().unwrap()
}

fn plan(server: SocketAddr, pace: Pace) -> Plan {
    let names = NameDistribution {
        pattern: "q{n}.example".into(),
        count: 1_000_000,
        popularity: Popularity::Sequential,
        nxdomain_share: 0.0,
    };
    let generator = Generator::new(names, &[(Rtype::A, 1.0)], Extras::default(), 1).unwrap();
    Plan {
        timeout: Duration::from_millis(800),
        socket_count: 4,
        expected_rcodes: vec![0],
        ..Plan::new(vec![server], Workload::generated(generator), pace)
    }
}

fn open(server: SocketAddr, rate: f64, seconds: u64) -> Plan {
    let schedule = Schedule::constant(rate, Duration::from_secs(seconds), Arrivals::Even).unwrap();
    plan(server, Pace::Open(schedule))
}

/// One engine at a time: each spins on a core.
static TURN: Mutex<()> = Mutex::new(());

fn measure(plan: &Plan) -> (Outcome, Vec<Second>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut seconds = Vec::new();
    let outcome = run(plan, |progress| {
        if let Progress::Second { index, second, .. } = progress {
            assert_eq!(index, seconds.len() as u64);
            seconds.push(second.clone());
        }
        0
    })
    .unwrap();
    (outcome, seconds)
}

#[test]
fn every_query_is_accounted_for() {
    let echo = Echo::start(|number| match number % 100 {
        10 => Fault::Drop,
        20 | 21 => Fault::Twice,
        30..33 => Fault::OtherQuestion,
        40..44 => Fault::Refused,
        _ => Fault::None,
    });
    let plan = open(echo.address, 1_000.0, 3);
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
    assert!((summary.achieved_rate - 920.0).abs() < 0.01, "{}", summary.achieved_rate);
}

#[test]
fn a_loss_is_charged_to_the_second_of_its_query() {
    let echo =
        Echo::start(
            |number| if (1_100..1_900).contains(&number) && number % 80 == 0 { Fault::Drop } else { Fault::None },
        );
    let (_, seconds) = measure(&open(echo.address, 1_000.0, 4));
    let lost: Vec<u64> = seconds.iter().take(4).map(|second| second.timed_out).collect();
    assert_eq!(lost, [0, 10, 0, 0]);
}

#[test]
fn a_server_that_stops_is_seen_where_and_when_it_stops() {
    // 200 ms in each second: a fifth of the queries wait, the longest for all of it. A closed loop would see one.
    let echo = Echo::start(|number| if number % 1_000 == 300 { Fault::Pause(200) } else { Fault::None });
    let (_, seconds) = measure(&open(echo.address, 1_000.0, 3));
    for second in &seconds[..3] {
        let slow = second.latency.count_between(20_000_000, u64::MAX);
        assert!((150..=400).contains(&slow), "{slow}");
        assert!(second.latency.max() >= 195_000_000, "{}", second.latency.max());
    }
}

#[test]
fn answers_after_the_time_out_are_late() {
    let echo = Echo::start(|number| if number == 100 { Fault::Pause(1_000) } else { Fault::None });
    let (outcome, seconds) = measure(&open(echo.address, 200.0, 3));
    // All that was sent in the first 200 ms of the pause waits for more than 800 ms.
    assert!((20..=60).contains(&outcome.total.timed_out), "{}", outcome.total.timed_out);
    assert_eq!(outcome.total.late, outcome.total.timed_out);
    assert_eq!(seconds[0].timed_out, outcome.total.timed_out);
    assert_eq!(outcome.total.answered + outcome.total.timed_out, 600);
}

#[test]
fn a_closed_loop_keeps_as_many_in_flight() {
    let echo = Echo::start(|_| Fault::Pause(2));
    let pace = Pace::Closed { in_flight: 8, duration: Duration::from_secs(1) };
    let (outcome, _) = measure(&plan(echo.address, pace));
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
    let plan = open(closed, 100.0, 1);
    let (outcome, _) = measure(&plan);
    assert_eq!((outcome.total.answered, outcome.total.sent), (0, 100));
    let summary = Summary::new(&plan, &outcome, &Rules::default());
    assert!(summary.limit.evidence.iter().any(|line| line.contains("nobody listens")), "{:?}", summary.limit);
}

#[test]
fn a_run_that_is_broken_off_keeps_its_account() {
    let echo = Echo::start(|_| Fault::None);
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let began = Instant::now();
    let outcome =
        run(&open(echo.address, 500.0, 60), |_| u8::from(began.elapsed() > Duration::from_millis(1_500))).unwrap();
    assert!(outcome.is_interrupted && began.elapsed() < Duration::from_secs(5));
    assert!((500..2_000).contains(&outcome.total.sent), "{}", outcome.total.sent);
    assert_eq!(outcome.total.answered, outcome.total.sent);
}
