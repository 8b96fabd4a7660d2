//! Servers with one fault each, timed from the first query on, like the run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use testbed::echo::{Fault, Faults, ReceivedQuery};

/// How long nothing is answered in each second.
pub(crate) const STOP: Duration = Duration::from_millis(200);
/// When in each second the stop begins.
const STOP_AT_MS: u32 = 400;
/// The delay of a late answer.
pub(crate) const DELAY: Duration = Duration::from_millis(1_500);

/// How much unused rate a server of [`at_most`] saves up.
pub(crate) const OWED: Duration = Duration::from_millis(50);

/// Time since the first query.
#[derive(Default)]
struct Since(OnceLock<Duration>);

impl Since {
    fn of(&self, query: &ReceivedQuery<'_>) -> Duration {
        query.at.saturating_sub(*self.0.get_or_init(|| query.at))
    }
}

/// Stops for [`STOP`] in each second.
pub(crate) fn stops_each_second() -> Faults {
    let (since, stopped) = (Since::default(), AtomicU64::new(u64::MAX));
    Arc::new(move |query| {
        let since = since.of(query);
        let second = since.as_secs();
        if since.subsec_millis() >= STOP_AT_MS && stopped.swap(second, Ordering::Relaxed) != second {
            Fault::Pause(STOP)
        } else {
            Fault::None
        }
    })
}

/// Stops for a whole second at the start of the given second of every ten.
pub(crate) fn rests_in_one_second_of_ten(second: u64) -> Faults {
    let (since, rested) = (Since::default(), AtomicU64::new(u64::MAX));
    Arc::new(move |query| {
        let now = since.of(query).as_secs();
        if now % 10 == second && rested.swap(now, Ordering::Relaxed) != now {
            Fault::Pause(Duration::from_secs(1))
        } else {
            Fault::None
        }
    })
}

/// Drops one query in a hundred in the given second of every ten.
pub(crate) fn drops_in_one_second_of_ten(second: u64) -> Faults {
    let since = Since::default();
    Arc::new(move |query| {
        let is_second = since.of(query).as_secs() % 10 == second;
        if is_second && query.number % 100 == 50 { Fault::Drop } else { Fault::None }
    })
}

/// Delays one query in ten by [`DELAY`] in the given second.
pub(crate) fn answers_late_in(second: u64) -> Faults {
    let since = Since::default();
    Arc::new(move |query| {
        let is_second = since.of(query).as_secs() == second;
        if is_second && query.number % 10 == 5 { Fault::Delay(DELAY) } else { Fault::None }
    })
}

/// Answers at most `rate` queries per second; `beyond` happens to the rest. Up to [`OWED`] of unused rate is saved up.
pub(crate) fn at_most(rate: f64, beyond: Fault) -> Faults {
    /// The time of the last query, and the saved-up answers.
    struct Bucket {
        last_at: Duration,
        owed: f64,
    }
    let bucket = Mutex::new(Bucket { last_at: Duration::ZERO, owed: 0.0 });
    Arc::new(move |query| {
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = query.at.saturating_sub(bucket.last_at).as_secs_f64();
        *bucket = Bucket { last_at: query.at, owed: (bucket.owed + passed * rate).min(rate * OWED.as_secs_f64()) };
        if bucket.owed < 1.0 {
            return beyond;
        }
        bucket.owed -= 1.0;
        Fault::None
    })
}
