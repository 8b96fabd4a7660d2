//! A client that sends UDP queries at an even rate from some ports, whatever else happens. It counts the answers that
//! arrive in time.
//!
//! In time means within 50 ms, far less than a resolver waits before it retries. On a busy machine, where answers are
//! slow before any attack, the limit is four times the p99 of that phase.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Queries sent at one time, and the pause. They use about a sixth of a core, and leave the rest to the others.
const BURST: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);
/// Queries per second.
pub(crate) const RATE: f64 = BURST as f64 * 1e9 / PAUSE.as_nanos() as f64;
/// A client that could not run for longer than this skips the overdue queries. Sent at once, they would be a flood.
const BEHIND_MAX: Duration = Duration::from_millis(50);
/// Source ports of the queries: the kernel assigns each port to one of the server's sockets.
pub(super) const SOCKETS: usize = 8;
/// How long the client waits for the last answers.
const PATIENCE: Duration = Duration::from_secs(1);
/// A later answer does not count, except on a busy machine.
const IN_TIME: Duration = Duration::from_millis(50);
/// Maximum factor by which answers may slow down on a busy machine.
const SLOWER_MAX: u32 = 4;
/// Maximum number of phases of one client.
const PHASES_MAX: usize = 128;

/// Tests that use this client run one at a time: each would disturb the measurement of another.
pub(crate) fn in_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A failed test does not affect the next one.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until it is told to finish.
pub(crate) struct Legitimate {
    stop: Arc<AtomicBool>,
    phase: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<RawCounts>>,
}

/// The outcome of the queries that were sent between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) queried: u64,
    /// In time.
    pub(crate) answered: u64,
    /// When the first and the last queries were due.
    first: Option<Instant>,
    last: Option<Instant>,
    /// Between these, the time whose queries were skipped.
    skipped: Duration,
}

/// The same, before the limit for answers is known.
#[derive(Clone, Default)]
struct RawCounts {
    count: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    skipped: Duration,
    /// The latency of each answer.
    latencies: Vec<Duration>,
}

impl RawCounts {
    fn within(&self, limit: Duration) -> Phase {
        let answered = self.latencies.iter().filter(|latency| **latency <= limit).count() as u64;
        Phase { queried: self.count, answered, first: self.first, last: self.last, skipped: self.skipped }
    }
}

/// The limit for answers, from the latencies of the first phase.
fn limit(first: &RawCounts) -> Duration {
    let mut latencies = first.latencies.clone();
    latencies.sort();
    let usual = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default();
    IN_TIME.max(SLOWER_MAX * usual).min(PATIENCE)
}

impl Phase {
    /// Answers per second of the time in which the client could run.
    pub(crate) fn rate(&self) -> f64 {
        self.answered as f64 / (self.length().saturating_sub(self.skipped) + PAUSE).as_secs_f64()
    }

    /// Answers per second of the whole time.
    pub(crate) fn overall_rate(&self) -> f64 {
        self.answered as f64 / (self.length() + PAUSE).as_secs_f64()
    }

    fn length(&self) -> Duration {
        self.first.zip(self.last).map_or(Duration::ZERO, |(first, last)| last - first)
    }

    /// The part of the queries that were answered.
    pub(crate) fn share(&self) -> f64 {
        self.answered as f64 / self.queried.max(1) as f64
    }
}

/// The median of some values. Of two, the lower one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// Checks that phases with an attack keep at least `left_min` of the rate, and of the share of answers, that the quiet
/// phases around them have. Medians are compared. If the quiet phases differ by more than that, the load of this
/// machine has changed, and nothing is judged.
pub(crate) fn assert_left(what: &str, quiet: &[Phase], attacked: &[Phase], left_min: f64) {
    let of = |phases: &[Phase], value: fn(&Phase) -> f64| phases.iter().map(value).collect::<Vec<_>>();
    let values: [fn(&Phase) -> f64; 2] = [Phase::rate, Phase::share];
    let left = values.map(|value| median(of(attacked, value)) / median(of(quiet, value)));
    println!("{what}: {left:.3?} of the rate and of the share of answers are left: {attacked:?}");
    if left.iter().all(|left| *left >= left_min) {
        return;
    }
    let differ = values.map(|value| {
        let values = of(quiet, value);
        values.iter().copied().fold(f64::MAX, f64::min) < left_min * values.iter().copied().fold(0.0, f64::max)
    });
    if differ.contains(&true) {
        skip::platform(format_args!("{what}: the phases without an attack differ: {quiet:?}"));
        return;
    }
    panic!("{what}: {left:.3?} of the rate and of the share of answers are left: {attacked:?} of {quiet:?}");
}

