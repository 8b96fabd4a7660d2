//! Plots of the results in the form of Figures 6 to 9 of the LDplayer paper (IMC 2018), with the paper's values.

use super::judged::Judged;
use super::options::Options;
use super::shapes::Shape;
use report::pictures::{Curve, HorizontalAxis, cumulative, turns};
use std::path::Path;

/// Figure 6: quartiles of most traces, quartiles at a query every 100 ms, and the extremes.
const DISTANCES: [(f64, &str); 3] = [(0.0025, "LDplayer: quartiles"), (0.008, "of 100 ms"), (0.017, "extremes")];
/// Figure 8: 98 to 99 % of the seconds lie between these values.
const SECONDS: [(f64, &str); 2] = [(-0.001, "LDplayer: 98 to 99 %"), (0.001, "of its seconds")];
/// Minimum extent of the axis for [`SECONDS`].
const SECONDS_LEAST: f64 = 0.0015;
/// Figure 9.
const FAST: [(f64, &str); 1] = [(87_000.0, "LDplayer, one host")];

/// The data of a trace's plot, in seconds and shares.
pub(crate) struct TimingPlot {
    label: &'static str,
    /// Whether all or nearly all of its queries are datagrams.
    has_datagrams: bool,
    distance: Vec<f64>,
    /// Planned and measured intervals.
    intervals: [Vec<f64>; 2],
    /// Rate errors of all runs: one run has few seconds.
    seconds: Vec<f64>,
}

impl TimingPlot {
    /// Takes most data from the median run, and the seconds from all runs.
    pub(crate) fn of<'a>(shape: &Shape, middle: &Judged, all: impl Iterator<Item = &'a Judged>) -> Self {
        let seconds = |us: &Vec<f64>| us.iter().map(|us| us / 1e6).collect();
        Self {
            label: shape.label,
            has_datagrams: shape.transport.is_none(),
            distance: seconds(&middle.distance.curve),
            intervals: [0, 1].map(|index: usize| seconds(&middle.intervals[index].curve)),
            seconds: all.flat_map(|judged| judged.seconds.curve.iter().copied()).collect(),
        }
    }

    fn curve(&self, values: &[f64]) -> Curve {
        Curve { name: self.label.to_owned(), values: values.to_vec(), is_behind: false }
    }
}

/// Draws the differences from the plan, the intervals, and the rates of the seconds.
///
/// # Errors
/// If a plot cannot be drawn or written.
pub(crate) fn timing(folder: &Path, options: &Options, all: &[TimingPlot]) -> Result<(), String> {
    let path = made(folder)?;
    let judged = format!("{} s of each trace", options.seconds - options.skip);
    let by = |has_datagrams: bool| all.iter().filter(move |drawn| drawn.has_datagrams == has_datagrams);
    for (has_datagrams, name, over) in [(true, "replay-distance", ""), (false, "replay-connections", ", connections")] {
        let curves: Vec<_> = by(has_datagrams).map(|drawn| drawn.curve(&drawn.distance)).collect();
        let title = format!("Distance from the plan at the far end{over}: {judged}, the run in the middle");
        if !curves.is_empty() {
            let axis = HorizontalAxis::Times("behind the plan");
            cumulative(&path(name), &title, axis, "queries", &curves, &DISTANCES)?;
        }
    }
    if by(true).next().is_none() {
        return Ok(());
    }
    let pair = |drawn: &TimingPlot| {
        let [planned, arrived] = [0, 1].map(|index: usize| drawn.curve(&drawn.intervals[index]));
        [Curve { is_behind: true, ..planned }, arrived]
    };
    let curves: Vec<_> = by(true).flat_map(pair).collect();
    let title = format!("From one query to the next, as planned (broad) and as they arrived: {judged}");
    cumulative(&path("replay-intervals"), &title, HorizontalAxis::Times("interval"), "intervals", &curves, &[])?;
    let curves: Vec<_> = by(true).map(|drawn| drawn.curve(&drawn.seconds)).collect();
    let runs = if options.repeats == 1 { "one run".to_owned() } else { format!("{} runs", options.repeats) };
    let title = format!("Rate of each second, to the planned one: {judged}, {runs}");
    let axis = HorizontalAxis::Shares("more or fewer queries than planned", SECONDS_LEAST);
    cumulative(&path("replay-seconds"), &title, axis, "seconds", &curves, &SECONDS)
}

/// Draws the maximum rates of each turn.
///
/// # Errors
/// If the plot cannot be drawn or written.
pub(crate) fn fast(folder: &Path, lines: &[(&str, &[f64])]) -> Result<(), String> {
    turns(&made(folder)?("replay-fast"), "As fast as can be, from one core", "queries a second", lines, &FAST)
}

/// Creates the folder. Returns a function from the name of a plot to its path.
fn made(folder: &Path) -> Result<impl Fn(&str) -> std::path::PathBuf, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(|name: &str| folder.join(format!("{name}.svg")))
}
