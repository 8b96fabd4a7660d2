//! Who is asked about next: neither a daemon that says nothing nor a key that asks much takes the turns of others.

use crate::limits::{EXTERNAL_PER_SOCKET_MAX, EXTERNAL_THREADS_PER_SOCKET_MAX, EXTERNAL_WAITING_MAX};
use policy::SocketPath;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What waits until daemons are asked about it, and what they are being asked about.
pub(super) struct Turns<T> {
    all: Mutex<All<T>>,
    /// There is something new, or a turn is over.
    changed: Condvar,
}

struct All<T> {
    waiting: VecDeque<(Turn, T)>,
    /// One for each thread that asks.
    under_way: Vec<Turn>,
}

/// The first daemon to be asked, and the key for whose update it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    pub(super) socket: SocketPath,
    pub(super) signer: String,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        let all = All { waiting: VecDeque::new(), under_way: Vec::new() };
        Self { all: Mutex::new(all), changed: Condvar::new() }
    }
}

impl<T> Turns<T> {
    /// Puts it behind the others; gives it back when too many wait, or too many for its daemon.
    pub(super) fn put(&self, turn: Turn, what: T) -> Result<(), T> {
        let mut all = self.all();
        let of_socket = || all.waiting.iter().filter(|(other, _)| other.socket == turn.socket).count();
        let waiting = all.waiting.len();
        if waiting >= EXTERNAL_WAITING_MAX
            || waiting >= EXTERNAL_PER_SOCKET_MAX && of_socket() >= EXTERNAL_PER_SOCKET_MAX
        {
            return Err(what);
        }
        all.waiting.push_back((turn, what));
        drop(all);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for one whose turn it is; [`end`](Self::end) has to be told when that is over.
    pub(super) fn take(&self) -> (Turn, T) {
        let mut all = self.all();
        loop {
            if let Some((turn, what)) = all.next() {
                all.under_way.push(turn.clone());
                return (turn, what);
            }
            all = self.changed.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn end(&self, turn: &Turn) {
        let mut all = self.all();
        if let Some(at) = all.under_way.iter().position(|other| other == turn) {
            all.under_way.swap_remove(at);
        }
        drop(all);
        // A thread that had nothing to do may ask this daemon now.
        self.changed.notify_one();
    }

    /// Nothing is half done when a thread that has it ends.
    fn all(&self) -> MutexGuard<'_, All<T>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> All<T> {
    /// The first whose daemon leaves threads for others; before it one for whose key nobody asks yet.
    fn next(&mut self) -> Option<(Turn, T)> {
        let threads = |socket: &SocketPath| self.under_way.iter().filter(|turn| turn.socket == *socket).count();
        let may = |turn: &Turn| threads(&turn.socket) < EXTERNAL_THREADS_PER_SOCKET_MAX;
        let is_new = |turn: &Turn| self.under_way.iter().all(|other| other.signer != turn.signer);
        let at = self.waiting.iter().position(|(turn, _)| may(turn) && is_new(turn));
        let at = at.or_else(|| self.waiting.iter().position(|(turn, _)| may(turn)))?;
        self.waiting.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EXTERNAL_THREADS;

    fn turn(socket: &str, signer: &str) -> Turn {
        Turn { socket: SocketPath::new(socket).unwrap(), signer: signer.to_owned() }
    }

    fn put(turns: &Turns<()>, count: usize, socket: &str, signer: &str) -> usize {
        (0..count).filter(|_| turns.put(turn(socket, signer), ()).is_ok()).count()
    }

    #[test]
    fn a_daemon_that_says_nothing_leaves_threads_for_others() {
        let turns = Turns::default();
        put(&turns, 20, "/silent", "a.");
        let silent: Vec<Turn> = (0..EXTERNAL_THREADS_PER_SOCKET_MAX).map(|_| turns.take().0).collect();
        assert!(silent.len() < EXTERNAL_THREADS && turns.all().next().is_none());
        put(&turns, 1, "/quick", "a.");
        let (quick, ()) = turns.take();
        assert_eq!(quick, turn("/quick", "a."));
        turns.end(&quick);
        assert!(turns.all().next().is_none(), "all that wait are of the one that says nothing");
        turns.end(&silent[0]);
        assert_eq!(turns.take().0, silent[0]);
    }

    #[test]
    fn a_key_that_asks_much_comes_behind_one_that_asks_once() {
        let turns = Turns::default();
        put(&turns, 20, "/daemon", "much.");
        let _under_way = turns.take();
        put(&turns, 1, "/daemon", "once.");
        assert_eq!(turns.take().0.signer, "once.");
    }

    #[test]
    fn one_daemon_has_half_of_the_places() {
        let turns = Turns::default();
        assert_eq!(put(&turns, EXTERNAL_WAITING_MAX, "/one", "a."), EXTERNAL_PER_SOCKET_MAX);
        assert_eq!(put(&turns, EXTERNAL_WAITING_MAX, "/other", "a."), EXTERNAL_WAITING_MAX - EXTERNAL_PER_SOCKET_MAX);
        assert_eq!(put(&turns, 1, "/third", "a."), 0);
    }
}
