//! Histograms that are used again, so that a worker that turns to a new second need not wait for memory.
//!
//! Those of one second have a few hundred kilobytes, and fresh memory comes a page at a time, on first use: the first
//! query of every second would go out a quarter of a millisecond late. Seconds give their histograms back when they
//! end, wherever that is, and [`prepare`] has the first ones ready before a run.

use super::second::fresh;
use crate::limits::HISTOGRAMS_KEPT_MAX;
use hdrhistogram::Histogram;
use std::sync::{Mutex, PoisonError};

/// Empty ones, their memory in place.
static KEPT: Mutex<Vec<Histogram<u64>>> = Mutex::new(Vec::new());

/// An empty histogram: one that was used before, if there is any.
pub(super) fn take() -> Histogram<u64> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).pop();
    kept.unwrap_or_else(fresh)
}

/// Takes back what is not needed any more.
pub(super) fn give_back<const N: usize>(histograms: [&mut Histogram<u64>; N]) {
    for histogram in histograms {
        if is_full() {
            return;
        }
        let mut histogram = std::mem::replace(histogram, Histogram::new(0).expect("a histogram without digits"));
        // Writes each counter: with a new one, that is what puts its memory in place.
        histogram.reset();
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(histogram);
    }
}

/// Has at least so many ready, as far as they are kept at all.
pub(super) fn prepare(count: usize) {
    let ready = KEPT.lock().unwrap_or_else(PoisonError::into_inner).len();
    for _ in (ready..count).step_by(3) {
        let [mut first, mut second, mut third] = [fresh(), fresh(), fresh()];
        give_back([&mut first, &mut second, &mut third]);
    }
}

fn is_full() -> bool {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).len() >= HISTOGRAMS_KEPT_MAX
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
