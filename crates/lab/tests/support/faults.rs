//! Servers with one fault each, timed from their first query on, as the run that asks them is.

use lab::echo::{Fault, Faults, ReceivedQuery};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Nothing is answered for so long in each second.
pub(crate) const STOP: Duration = Duration::from_millis(200);
/// When in each second that begins.
const STOP_AT_MS: u32 = 400;
/// An answer that is late comes after so long.
pub(crate) const DELAY: Duration = Duration::from_millis(1_500);

/// How long a server that answers at most so many saves up what it was not asked.
pub(crate) const OWED: Duration = Duration::from_millis(50);

/// Time since the first query.
#[derive(Default)]
struct Since(OnceLock<Duration>);

impl Since {
    fn of(&self, asked: &ReceivedQuery<'_>) -> Duration {
        asked.at.saturating_sub(*self.0.get_or_init(|| asked.at))
    }
}

/// Stops for [`STOP`] in each second.
pub(crate) fn stops_each_second() -> Faults {
    let (since, stopped) = (Since::default(), AtomicU64::new(u64::MAX));
    Arc::new(move |asked| {
        let since = since.of(asked);
        let second = since.as_secs();
        if since.subsec_millis() >= STOP_AT_MS && stopped.swap(second, Ordering::Relaxed) != second {
            Fault::Pause(STOP)
        } else {
            Fault::None
        }
    })
}

/// Does nothing for a whole second at the start of the second `second` of every ten.
pub(crate) fn rests_in_one_second_of_ten(second: u64) -> Faults {
    let (since, rested) = (Since::default(), AtomicU64::new(u64::MAX));
    Arc::new(move |asked| {
        let now = since.of(asked).as_secs();
        if now % 10 == second && rested.swap(now, Ordering::Relaxed) != now {
            Fault::Pause(Duration::from_secs(1))
        } else {
            Fault::None
        }
    })
}

/// Does not answer one query in a hundred of the second `second` of every ten.
pub(crate) fn drops_in_one_second_of_ten(second: u64) -> Faults {
    let since = Since::default();
    Arc::new(move |asked| {
        let is_second = since.of(asked).as_secs() % 10 == second;
        if is_second && asked.number % 100 == 50 { Fault::Drop } else { Fault::None }
    })
}

/// Answers one query in ten of that second after [`DELAY`].
pub(crate) fn answers_late_in(second: u64) -> Faults {
    let since = Since::default();
    Arc::new(move |asked| {
        let is_second = since.of(asked).as_secs() == second;
        if is_second && asked.number % 10 == 5 { Fault::Delay(DELAY) } else { Fault::None }
    })
}

/// Answers so many queries a second; of more it answers as many, and `beyond` befalls the rest. What it did not answer
/// for up to [`OWED`] is owed.
pub(crate) fn at_most(rate: f64, beyond: Fault) -> Faults {
    /// When it was asked last, and how many answers it owed.
    struct Bucket {
        asked: Duration,
        owed: f64,
    }
    let bucket = Mutex::new(Bucket { asked: Duration::ZERO, owed: 0.0 });
    Arc::new(move |asked| {
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = asked.at.saturating_sub(bucket.asked).as_secs_f64();
        *bucket = Bucket { asked: asked.at, owed: (bucket.owed + passed * rate).min(rate * OWED.as_secs_f64()) };
        if bucket.owed < 1.0 {
            return beyond;
        }
        bucket.owed -= 1.0;
        Fault::None
    })
}
