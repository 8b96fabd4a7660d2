//! The order to stop: from a signal, or from the process that started this one.

use crate::problem::{Exit, Problem};
use std::io::Read;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Shared by all threads that wait for the order or may give it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Stop(Arc<(Mutex<bool>, Condvar, Notify)>);

impl Stop {
    /// Gives the order.
    pub(crate) fn order(&self) {
        *self.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = true;
        self.0.1.notify_all();
        self.0.2.notify_waiters();
    }

    pub(crate) fn is_ordered(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits for the order, up to `limit`; returns whether it was given.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut ordered = self.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while !*ordered {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            ordered = self.0.1.wait_timeout(ordered, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        *ordered
    }

    /// Waits for the order in a task.
    pub(crate) async fn ordered(&self) {
        let mut notified = pin!(self.0.2.notified());
        // An order from here on is noticed.
        notified.as_mut().enable();
        if !self.is_ordered() {
            notified.await;
        }
    }

    /// Gives the order when standard input ends. The parent of a child process holds the other end of this pipe; it
    /// closes when the parent stops the child, or dies.
    pub(crate) fn on_end_of_input(&self) -> Result<(), Problem> {
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
