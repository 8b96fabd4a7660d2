//! Cumulative curves of arbitrary values, and charts with one value per turn.

use super::ImageFormat;
use super::chart::{Chart, Colour, Scale};
use crate::palette;
use std::path::Path;

/// The shortest time on an axis.
const SHORTEST_SECONDS: f64 = 1e-7;
/// Margin at the ends of an axis.
const ROOM: f64 = 1.05;
/// Maximum extent of an axis of shares. Values beyond it are drawn at its end.
const SHARES_MOST: f64 = 0.02;
/// Margin for labels of marks: above all curves, and beside the last one on a time axis.
const LABEL_ROOM_ABOVE: f64 = 1.12;
/// See [`LABEL_ROOM_ABOVE`].
const LABEL_ROOM_BESIDE: f64 = 5.0;

/// The values of a curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// The values: seconds or shares.
    pub values: Vec<f64>,
    /// Whether it is a reference for the previous curve: wide, pale, in the colour of that curve, and not in the
    /// legend.
    pub is_behind: bool,
}

/// The horizontal axis.
#[derive(Clone, Copy, Debug)]
pub enum HorizontalAxis<'a> {
    /// Times in seconds on a logarithmic axis with this title. Values below 100 ns are raised.
    Times(&'a str),
    /// Shares around zero: the title, and the minimum extent to either side.
    Shares(&'a str, f64),
}

/// Draws the cumulative share of values, with labelled marks.
///
/// # Errors
/// If the chart cannot be drawn or written.
pub fn cumulative(
    path: &Path,
    title: &str,
    axis: HorizontalAxis<'_>,
    of: &str,
    curves: &[Curve],
    marks: &[(f64, &str)],
) -> Result<(), String> {
    let clamped =
        |value: f64| if matches!(axis, HorizontalAxis::Times(_)) { value.max(SHORTEST_SECONDS) } else { value };
    let values = curves.iter().flat_map(|curve| &curve.values).map(|value| clamped(*value));
    let all = values.chain(marks.iter().map(|(at, _)| *at));
    let (low, high) = all.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let mut chart = Chart::new(title, "");
    chart.x = match axis {
        // Without values, use a default range.
        HorizontalAxis::Times(what) if low > high => Scale::times(SHORTEST_SECONDS, 1.0, what),
        HorizontalAxis::Times(what) => {
            let last = marks.iter().map(|(at, _)| at * LABEL_ROOM_BESIDE).fold(high, f64::max);
            Scale::times(low, last, what)
        }
        HorizontalAxis::Shares(what, least) => {
            let most = f64::max(-low, high).clamp(least, SHARES_MOST.max(least)) * ROOM;
            Scale::linear(-most, most, what, Some(Scale::shares(most)))
        }
    };
    let ticks = (0..=10).map(|tenth| (f64::from(tenth) / 10.0, format!("{} %", 10 * tenth))).collect();
    let top = if marks.is_empty() { 1.0 } else { LABEL_ROOM_ABOVE };
    chart.y = Scale::linear(0.0, top, &format!("share of {of}"), Some(ticks));
    for &(at, what) in marks {
        chart.event(at, what, Colour::hex(palette::GREY));
    }
    let mut colour = 0;
    for curve in curves {
        let mut values: Vec<f64> = curve.values.iter().map(|value| clamped(*value)).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        // Rises at each value and is flat in between.
        let corners = values.iter().enumerate().flat_map(|(rank, &at)| {
            let (below, above) = (rank as f64 / count, (rank + 1) as f64 / count);
            [(at, below), (at, above)]
        });
        if curve.is_behind {
            chart.line("", corners.collect(), Colour::of(colour).pale().broad());
        } else {
            chart.line(&curve.name, corners.collect(), Colour::of(colour));
            colour += 1;
        }
    }
    write(&chart, path)
}

/// Draws one value per turn for several named series, with labelled marks.
///
/// # Errors
/// If the chart cannot be drawn or written.
pub fn turns(
    path: &Path,
    title: &str,
    what: &str,
    lines: &[(&str, &[f64])],
    marks: &[(f64, &str)],
) -> Result<(), String> {
    let most_turns = lines.iter().map(|(_, figures)| figures.len()).max().unwrap_or_default().max(1) as f64;
    let figures = lines.iter().flat_map(|(_, figures)| figures.iter());
    let most = figures.chain(marks.iter().map(|(at, _)| at)).copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = Chart::new(title, "");
    let numbers = (1..=most_turns as u32).map(|turn| (f64::from(turn), turn.to_string())).collect();
    chart.x = Scale::linear(0.5, most_turns + 0.5, "turn", Some(numbers));
    chart.y = Scale::counts(most * ROOM, what);
    for (index, (name, figures)) in lines.iter().enumerate() {
        // Flat for the width of the turn.
        let corners = figures.iter().zip(1..).flat_map(|(&figure, turn)| {
            let turn = f64::from(turn);
            [(turn - 0.5, figure), (turn + 0.5, figure)]
        });
        chart.line(name, corners.collect(), Colour::of(index));
    }
    for &(at, name) in marks {
        chart.line(name, vec![(0.5, at), (most_turns + 0.5, at)], Colour::hex(palette::GREY));
    }
    write(&chart, path)
}

pub(super) fn write(chart: &Chart, path: &Path) -> Result<(), String> {
    let error_text = |reason: String| format!("{}: {reason}", path.display());
    let bytes = chart.draw(ImageFormat::Svg).map_err(|error| error_text(error.to_string()))?;
    std::fs::write(path, bytes).map_err(|error| error_text(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::faults::tests::drawn;
    use super::*;

    fn curve(name: &str, values: &[f64]) -> Curve {
        Curve { name: name.into(), values: values.to_vec(), is_behind: false }
    }

    #[test]
    fn cumulative_times_reach_all_values_and_are_marked() {
        let curves = [curve("syn-0", &[3e-5, 2e-5, 5e-5]), curve("syn-4", &[0.0, 2e-6])];
        let marks = [(2.5e-3, "a paper's quartile")];
        let text =
            drawn(|path| cumulative(path, "Distance", HorizontalAxis::Times("late"), "queries", &curves, &marks));
        for part in ["Distance", "syn-0", "syn-4", "share of queries", "late", "100 %", "10 us", "1 ms", "a paper"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Also without values.
        drawn(|path| cumulative(path, "None", HorizontalAxis::Times("late"), "queries", &[curve("none", &[])], &[]));
    }

    #[test]
    fn share_axes_are_centered_on_zero_without_outliers() {
        let behind = Curve { is_behind: true, ..curve("planned", &[-0.0001, 0.0]) };
        let curves = [behind, curve("b-root", &[-0.00003, 0.00001]), curve("syn-3", &[0.0])];
        let text =
            drawn(|path| cumulative(path, "Rates", HorizontalAxis::Shares("off", 0.002), "seconds", &curves, &[]));
        for part in ["-0.1 %", "0.1 %", "b-root", "syn-3", "off"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("planned"), "{text}");
        // An outlier must not flatten all other values.
        let far = [curve("cut off", &[-1.0, 0.0]), curve("whole", &[0.0])];
        let text = drawn(|path| cumulative(path, "Rates", HorizontalAxis::Shares("off", 0.002), "seconds", &far, &[]));
        assert!(text.contains("-2 %") && !text.contains("-100"), "{text}");
    }

    #[test]
    fn turns_are_drawn_side_by_side_with_marks() {
        let lines: [(&str, &[f64]); 2] = [("one", &[1e6, 1.1e6]), ("other", &[0.9e6])];
        let text = drawn(|path| turns(path, "Fast", "queries a second", &lines, &[(87_000.0, "a paper")]));
        for part in ["Fast", "one", "other", "queries a second", "turn", "a paper", "1,000,000"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
