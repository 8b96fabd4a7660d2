//! The rate limit of the configuration, which can change while threads limit with it.

use super::Limiter;
use crate::config::rate_limit::RateLimit;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};

/// For all threads: each has a limiter of its own, and looks at one number.
pub(crate) struct SharedRateLimit {
    config: Mutex<RateLimit>,
    version: AtomicU64,
    /// Of the limiters' accounts.
    secret: [u8; 16],
}

impl SharedRateLimit {
    pub(crate) fn new(config: RateLimit, secret: [u8; 16]) -> Self {
        Self { config: Mutex::new(config), version: AtomicU64::new(0), secret }
    }

    /// Another rate limit from now on. All accounts begin anew with it.
    pub(crate) fn set(&self, config: RateLimit) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        self.version.fetch_add(1, Release);
    }

    /// That of one of `threads` which share the rate, if there is a limit.
    pub(crate) fn limiter(&self, threads: usize) -> Option<Limiter> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Limiter::new(&config, threads, self.secret)
    }
}

/// What one of the threads looks at.
pub(crate) struct RateLimitWatch {
    shared: Arc<SharedRateLimit>,
    threads: usize,
    version: u64,
}

impl RateLimitWatch {
    pub(crate) fn new(shared: &Arc<SharedRateLimit>, threads: usize) -> Self {
        Self { shared: shared.clone(), threads, version: 0 }
    }

    /// Puts another limiter in place if the rate has changed since the last look.
    pub(crate) fn refresh(&mut self, limiter: &mut Option<Limiter>) {
        let version = self.shared.version.load(Acquire);
        if version != self.version {
            self.version = version;
            *limiter = self.shared.limiter(self.threads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_each_thread_once() {
        let off = RateLimit { per_second: 0, ..RateLimit::default() };
        let shared = Arc::new(SharedRateLimit::new(RateLimit::default(), [1; 16]));
        let mut watches = [2, 2].map(|threads| (RateLimitWatch::new(&shared, threads), shared.limiter(threads)));
        assert!(watches.iter().all(|(_, limiter)| limiter.is_some()));
        shared.set(off);
        for (watch, limiter) in &mut watches {
            watch.refresh(limiter);
            assert!(limiter.is_none());
            // Nothing is done again until the next change.
            *limiter = Limiter::new(&RateLimit::default(), 1, [2; 16]);
            watch.refresh(limiter);
            assert!(limiter.is_some());
        }
    }
}
