//! Cumulative curves of any values, and figures turn by turn.

use super::Form;
use super::chart::{Chart, Colour, Scale};
use crate::report::palette;
use std::path::Path;

/// Nothing on an axis of times is shorter.
const SHORTEST_SECONDS: f64 = 1e-7;
/// Room at the ends of an axis.
const ROOM: f64 = 1.05;
/// No axis of shares reaches farther: what lies beyond stands at its end.
const AROUND_MOST: f64 = 0.02;
/// Room for the words of marks above all curves; and beside the last one, on an axis of times.
const WORDS_ABOVE: f64 = 1.12;
/// See [`WORDS_ABOVE`].
const WORDS_BESIDE: f64 = 5.0;

/// Values of one kind.
#[derive(Clone, Debug)]
pub struct Curve {
    /// For the legend.
    pub name: String,
    /// Each of them: seconds, or shares.
    pub values: Vec<f64>,
    /// What the curve before it is held against: broad, pale, of the colour of the one behind it, not in the legend.
    pub is_behind: bool,
}

/// What values lie along.
#[derive(Clone, Copy, Debug)]
pub enum Along<'a> {
    /// Times in seconds, on a logarithmic axis: what they are. None is shorter than 100 ns.
    Times(&'a str),
    /// Shares around zero: what they are, and how far the axis reaches at least to either side.
    Around(&'a str, f64),
}

/// Draws which share of the values is as large or smaller, of what `of` says; marks values with a few words.
///
/// # Errors
/// When it cannot be drawn or written.
pub fn cumulative(
    path: &Path,
    title: &str,
    along: Along<'_>,
    of: &str,
    curves: &[Curve],
    marks: &[(f64, &str)],
) -> Result<(), String> {
    let placed = |value: f64| if matches!(along, Along::Times(_)) { value.max(SHORTEST_SECONDS) } else { value };
    let values = curves.iter().flat_map(|curve| &curve.values).map(|value| placed(*value));
    let all = values.chain(marks.iter().map(|(at, _)| *at));
    let (low, high) = all.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let mut chart = Chart::new(title, "");
    chart.x = match along {
        // Of nothing there is an axis too.
        Along::Times(what) if low > high => Scale::times(SHORTEST_SECONDS, 1.0, what),
        Along::Times(what) => {
            let last = marks.iter().map(|(at, _)| at * WORDS_BESIDE).fold(high, f64::max);
            Scale::times(low, last, what)
        }
        Along::Around(what, least) => {
            let most = f64::max(-low, high).clamp(least, AROUND_MOST.max(least)) * ROOM;
            Scale::linear(-most, most, what, Some(Scale::shares(most)))
        }
    };
    let ticks = (0..=10).map(|tenth| (f64::from(tenth) / 10.0, format!("{} %", 10 * tenth))).collect();
    let top = if marks.is_empty() { 1.0 } else { WORDS_ABOVE };
    chart.y = Scale::linear(0.0, top, &format!("share of {of}"), Some(ticks));
    for &(at, what) in marks {
        chart.event(at, what, Colour::hex(palette::GREY));
    }
    let mut colour = 0;
    for curve in curves {
        let mut values: Vec<f64> = curve.values.iter().map(|value| placed(*value)).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        // Up at each value, level between two.
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

/// Draws a figure of each turn, of several by name, from zero on; marks values with a few words.
///
/// # Errors
/// When it cannot be drawn or written.
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
        // Level for as long as the turn is on the axis.
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
    let wrong = |reason: String| format!("{}: {reason}", path.display());
    let bytes = chart.draw(Form::Svg).map_err(|error| wrong(error.to_string()))?;
    std::fs::write(path, bytes).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::faults::tests::drawn;
    use super::*;

    fn curve(name: &str, values: &[f64]) -> Curve {
        Curve { name: name.into(), values: values.to_vec(), is_behind: false }
    }

    #[test]
    fn times_go_up_to_all_of_them_and_are_marked() {
        let curves = [curve("syn-0", &[3e-5, 2e-5, 5e-5]), curve("syn-4", &[0.0, 2e-6])];
        let marks = [(2.5e-3, "a paper's quartile")];
        let text = drawn(|path| cumulative(path, "Distance", Along::Times("late"), "queries", &curves, &marks));
        for part in ["Distance", "syn-0", "syn-4", "share of queries", "late", "100 %", "10 us", "1 ms", "a paper"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Of nothing, too.
        drawn(|path| cumulative(path, "None", Along::Times("late"), "queries", &[curve("none", &[])], &[]));
    }

    #[test]
    fn shares_lie_around_zero_and_what_is_behind_has_no_name() {
        let behind = Curve { is_behind: true, ..curve("planned", &[-0.0001, 0.0]) };
        let curves = [behind, curve("b-root", &[-0.00003, 0.00001]), curve("syn-3", &[0.0])];
        let text = drawn(|path| cumulative(path, "Rates", Along::Around("off", 0.002), "seconds", &curves, &[]));
        for part in ["-0.1 %", "0.1 %", "b-root", "syn-3", "off"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("planned"), "{text}");
        // A second without a query does not make all others look alike.
        let far = [curve("cut off", &[-1.0, 0.0]), curve("whole", &[0.0])];
        let text = drawn(|path| cumulative(path, "Rates", Along::Around("off", 0.002), "seconds", &far, &[]));
        assert!(text.contains("-2 %") && !text.contains("-100"), "{text}");
    }

    #[test]
    fn turns_stand_beside_each_other_and_beside_a_mark() {
        let lines: [(&str, &[f64]); 2] = [("one", &[1e6, 1.1e6]), ("other", &[0.9e6])];
        let text = drawn(|path| turns(path, "Fast", "queries a second", &lines, &[(87_000.0, "a paper")]));
        for part in ["Fast", "one", "other", "queries a second", "turn", "a paper", "1,000,000"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
