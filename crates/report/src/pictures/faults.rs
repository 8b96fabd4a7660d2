//! Charts of answered shares around injected faults.

use super::chart::{Chart, Colour, Scale};
use super::curves::write;
use crate::palette;
use std::path::Path;

/// Smallest and largest upper end of the axis of shares. After a gap, delayed answers arrive all at once.
const SHARE_LEAST: f64 = 1.2;
const SHARE_MOST: f64 = 2.0;

/// The share of messages of one kind answered in each step, over many faults.
#[derive(Clone, Debug)]
pub struct FaultCurve {
    /// Name in the legend.
    pub name: String,
    /// Low, median and high share of each step.
    pub shares: Vec<[f64; 3]>,
}

/// Draws shares over time, with marks. Time zero is the fault. `seconds` is the length of a step, and `before` the
/// number of steps before the fault.
///
/// # Errors
/// If the chart cannot be drawn or written.
pub fn write_fault_chart(
    path: &Path,
    title: &str,
    (step_seconds, before_seconds): (f64, f64),
    lines: &[FaultCurve],
    marks: &[(f64, &str)],
) -> Result<(), String> {
    let steps = lines.iter().map(|line| line.shares.len()).max().unwrap_or_default();
    let x_of = |step: usize| step as f64 * step_seconds - before_seconds;
    let most = lines.iter().flat_map(|line| &line.shares).map(|[_, _, high]| *high).fold(SHARE_LEAST, f64::max);
    let mut chart = Chart::new(title, "");
    chart.x = Scale::linear(-before_seconds, x_of(steps).max(step_seconds), "time since the fault, s", None);
    let most = most.min(SHARE_MOST) * 1.02;
    let ticks = (0..=15).map(|fifth| (f64::from(fifth) / 5.0, format!("{} %", 20 * fifth)));
    chart.y = Scale::linear(
        0.0,
        most,
        "answered, of what is sent in a step",
        Some(ticks.filter(|(at, _)| *at <= most).collect()),
    );
    for (index, line) in lines.iter().enumerate() {
        for (step, [low, _, high]) in line.shares.iter().enumerate().filter(|(_, [low, _, high])| high > low) {
            chart.area((x_of(step), *low), (x_of(step + 1), *high), Colour::of(index).faint());
        }
    }
    for (index, line) in lines.iter().enumerate() {
        let corners = line.shares.iter().enumerate().flat_map(|(step, [_, median, _])| {
            let (from, to) = (x_of(step), x_of(step + 1));
            [(from, *median), (to, *median)]
        });
        chart.line(&line.name, corners.collect(), Colour::of(index));
    }
    for (index, &(at, what)) in marks.iter().enumerate() {
        chart.event(at, what, Colour::hex(if index == 0 { palette::BAD } else { palette::GREY }));
    }
    write(&chart, path)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The contents of a chart.
    pub(in crate::pictures) fn drawn(draw: impl FnOnce(&Path) -> Result<(), String>) -> String {
        let thread = std::thread::current().id();
        let path = std::env::temp_dir().join(format!("catlab-faults-{}-{thread:?}.svg", std::process::id()));
        draw(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text
    }

    #[test]
    fn fault_charts_have_the_fault_and_a_curve_per_kind() {
        let step = |share: f64| [share * 0.9, share, share * 1.1];
        let line = |name: &str, during: f64| FaultCurve {
            name: name.into(),
            shares: (0..7).map(|at| step(if at == 3 { during } else { 1.0 })).collect(),
        };
        let lines = [line("updates", 0.0), line("queries", 1.0)];
        let text = drawn(|path| {
            write_fault_chart(path, "Around faults", (0.1, 0.2), &lines, &[(0.0, "leader <killed>"), (0.3, "again")])
        });
        for part in
            ["Around faults", "updates", "queries", "leader &lt;killed&gt;", "again", "100 %", "time since the fault"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        // The area between low and high, where they differ.
        let narrow = lines.map(|line| FaultCurve { shares: line.shares.iter().map(|of| [of[1]; 3]).collect(), ..line });
        let without = drawn(|path| write_fault_chart(path, "Around faults", (0.1, 0.2), &narrow, &[]));
        let areas = |text: &str| text.matches("<rect").count();
        assert_eq!(areas(&text) - areas(&without), 6 + 7, "{text}");
    }
}
