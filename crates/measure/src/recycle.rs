//! Reuses histograms, so that a worker does not wait for memory at the start of a second.
//!
//! The histograms of one second take a few hundred kilobytes, and fresh memory is mapped page by page on first use.
//! This would delay the first query of each second by 0.25 ms. Seconds return their histograms on drop, and [`prepare`]
//! creates the first ones before a run.

use super::histogram::new_histogram;
use crate::limits::HISTOGRAMS_KEPT_MAX;
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};

/// Empty histograms with mapped memory.
static POOL: Mutex<Vec<Histogram<u64>>> = Mutex::new(Vec::new());

/// An empty histogram, reused if possible.
pub(super) fn take() -> Histogram<u64> {
    let pooled = POOL.lock().unwrap_or_else(PoisonError::into_inner).pop();
    pooled.unwrap_or_else(new_histogram)
}

/// Takes back unused histograms.
pub(super) fn give_back<const N: usize>(histograms: [&mut Histogram<u64>; N]) {
    for histogram in histograms {
        if is_full() {
            return;
        }
        let mut histogram = std::mem::replace(histogram, Histogram::new(0).expect("a histogram without digits"));
        // Writes every counter, which also maps the memory of a new histogram.
        histogram.reset();
        POOL.lock().unwrap_or_else(PoisonError::into_inner).push(histogram);
    }
}

/// Prepares at least this many histograms, up to the maximum.
pub(super) fn prepare(count: usize) {
    let ready = POOL.lock().unwrap_or_else(PoisonError::into_inner).len();
    for _ in (ready..count).step_by(3) {
        let [mut first, mut second, mut third] = [new_histogram(), new_histogram(), new_histogram()];
        give_back([&mut first, &mut second, &mut third]);
    }
}

fn is_full() -> bool {
    POOL.lock().unwrap_or_else(PoisonError::into_inner).len() >= HISTOGRAMS_KEPT_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycled_histograms_are_empty() {
        let [mut first, mut second, mut third] = [take(), take(), take()];
        first.record(70_000).unwrap();
        second.record(5_000_000_000).unwrap();
        third.record(1).unwrap();
        give_back([&mut first, &mut second, &mut third]);
        for _ in 0..3 {
            let again = take();
            assert_eq!((again.len(), again.max(), again.value_at_quantile(1.0)), (0, 0, 0));
            assert!(again.is_auto_resize() && again.sigfig() == 3);
        }
    }
}
