//! The part of a turn that counts.

use report::Sample;

/// Average number of cores that the server used between the start of the run and `end` (seconds). `None` if fewer than
/// two samples lie in this window.
///
/// The time in which connections were opened does not count. Intervals between samples are weighted by their length,
/// because a missed sample makes the next interval longer.
pub(crate) fn cores(samples: &[Sample], end: f64) -> Option<f64> {
    let stretches = samples.windows(2).filter(|pair| pair[0].at >= 0.0 && pair[1].at <= end);
    let used = stretches.filter_map(|pair| {
        let seconds = pair[1].at - pair[0].at;
        Some((pair[1].cpu_cores? * seconds, seconds))
    });
    let (cpu, seconds) = used.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    (seconds > 0.0).then(|| cpu / seconds)
}

/// The note of a row with fewer rounds than requested.
pub(crate) fn rounds(had: usize, requested: usize) -> String {
    if had < requested { format!("; {had} of {requested} rounds") } else { String::new() }
}
