//! A client that asks over UDP at an even rate, whatever else goes on; and how many answers it gets meanwhile, in time.
//!
//! In time is within 50 ms, which is far less than a resolver waits before it asks again. Where the machine is so busy
//! that answers take long before anybody attacks, it is four times what 99 of 100 took then.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two queries.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the last answers are waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// An answer that comes later is none, but on a busy machine.
const IN_TIME: Duration = Duration::from_millis(50);
/// How much longer than before answers may take on a busy machine.
const SLOWER_MAX: u32 = 4;
/// Phases of one client.
const PHASES_MAX: usize = 16;

/// It runs until it is told to finish.
pub(crate) struct Legitimate {
    stop: Arc<AtomicBool>,
    phase: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Asked>>,
}

/// What became of the queries that were sent between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) asked: u64,
    /// In time.
    pub(crate) answered: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// The same, before it is known what is in time.
#[derive(Clone, Default)]
struct Asked {
    count: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    /// How long each answer took.
    latencies: Vec<Duration>,
}

impl Asked {
    fn within(&self, limit: Duration) -> Phase {
        let answered = self.latencies.iter().filter(|latency| **latency <= limit).count() as u64;
        Phase { asked: self.count, answered, first: self.first, last: self.last }
    }
}

/// What is in time, by what it was in the first phase.
fn limit(first: &Asked) -> Duration {
    let mut latencies = first.latencies.clone();
    latencies.sort();
    let usual = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or_default();
    IN_TIME.max(SLOWER_MAX * usual).min(PATIENCE)
}

impl Phase {
    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        let (Some(first), Some(last)) = (self.first, self.last) else { return 0.0 };
        self.answered as f64 / (last - first + PAUSE).as_secs_f64()
    }
}

impl Legitimate {
    /// Asks this, with IDs of its own.
    pub(crate) fn start(server: SocketAddr, message: Vec<u8>) -> Self {
        let (stop, phase) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (their_stop, their_phase) = (stop.clone(), phase.clone());
        let thread = std::thread::spawn(move || ask(server, message, &their_stop, &their_phase));
        Self { stop, phase, thread }
    }

    /// What is asked from now on is another phase.
    pub(crate) fn next(&self) {
        assert!(self.phase.fetch_add(1, Ordering::SeqCst) + 1 < PHASES_MAX);
    }

    /// All phases; waits for the last answers.
    pub(crate) fn finish(self) -> Vec<Phase> {
        self.stop.store(true, Ordering::SeqCst);
        let asked = self.thread.join().unwrap();
        let limit = limit(&asked[0]);
        println!("answers within {} ms count", limit.as_millis());
        asked.iter().map(|asked| asked.within(limit)).collect()
    }
}

fn ask(server: SocketAddr, mut message: Vec<u8>, stop: &AtomicBool, phase: &AtomicUsize) -> Vec<Asked> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(server).unwrap();
    let mut phases = vec![Asked::default(); PHASES_MAX];
    // By ID: in which phase it was sent, and when.
    let mut waiting: Vec<Option<(usize, Instant)>> = vec![None; 1 << 16];
    let (begin, mut count, mut ended) = (Instant::now(), 0u32, None::<Instant>);
    while ended.is_none_or(|ended| ended.elapsed() < PATIENCE) {
        let due = begin + PAUSE * count;
        if ended.is_none() && Instant::now() >= due {
            let (id, now, phase) = (count as u16, Instant::now(), phase.load(Ordering::SeqCst));
            message[..2].copy_from_slice(&id.to_be_bytes());
            socket.send(&message).unwrap();
            waiting[usize::from(id)] = Some((phase, now));
            let phase = &mut phases[phase];
            phase.count += 1;
            (phase.first, phase.last) = (phase.first.or(Some(now)), Some(now));
            count += 1;
            if stop.load(Ordering::SeqCst) {
                ended = Some(now);
            }
        }
        // A query that is overdue goes out at once; answers are taken in all the same.
        let pause = due.saturating_duration_since(Instant::now()).min(PAUSE).max(Duration::from_micros(50));
        socket.set_read_timeout(Some(pause)).unwrap();
        let mut response = [0; 2_048];
        if let Ok(length) = socket.recv(&mut response)
            && length >= 12
            && response[2] & 0x80 != 0
            && let Some((phase, sent)) = waiting[usize::from(u16::from_be_bytes([response[0], response[1]]))].take()
        {
            phases[phase].latencies.push(sent.elapsed());
        }
    }
    phases.truncate(phase.load(Ordering::SeqCst) + 1);
    phases
}
