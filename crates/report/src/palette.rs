//! Colours: Paul Tol's "bright" scheme, and the orange of his "vibrant" one. They are suitable for colour-blind
//! readers, and visible on white and on black.

/// Colours of runs, in rotation.
pub(super) const RUNS: [&str; 7] = ["#4477AA", "#EE6677", "#228833", "#AA3377", "#CCBB44", "#66CCEE", "#EE7733"];
/// Colour of errors.
pub(super) const BAD: &str = "#CC3311";
/// Colour of secondary data.
pub(super) const GREY: &str = "#888888";

/// The colour of a run.
pub(super) fn run(index: usize) -> &'static str {
    RUNS[index % RUNS.len()]
}

/// The colour of an RCODE, the same in every chart.
pub(super) fn rcode(name: &str) -> &'static str {
    match name {
        "NOERROR" => "#4477AA",
        "NXDOMAIN" => "#66CCEE",
        "SERVFAIL" => "#EE6677",
        "REFUSED" => "#AA3377",
        "FORMERR" => "#CCBB44",
        "NOTIMP" => "#228833",
        _ => "#BBBBBB",
    }
}
