//! Tells the replica when nobody else wants to run ([`IdleThread`]), so that long work (the chunks of an import, the
//! blocks of a checkpoint) goes on piece by piece between the answers to clients.
//!
//! On a core that answers half of what it can, a moment in which nobody wants to run comes every few milliseconds:
//! taken each time, such pieces would fill the core, and queries wait. So where it had to wait for a core and clients
//! were answered meanwhile, it lets some time go by. It does so too where many clients are answered, though it had not
//! to wait: to Linux, who gives way to all is one of very little weight, and a turn falls to it now and then while the
//! thread that answers wants to run. Each piece that this begins would lead to the next.

use super::handle::{Event, ReplicaHandle};
use super::idle::IdleThread;
use crate::limits::{LEISURE_AT_ONCE_US, LEISURE_MANY_PER_S, LEISURE_PACE_MS, LEISURE_WINDOW_MS};
use crate::service::counters::WorkerCounters;
use replica::io::Input;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};
use zone::set::Prefaulter;

/// How often the memory that zones come to next is looked at while nothing is asked for: changes use it too.
const MEMORY_AHEAD_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked, while nobody else gives way, whether there is still somebody to tell.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the replica's thread says to it.
pub(super) enum Word {
    /// When the replica asked for leisure.
    Asked(Instant),
    /// The memory of the zones, which are other ones from now on.
    Zones(Prefaulter),
}

/// Works until the other end of `words` is gone. `cores` are those that the process may use.
///
/// In between it touches the memory that zones come to next, so that the replica does not wait for the kernel. It does
/// so when nobody else wants to run, and not as one who gives way: the replica may come to need what the kernel locks.
pub(super) fn run(
    words: &Receiver<Word>,
    idle: IdleThread,
    handle: &ReplicaHandle,
    workers: &[Arc<WorkerCounters>],
    cores: usize,
) {
    let mut clients = Clients::new(workers, cores, Instant::now());
    let mut leisure = Leisure { words, idle, memory: None, asked: None };
    loop {
        let word = match leisure.asked.take() {
            Some(since) => Ok(Word::Asked(since)),
            None => words.recv_timeout(MEMORY_AHEAD_EVERY),
        };
        match word {
            Ok(Word::Asked(since)) => {
                if !leisure.wait() {
                    return;
                }
                let now = Instant::now();
                let has_waited = now - since > Duration::from_micros(LEISURE_AT_ONCE_US);
                let (some, many) = clients.look(now);
                if many || has_waited && some {
                    thread::sleep(Duration::from_millis(LEISURE_PACE_MS));
                    if !leisure.wait() {
                        return;
                    }
                }
                // Before the next piece, which would come to that page first where there is one core, and touch it too.
                leisure.touch();
                handle.send(Event::Input(Input::Idle));
            }
            Ok(Word::Zones(others)) => leisure.memory = Some(others),
            Err(RecvTimeoutError::Timeout) if leisure.memory.as_ref().is_some_and(Prefaulter::is_due) => {
                if !leisure.wait() {
                    return;
                }
                leisure.touch();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

struct Leisure<'a> {
    words: &'a Receiver<Word>,
    idle: IdleThread,
    memory: Option<Prefaulter>,
    /// When the replica asked while it was waited: it is told once.
    asked: Option<Instant>,
}

impl Leisure<'_> {
    /// Waits until nobody else wants to run; false when there is nobody to tell any more.
    fn wait(&mut self) -> bool {
        self.idle.ask();
        loop {
            thread::park_timeout(LOOK_EVERY);
            if self.idle.has_run() {
                return true;
            }
            loop {
                match self.words.try_recv() {
                    Ok(Word::Asked(since)) => self.asked = Some(since),
                    Ok(Word::Zones(others)) => self.memory = Some(others),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return false,
                }
            }
        }
    }

    fn touch(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.touch();
        }
    }
}

/// Who is answered, by the messages that the threads that answer have counted.
struct Clients<'a> {
    workers: &'a [Arc<WorkerCounters>],
    cores: usize,
    seen: u64,
    window: (Instant, u64),
    are_many: bool,
}

