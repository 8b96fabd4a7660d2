//! A client that asks over UDP at an even rate, from some ports, whatever else goes on; and how many answers it gets
//! meanwhile, in time.
//!
//! In time is within 50 ms, which is far less than a resolver waits before it asks again. Where the machine is so busy
//! that answers take long before anybody attacks, it is four times what 99 of 100 took then.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Queries that are sent at one time, and the time between. A sixth of a core or so: what is left is for the others.
const BURST: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);
/// Queries a second.
pub(crate) const RATE: f64 = BURST as f64 * 1e9 / PAUSE.as_nanos() as f64;
/// A client that could not run for longer than this leaves out what it is behind with: all of it at once would be a
/// flood of its own.
const BEHIND_MAX: Duration = Duration::from_millis(50);
/// Ports that they come from: the kernel gives a port to one of the server's sockets.
pub(super) const SOCKETS: usize = 8;
/// How long the last answers are waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// An answer that comes later is none, but on a busy machine.
const IN_TIME: Duration = Duration::from_millis(50);
/// How much longer than before answers may take on a busy machine.
const SLOWER_MAX: u32 = 4;
/// Phases of one client.
const PHASES_MAX: usize = 32;

/// Tests that ask as much as this take turns: each would be what the other measures.
pub(crate) fn in_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // One that failed has nothing to do with the next.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

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

    /// Of the queries those that were answered.
    pub(crate) fn share(&self) -> f64 {
        self.answered as f64 / self.asked.max(1) as f64
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

/// Sockets that are connected to the server and do not block.
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

fn ask(server: SocketAddr, mut message: Vec<u8>, stop: &AtomicBool, phase: &AtomicUsize) -> Vec<Asked> {
    let sockets = sockets(server);
    let mut phases = vec![Asked::default(); PHASES_MAX];
    // By socket and ID: in which phase it was sent, and when.
    let mut waiting: Vec<Vec<Option<(usize, Instant)>>> = vec![vec![None; 1 << 16]; SOCKETS];
    let (mut begin, mut bursts, mut ended) = (Instant::now(), 0u32, None::<Instant>);
    while ended.is_none_or(|ended| ended.elapsed() < PATIENCE) {
        let due = begin + PAUSE * bursts;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        begin += due.elapsed().saturating_sub(BEHIND_MAX);
        bursts += 1;
        if ended.is_none() {
            let (now, at) = (Instant::now(), phase.load(Ordering::SeqCst));
            for number in (bursts * BURST)..((bursts + 1) * BURST) {
                let (socket, id) = (number as usize % SOCKETS, (number / SOCKETS as u32) as u16);
                message[..2].copy_from_slice(&id.to_be_bytes());
                // One that the kernel does not take is a query without an answer.
                let _ = sockets[socket].send(&message);
                waiting[socket][usize::from(id)] = Some((at, now));
            }
            let phase = &mut phases[at];
            phase.count += u64::from(BURST);
            (phase.first, phase.last) = (phase.first.or(Some(now)), Some(now));
            ended = stop.load(Ordering::SeqCst).then_some(now);
        }
        // A burst that is overdue goes out at once; answers are taken in all the same.
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
