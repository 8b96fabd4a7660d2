//! Colours: Paul Tol's "bright" scheme, and the orange of his "vibrant" one. Colour-blind readers can tell them apart,
//! and they show on white and on black.

/// Of runs, in turn.
pub(super) const RUNS: [&str; 7] = ["#4477AA", "#EE6677", "#228833", "#AA3377", "#CCBB44", "#66CCEE", "#EE7733"];
/// Of what went wrong.
pub(super) const BAD: &str = "#CC3311";
/// Of what is beside the point.
pub(super) const GREY: &str = "#888888";

/// Of a run.
pub(super) fn run(index: usize) -> &'static str {
    RUNS[index % RUNS.len()]
}

/// Of an RCODE: the same in every picture.
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