impl Legitimate {
    /// Sends this query, with its own IDs.
    pub(crate) fn start(server: SocketAddr, message: Vec<u8>) -> Self {
        let (stop, phase) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (their_stop, their_phase) = (stop.clone(), phase.clone());
        let thread = std::thread::spawn(move || ask(server, message, &their_stop, &their_phase));
        Self { stop, phase, thread }
    }

    /// Later queries belong to the next phase.
    pub(crate) fn next(&self) {
        assert!(self.phase.fetch_add(1, Ordering::SeqCst) + 1 < PHASES_MAX);
    }

    /// Waits for the last answers, and returns all phases.
    pub(crate) fn finish(self) -> Vec<Phase> {
        self.stop.store(true, Ordering::SeqCst);
        let counts = self.thread.join().unwrap();
        let limit = limit(&counts[0]);
        println!("answers within {} ms count", limit.as_millis());
        counts.iter().map(|count| count.within(limit)).collect()
    }
}

/// Non-blocking sockets that are connected to the server.
pub(super) fn sockets(server: SocketAddr) -> Vec<UdpSocket> {
    let connected = |_| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    (0..SOCKETS).map(connected).collect()
}

/// The ID of the next response, if there is one.
pub(super) fn response(socket: &UdpSocket) -> Option<u16> {
    let mut bytes = [0; 2_048];
    loop {
        match socket.recv(&mut bytes) {
            Ok(length) if length >= 12 && bytes[2] & 0x80 != 0 => {
                return Some(u16::from_be_bytes([bytes[0], bytes[1]]));
            }
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

fn ask(server: SocketAddr, mut message: Vec<u8>, stop: &AtomicBool, phase: &AtomicUsize) -> Vec<RawCounts> {
    let sockets = sockets(server);
    let mut phases = vec![RawCounts::default(); PHASES_MAX];
    // By socket and ID: the phase of the query, and the time when it was sent.
    let mut waiting: Vec<Vec<Option<(usize, Instant)>>> = vec![vec![None; 1 << 16]; SOCKETS];
    let (mut begin, mut bursts, mut ended) = (Instant::now(), 0u32, None::<Instant>);
    while ended.is_none_or(|ended| ended.elapsed() < PATIENCE) {
        let due = begin + PAUSE * bursts;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let skipped = due.elapsed().saturating_sub(BEHIND_MAX);
        begin += skipped;
        bursts += 1;
        if ended.is_none() {
            let (now, at) = (Instant::now(), phase.load(Ordering::SeqCst));
            for number in (bursts * BURST)..((bursts + 1) * BURST) {
                let (socket, id) = (number as usize % SOCKETS, (number / SOCKETS as u32) as u16);
                message[..2].copy_from_slice(&id.to_be_bytes());
                // A query that the kernel does not accept counts as unanswered.
                let _ = sockets[socket].send(&message);
                waiting[socket][usize::from(id)] = Some((at, now));
            }
            let phase = &mut phases[at];
            phase.count += u64::from(BURST);
            if phase.first.is_some() {
                phase.skipped += skipped;
            }
            (phase.first, phase.last) = (phase.first.or(Some(due + skipped)), Some(due + skipped));
            ended = stop.load(Ordering::SeqCst).then_some(now);
        }
        // An overdue burst is sent at once. Answers are read in any case.
        for (socket, waiting) in sockets.iter().zip(&mut waiting) {
            while let Some(id) = response(socket) {
                if let Some((phase, sent)) = waiting[usize::from(id)].take() {
                    phases[phase].latencies.push(sent.elapsed());
                }
            }
        }
    }
    phases.truncate(phase.load(Ordering::SeqCst) + 1);
    phases
}
