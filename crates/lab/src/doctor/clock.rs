//! The cost of reading the clock, and how late a sleeping thread wakes up.

use super::finding::{Finding, Severity, words};
use std::time::{Duration, Instant};

/// Maximum time to read a good clock.
const READING_NS_MAX: f64 = 200.0;
/// Maximum p99 of the wake-up delay. Larger delays make queries late.
const OVERSLEEP_US_MAX: u128 = 1_000;
/// Number of measured sleeps.
const SLEEP_COUNT: usize = 500;
/// Number of measured clock readings.
const READING_COUNT: u32 = 100_000;

pub(super) fn findings() -> Vec<Finding> {
    vec![source(), sleep()]
}

fn source() -> Finding {
    let name = words("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let name = name.and_then(|words| words.into_iter().next()).unwrap_or_else(|| "unknown".into());
    let start = Instant::now();
    for _ in 0..READING_COUNT {
        std::hint::black_box(Instant::now());
    }
    let each = start.elapsed().as_nanos() as f64 / f64::from(READING_COUNT);
    let seen = format!("{name}, read in {each:.0} ns");
    let remedy = "a slow clock source (hpet, acpi_pm) costs more than a query: boot with clocksource=tsc or kvm-clock";
    Finding::unless(each <= READING_NS_MAX, Severity::Warning, "clock", seen, remedy)
}

fn sleep() -> Finding {
    let wish = Duration::from_micros(200);
    let mut late: Vec<u128> = (0..SLEEP_COUNT)
        .map(|_| {
            let start = Instant::now();
            std::thread::sleep(wish);
            start.elapsed().saturating_sub(wish).as_micros()
        })
        .collect();
    late.sort_unstable();
    let (median, worst) = (late[SLEEP_COUNT / 2], late[SLEEP_COUNT * 99 / 100]);
    let seen = format!("{median} us late at p50, {worst} us at p99");
    let remedy = "other programs use the cores: stop them, or give the tool a core of its own (taskset, isolcpus)";
    Finding::unless(worst <= OVERSLEEP_US_MAX, Severity::Warning, "wake-ups", seen, remedy)
}
