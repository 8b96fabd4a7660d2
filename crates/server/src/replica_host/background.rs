//! Tells the replica when the machine is idle ([`IdleThread`]). Background work (chunks of an import, blocks of a
//! checkpoint) then continues in small steps between the responses to clients.
//!
//! On a busy core, idle moments come every few milliseconds. Background work in each of them would fill the core, and
//! queries would wait. So the thread pauses if it had to wait for a core while clients were answered. It also pauses
//! while many clients are answered, even if it did not wait: the kernel gives an idle thread a core now and then
//! although others want to run.

use super::idle::IdleThread;
use crate::answer::counters::WorkerCounters;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};
use zone::set::Prefaulter;

/// If the idle thread runs within this time, the core was idle.
const BACKGROUND_PROMPT_US: u64 = 500;
/// Pause between steps of background work on busy cores while clients are answered.
const BACKGROUND_PAUSE_MS: u64 = 20;
/// Messages per second and core above which the cores count as busy with clients: a tenth of a core.
const BACKGROUND_BUSY_PER_SECOND: u64 = 20_000;
/// Minimum window of the count of messages.
const BACKGROUND_WINDOW_MS: u64 = 10;
/// Interval between checks of the memory that zones use next, while no background work is requested.
const MEMORY_AHEAD_EVERY: Duration = Duration::from_secs(1);
/// How often the thread checks for shutdown while it waits for an idle moment.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A message from the replica thread.
pub(crate) enum Message {
    /// The replica requested an idle notification at this time.
    Requested(Instant),
    /// The memory of the zones after all zones were replaced.
    Zones(Prefaulter),
}

/// Runs until the sender of `messages` is gone. Calls `notify` when the replica may do a step of background work.
/// `cores` is the number of cores that the process may use.
///
/// It also touches the memory that zones use next, so that the replica does not wait for the kernel. It does so when
/// the machine is idle, but with normal priority: the replica may need the lock that the kernel holds meanwhile.
pub(crate) fn run(
    messages: &Receiver<Message>,
    idle: IdleThread,
    workers: &[Arc<WorkerCounters>],
    cores: usize,
    notify: impl Fn(),
) {
    let mut clients = Clients::new(workers, cores, Instant::now());
    let mut notifier = IdleNotifier { messages, idle, memory: None, requested_at: None };
    loop {
        let message = match notifier.requested_at.take() {
            Some(since) => Ok(Message::Requested(since)),
            None => messages.recv_timeout(MEMORY_AHEAD_EVERY),
        };
        match message {
            Ok(Message::Requested(since)) => {
                if !notifier.wait() {
                    return;
                }
                let now = Instant::now();
                let has_waited = now - since > Duration::from_micros(BACKGROUND_PROMPT_US);
                let (some, many) = clients.look(now);
                if many || has_waited && some {
                    thread::sleep(Duration::from_millis(BACKGROUND_PAUSE_MS));
                    if !notifier.wait() {
                        return;
                    }
                }
                // Touch the memory before the next step of background work: on one core, that step would touch the page
                // first.
                notifier.touch();
                notify();
            }
            Ok(Message::Zones(others)) => notifier.memory = Some(others),
            Err(RecvTimeoutError::Timeout) if notifier.memory.as_ref().is_some_and(Prefaulter::is_due) => {
                if !notifier.wait() {
                    return;
                }
                notifier.touch();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

struct IdleNotifier<'a> {
    messages: &'a Receiver<Message>,
    idle: IdleThread,
    memory: Option<Prefaulter>,
    /// A request that arrived while an earlier one was waiting. It gets one notification.
    requested_at: Option<Instant>,
}

impl IdleNotifier<'_> {
    /// Waits until the machine is idle. Returns false if the replica thread is gone.
    fn wait(&mut self) -> bool {
        self.idle.request();
        loop {
            thread::park_timeout(LOOK_EVERY);
            if self.idle.has_run() {
                return true;
            }
            loop {
                match self.messages.try_recv() {
                    Ok(Message::Requested(since)) => self.requested_at = Some(since),
                    Ok(Message::Zones(others)) => self.memory = Some(others),
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

/// The load by clients, measured by the message counters of the packet workers.
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

    /// Number of messages so far. It wraps around at 64 bits.
    fn messages(&self) -> u64 {
        self.workers.iter().map(|worker| worker.received.get()).fold(0, u64::wrapping_add)
    }

    /// Returns whether there were messages since the last call, and whether there are many.
    fn look(&mut self, now: Instant) -> (bool, bool) {
        let messages = self.messages();
        let before = std::mem::replace(&mut self.seen, messages);
        let (begin, first) = self.window;
        let millis = (now - begin).as_millis();
        if millis >= BACKGROUND_WINDOW_MS.into() {
            let many = u128::from(BACKGROUND_BUSY_PER_SECOND) * self.cores as u128 * millis / 1_000;
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

    /// How long a notification takes if it was requested `waited` ago, after this many messages of clients.
    fn time_to_idle_input(waited: Duration, messages: u64) -> Duration {
        let (requests, queue) = channel();
        let (events, notified) = channel();
        let workers = [Arc::<WorkerCounters>::default(), Arc::default()];
        let thread = {
            let workers = workers.clone();
            let notify = move || events.send(()).unwrap();
            thread::spawn(move || run(&queue, IdleThread::start().unwrap(), &workers, 1, notify))
        };
        // After the first notification, the thread has seen the counters.
        requests.send(Message::Requested(Instant::now())).unwrap();
        notified.recv().unwrap();
        (0..messages).for_each(|_| workers[1].received.one());
        let begin = Instant::now();
        requests.send(Message::Requested(begin.checked_sub(waited).unwrap())).unwrap();
        notified.recv().unwrap();
        let took = begin.elapsed();
        drop(requests);
        thread.join().unwrap();
        took
    }

    #[test]
    fn the_load_threshold_scales_with_time_and_cores() {
        let workers = [Arc::<WorkerCounters>::default(), Arc::default()];
        let start = Instant::now();
        let mut clients = Clients::new(&workers, 2, start);
        let at = |millis| start + Duration::from_millis(millis);
        let receive = |count| (0..count).for_each(|_| workers[0].received.one());
        assert_eq!(clients.look(at(1_000)), (false, false));
        // The threshold, in a tenth of a second.
        let many = 2 * BACKGROUND_BUSY_PER_SECOND / 10;
        receive(many);
        assert_eq!(clients.look(at(1_100)), (true, true));
        // The result stays the same until the next window.
        assert_eq!(clients.look(at(1_100 + BACKGROUND_WINDOW_MS - 1)), (false, true));
        receive(many - 1);
        assert_eq!(clients.look(at(1_200)), (true, false));
    }

    #[test]
    fn it_pauses_if_it_waited_for_a_core_while_clients_were_answered() {
        let (pace, long) =
            (Duration::from_millis(BACKGROUND_PAUSE_MS), Duration::from_micros(2 * BACKGROUND_PROMPT_US));
        assert!(time_to_idle_input(long, 1) >= pace);
        // Without clients there is no pause. Busy machines add delays, so the shortest of several attempts counts.
        let shortest = (0..20).map(|_| time_to_idle_input(long, 0)).min().unwrap();
        assert!(shortest < pace, "{shortest:?}");
        let shortest = (0..20).map(|_| time_to_idle_input(Duration::ZERO, 1)).min().unwrap();
        assert!(shortest < pace, "{shortest:?}");
    }
}
