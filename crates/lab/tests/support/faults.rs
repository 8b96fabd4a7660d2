//! Servers with one fault each, timed from their first query on, as the run that asks them is.

use lab::echo::{Asked, Fault, Faults};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Nothing is answered for so long in each second.
pub(crate) const STOP: Duration = Duration::from_millis(200);
/// When in each second that begins.
const STOP_AT_MS: u32 = 400;
/// An answer that is late comes after so long.
pub(crate) const DELAY: Duration = Duration::from_millis(1_500);

/// Time since the first query.
#[derive(Default)]
struct Since(OnceLock<Duration>);

impl Since {
    fn of(&self, asked: &Asked<'_>) -> Duration {
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
