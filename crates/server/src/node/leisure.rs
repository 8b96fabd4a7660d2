//! The thread that gives way to all others. It tells the replica when nobody else wants to run, so that long work (the
//! chunks of an import, the blocks of a checkpoint) goes on piece by piece between the answers to clients.
//!
//! On a core that answers half of what it can, a moment in which nobody wants to run comes every few milliseconds:
//! taken each time, such pieces would fill the core, and queries wait. So where it had to wait for a core and clients
//! were answered meanwhile, it lets some time go by.

use super::handle::{Event, ReplicaHandle};
use super::system::give_way_to_all;
use crate::limits::{LEISURE_AT_ONCE_US, LEISURE_PACE_MS};
use crate::service::counters::WorkerCounters;
use replica::io::Input;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Works until the other end of `asked` is gone; each message is the time at which the replica asked.
pub(super) fn run(asked: &Receiver<Instant>, handle: &ReplicaHandle, workers: &[Arc<WorkerCounters>]) {
    give_way_to_all();
    let messages = || workers.iter().map(|worker| worker.received.get()).fold(0, u64::wrapping_add);
    let mut seen = messages();
    while let Ok(since) = asked.recv() {
        let has_waited = since.elapsed() > Duration::from_micros(LEISURE_AT_ONCE_US);
        let before = std::mem::replace(&mut seen, messages());
        if has_waited && before != seen {
            std::thread::sleep(Duration::from_millis(LEISURE_PACE_MS));
        }
        handle.send(Event::Input(Input::Leisure));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    /// How long word of leisure takes that was asked for so long ago, after so many messages of clients.
    fn word_after(waited: Duration, messages: u64) -> Duration {
        let (ask, asked) = channel();
        let (events, heard) = channel();
        let workers = [Arc::<WorkerCounters>::default(), Arc::default()];
        let handle = ReplicaHandle::new(events, Arc::default());
        let thread = {
            let workers = workers.clone();
            thread::spawn(move || run(&asked, &handle, &workers))
        };
        // The first word: from here on it has seen what was counted before.
        ask.send(Instant::now()).unwrap();
        assert!(matches!(heard.recv().unwrap(), Event::Input(Input::Leisure)));
        (0..messages).for_each(|_| workers[1].received.one());
        let begin = Instant::now();
        ask.send(begin.checked_sub(waited).unwrap()).unwrap();
        assert!(matches!(heard.recv().unwrap(), Event::Input(Input::Leisure)));
        let took = begin.elapsed();
        drop(ask);
        thread.join().unwrap();
        took
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
