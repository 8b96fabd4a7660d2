//! The configured rate limit, shared between threads. A reload can change it.

use super::Limiter;
use config::rate_limit::RateLimit;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};

/// The shared limit. Each thread has its own limiter, and checks a version number for changes.
pub(crate) struct SharedRateLimit {
    config: Mutex<RateLimit>,
    version: AtomicU64,
    /// Hash secret of the limiters' buckets.
    secret: [u8; 16],
}

impl SharedRateLimit {
    pub(crate) fn new(config: RateLimit, secret: [u8; 16]) -> Self {
        Self { config: Mutex::new(config), version: AtomicU64::new(0), secret }
    }

    /// Changes the rate limit. All buckets are reset.
    pub(crate) fn set(&self, config: RateLimit) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        self.version.fetch_add(1, Release);
    }

    /// A limiter for one of `threads` threads that share the rate; `None` without a limit.
    fn limiter(&self, threads: usize) -> Option<Limiter> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Limiter::new(&config, threads, self.secret)
    }
}

/// The limiter of one thread, which follows changes of the limit.
pub(crate) struct RateLimitWatch {
    shared: Arc<SharedRateLimit>,
    threads: usize,
    version: u64,
    limiter: Option<Limiter>,
}

impl RateLimitWatch {
    /// The limiter of one of `threads` threads.
    pub(crate) fn new(shared: &Arc<SharedRateLimit>, threads: usize) -> Self {
        let (version, limiter) = (shared.version.load(Acquire), shared.limiter(threads));
        Self { shared: shared.clone(), threads, version, limiter }
    }

    /// The limiter of a thread that shares its rate with no other.
    #[cfg(test)]
    pub(crate) fn of_one(config: &RateLimit) -> Self {
        Self::new(&Arc::new(SharedRateLimit::new(config.clone(), [3; 16])), 1)
    }

    /// The limiter, a new one if the rate has changed since the last call; `None` without a limit.
    pub(crate) fn current(&mut self) -> Option<&mut Limiter> {
        let version = self.shared.version.load(Acquire);
        if version != self.version {
            self.version = version;
            self.limiter = self.shared.limiter(self.threads);
        }
        self.limiter.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_each_thread_once() {
        let off = RateLimit { per_second: 0, ..RateLimit::default() };
        let shared = Arc::new(SharedRateLimit::new(RateLimit::default(), [1; 16]));
        let mut watches = [2, 2].map(|threads| RateLimitWatch::new(&shared, threads));
        assert!(watches.iter_mut().all(|watch| watch.current().is_some()));
        shared.set(off);
        for watch in &mut watches {
            assert!(watch.current().is_none());
            // A second call without a change keeps the limiter.
            watch.limiter = Limiter::new(&RateLimit::default(), 1, [2; 16]);
            assert!(watch.current().is_some());
        }
    }
}
