//! The queue of requests to daemons. It is fair: a silent daemon or a busy key does not delay others.

use crate::limits::{EXTERNAL_PER_SOCKET_MAX, EXTERNAL_THREADS_PER_SOCKET_MAX, EXTERNAL_WAITING_MAX};
use policy::SocketPath;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Waiting requests, and the keys of those in progress.
pub(super) struct RequestQueue<T> {
    state: Mutex<State<T>>,
    /// A request was added, or one ended.
    changed: Condvar,
}

struct State<T> {
    waiting: VecDeque<(QueueKey, T)>,
    /// One for each busy thread.
    in_progress: Vec<QueueKey>,
}

/// The first daemon of a request, and the signer of its update.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct QueueKey {
    pub(super) socket: SocketPath,
    pub(super) signer: String,
}

impl<T> Default for RequestQueue<T> {
    fn default() -> Self {
        let state = State { waiting: VecDeque::new(), in_progress: Vec::new() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<T> RequestQueue<T> {
    /// Appends a request; returns it when the queue is full, or has too many for this daemon.
    pub(super) fn put(&self, key: QueueKey, request: T) -> Result<(), T> {
        let mut state = self.state();
        let of_socket = || state.waiting.iter().filter(|(other, _)| other.socket == key.socket).count();
        let waiting = state.waiting.len();
        if waiting >= EXTERNAL_WAITING_MAX
            || waiting >= EXTERNAL_PER_SOCKET_MAX && of_socket() >= EXTERNAL_PER_SOCKET_MAX
        {
            return Err(request);
        }
        state.waiting.push_back((key, request));
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for the next request. Call [`end`](Self::end) when it is done.
    pub(super) fn take(&self) -> (QueueKey, T) {
        let mut state = self.state();
        loop {
            if let Some((key, request)) = state.next() {
                state.in_progress.push(key.clone());
                return (key, request);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn end(&self, key: &QueueKey) {
        let mut state = self.state();
        if let Some(at) = state.in_progress.iter().position(|other| other == key) {
            state.in_progress.swap_remove(at);
        }
        drop(state);
        // An idle thread may query this daemon now.
        self.changed.notify_one();
    }

    /// Ignores poisoning: no panic can leave the state half changed.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// The first request whose daemon does not use its share of threads. Signers without a request in progress go
    /// first.
    fn next(&mut self) -> Option<(QueueKey, T)> {
        let threads = |socket: &SocketPath| self.in_progress.iter().filter(|key| key.socket == *socket).count();
        let may = |key: &QueueKey| threads(&key.socket) < EXTERNAL_THREADS_PER_SOCKET_MAX;
        let is_new = |key: &QueueKey| self.in_progress.iter().all(|other| other.signer != key.signer);
        let at = self.waiting.iter().position(|(key, _)| may(key) && is_new(key));
        let at = at.or_else(|| self.waiting.iter().position(|(key, _)| may(key)))?;
        self.waiting.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EXTERNAL_THREADS;

    fn key(socket: &str, signer: &str) -> QueueKey {
        QueueKey { socket: SocketPath::new(socket).unwrap(), signer: signer.to_owned() }
    }

    fn put(queue: &RequestQueue<()>, count: usize, socket: &str, signer: &str) -> usize {
        (0..count).filter(|_| queue.put(key(socket, signer), ()).is_ok()).count()
    }

    #[test]
    fn a_silent_daemon_leaves_threads_for_others() {
        let queue = RequestQueue::default();
        put(&queue, 20, "/silent", "a.");
        let silent: Vec<QueueKey> = (0..EXTERNAL_THREADS_PER_SOCKET_MAX).map(|_| queue.take().0).collect();
        assert!(silent.len() < EXTERNAL_THREADS && queue.state().next().is_none());
        put(&queue, 1, "/quick", "a.");
        let (quick, ()) = queue.take();
        assert_eq!(quick, key("/quick", "a."));
        queue.end(&quick);
        assert!(queue.state().next().is_none(), "all waiting requests are for the silent daemon");
        queue.end(&silent[0]);
        assert_eq!(queue.take().0, silent[0]);
    }

    #[test]
    fn a_busy_key_waits_behind_a_quiet_one() {
        let queue = RequestQueue::default();
        put(&queue, 20, "/daemon", "much.");
        let _under_way = queue.take();
        put(&queue, 1, "/daemon", "once.");
        assert_eq!(queue.take().0.signer, "once.");
    }

    #[test]
    fn one_daemon_gets_half_of_the_queue() {
        let queue = RequestQueue::default();
        assert_eq!(put(&queue, EXTERNAL_WAITING_MAX, "/one", "a."), EXTERNAL_PER_SOCKET_MAX);
        assert_eq!(put(&queue, EXTERNAL_WAITING_MAX, "/other", "a."), EXTERNAL_WAITING_MAX - EXTERNAL_PER_SOCKET_MAX);
        assert_eq!(put(&queue, 1, "/third", "a."), 0);
    }
}
