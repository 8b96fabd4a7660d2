//! The order to stop, from a signal or from the parent process.

use crate::problem::{Exit, Problem};
use std::io::Read;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Shared by all threads that wait for the order or may give it.
#[derive(Clone, Default, Debug)]
pub struct Stop(Arc<State>);

#[derive(Default, Debug)]
struct State {
    /// Written under the lock, so that no waiting thread misses it. Read without it: packet workers check it for each
    /// batch.
    is_ordered: AtomicBool,
    lock: Mutex<()>,
    threads: Condvar,
    tasks: Notify,
}

impl Stop {
    /// Gives the order.
    pub fn order(&self) {
        let guard = self.lock();
        self.0.is_ordered.store(true, Ordering::Release);
        drop(guard);
        self.0.threads.notify_all();
        self.0.tasks.notify_waiters();
    }

    /// Whether the order was given.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.0.is_ordered.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the order, up to `limit`; returns whether it was given.
    pub fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut guard = self.lock();
        while !self.is_ordered() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            guard = self.0.threads.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits for the order in a task.
    pub async fn ordered(&self) {
        let mut notified = pin!(self.0.tasks.notified());
        // From here on an order wakes the task.
        notified.as_mut().enable();
        if !self.is_ordered() {
            notified.await;
        }
    }

    /// Gives the order when standard input ends. The parent of a child process holds the other end of this pipe; it
    /// closes when the parent stops the child, or dies.
    pub fn on_end_of_input(&self) -> Result<(), Problem> {
        let stop = self.clone();
        let wait = move || {
            let mut nothing = [0; 64];
            while !matches!(std::io::stdin().read(&mut nothing), Ok(0) | Err(_)) {}
            stop.order();
        };
        let spawned = std::thread::Builder::new().name("parent".into()).spawn(wait);
        spawned.map(|_| ()).map_err(|error| Problem::new(Exit::Failed, "cannot wait for the parent", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_order_wakes_all_waiters() {
        let stop = Stop::default();
        assert!(!stop.wait(Duration::from_millis(1)) && !stop.is_ordered());
        let other = stop.clone();
        let waiter = std::thread::spawn(move || other.wait(Duration::from_secs(10)));
        let (other, later) = (stop.clone(), stop.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let task = std::thread::spawn(move || {
            runtime.block_on(other.ordered());
            // A later waiter returns at once.
            runtime.block_on(later.ordered());
        });
        stop.order();
        assert!(waiter.join().unwrap() && stop.is_ordered());
        task.join().unwrap();
    }
}
