//! What of a turn counts.

use lab::report::Sample;

/// Cores that the server used while it was measured, on average over that time; `None` when no two samples lie in it.
///
/// While the connections were being opened it worked too, and a look that was missed makes the next stretch longer: a
/// stretch counts by its length, and only if all of it lies between the start of the run and `end`, in seconds.
pub(crate) fn cores(samples: &[Sample], end: f64) -> Option<f64> {
    let stretches = samples.windows(2).filter(|pair| pair[0].at >= 0.0 && pair[1].at <= end);
    let used = stretches.filter_map(|pair| {
        let seconds = pair[1].at - pair[0].at;
        Some((pair[1].cpu_cores? * seconds, seconds))
    });
    let (cpu, seconds) = used.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    (seconds > 0.0).then(|| cpu / seconds)
}

/// For a row that rests on fewer rounds than were asked for.
pub(crate) fn rounds(had: usize, asked: usize) -> String {
    if had < asked { format!("; {had} of {asked} rounds") } else { String::new() }
}