impl<'a> Clients<'a> {
    fn new(workers: &'a [Arc<WorkerCounters>], cores: usize, now: Instant) -> Self {
        let mut clients = Self { workers, cores, seen: 0, window: (now, 0), are_many: false };
        clients.seen = clients.messages();
        clients.window.1 = clients.seen;
        clients
    }

    /// All messages so far; round at 64 bits.
    fn messages(&self) -> u64 {
        self.workers.iter().map(|worker| worker.received.get()).fold(0, u64::wrapping_add)
    }

    /// Whether there were messages since the last look, and whether there are many of them.
    fn look(&mut self, now: Instant) -> (bool, bool) {
        let messages = self.messages();
        let before = std::mem::replace(&mut self.seen, messages);
        let (begin, first) = self.window;
        let millis = (now - begin).as_millis();
        if millis >= LEISURE_WINDOW_MS.into() {
            let many = u128::from(LEISURE_MANY_PER_S) * self.cores as u128 * millis / 1_000;
            self.are_many = u128::from(messages.wrapping_sub(first)) >= many;
            self.window = (now, messages);
        }
        (before != messages, self.are_many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// How long word of leisure takes that was asked for so long ago, after so many messages of clients.
    fn word_after(waited: Duration, messages: u64) -> Duration {
        let (ask, asked) = channel();
        let (events, heard) = channel();
        let workers = [Arc::<WorkerCounters>::default(), Arc::default()];
        let handle = ReplicaHandle::new(events, Arc::default());
        let thread = {
            let workers = workers.clone();
            thread::spawn(move || run(&asked, IdleThread::start().unwrap(), &handle, &workers, 1))
        };
        // The first word: from here on it has seen what was counted before.
        ask.send(Word::Asked(Instant::now())).unwrap();
        assert!(matches!(heard.recv().unwrap(), Event::Input(Input::Idle)));
        (0..messages).for_each(|_| workers[1].received.one());
        let begin = Instant::now();
        ask.send(Word::Asked(begin.checked_sub(waited).unwrap())).unwrap();
        assert!(matches!(heard.recv().unwrap(), Event::Input(Input::Idle)));
        let took = begin.elapsed();
        drop(ask);
        thread.join().unwrap();
        took
    }

    #[test]
    fn many_is_counted_a_second_and_for_each_core() {
        let workers = [Arc::<WorkerCounters>::default(), Arc::default()];
        let start = Instant::now();
        let mut clients = Clients::new(&workers, 2, start);
        let at = |millis| start + Duration::from_millis(millis);
        let receive = |count| (0..count).for_each(|_| workers[0].received.one());
        assert_eq!(clients.look(at(1_000)), (false, false));
        // By whichever thread, over a tenth of a second.
        let many = 2 * LEISURE_MANY_PER_S / 10;
        receive(many);
        assert_eq!(clients.look(at(1_100)), (true, true));
        // Until there is a window of that length again, it is as it was.
        assert_eq!(clients.look(at(1_100 + LEISURE_WINDOW_MS - 1)), (false, true));
        receive(many - 1);
        assert_eq!(clients.look(at(1_200)), (true, false));
    }

    #[test]
    fn beside_clients_it_keeps_a_pace_where_it_had_to_wait_for_a_core() {
        let (pace, long) = (Duration::from_millis(LEISURE_PACE_MS), Duration::from_micros(2 * LEISURE_AT_ONCE_US));
        assert!(word_after(long, 1) >= pace);
        // Where no client asks, none is disturbed; on cores that are busy otherwise the shortest of some counts.
        let shortest = (0..20).map(|_| word_after(long, 0)).min().unwrap();
        assert!(shortest < pace, "{shortest:?}");
        let shortest = (0..20).map(|_| word_after(Duration::ZERO, 1)).min().unwrap();
        assert!(shortest < pace, "{shortest:?}");
    }
}
