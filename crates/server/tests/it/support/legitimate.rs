//! A client that asks over UDP at an even rate, whatever else goes on; and how many answers it gets meanwhile.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two queries.
const PAUSE: Duration = Duration::from_millis(2);
/// An answer that comes later is none.
const PATIENCE: Duration = Duration::from_secs(1);
/// Phases of one client.
const PHASES_MAX: usize = 16;

/// It runs until it is told to finish.
pub(crate) struct Legitimate {
    stop: Arc<AtomicBool>,
    phase: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Phase>>,
}

/// What became of the queries that were sent between two moments.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Phase {
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    first: Option<Instant>,
    last: Option<Instant>,
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
        self.thread.join().unwrap()
    }
}

fn ask(server: SocketAddr, mut message: Vec<u8>, stop: &AtomicBool, phase: &AtomicUsize) -> Vec<Phase> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(server).unwrap();
    let mut phases = vec![Phase::default(); PHASES_MAX];
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
            phase.asked += 1;
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
            && sent.elapsed() <= PATIENCE
        {
            phases[phase].answered += 1;
        }
    }
    phases.truncate(phase.load(Ordering::SeqCst) + 1);
    phases
}
