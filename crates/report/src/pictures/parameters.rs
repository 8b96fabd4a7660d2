//! Charts of figures by a parameter: a line for each value of another one, with whiskers over repeats.

use super::ImageFormat;
use super::chart::{Chart, Colour, Scale, group_digits, shortened};
use crate::palette;

/// Values are on a logarithmic axis if the largest is this many times the smallest.
const LOGARITHMIC_TIMES: f64 = 30.0;
/// Margin at the ends of an axis, and half the width of a whisker's ends, as shares of the axis.
const ROOM: f64 = 0.05;
const WHISKER: f64 = 0.006;
/// Minimum distance of two labels of the horizontal axis, as a share of it.
const LABELS_NEAR: f64 = 0.045;
/// Letters that fit on the horizontal axis.
const LETTERS_MAX: usize = 100;

/// A figure by a parameter.
#[derive(Clone, Debug, Default)]
pub struct ParameterChart {
    /// The title.
    pub title: String,
    /// What is missing, in red below the title. May be empty.
    pub warning: String,
    /// The parameter of the horizontal axis.
    pub parameter: String,
    /// Its values, in order. If all are numbers, they are drawn to scale and connected by lines.
    pub values: Vec<String>,
    /// The figure of the vertical axis, with its unit.
    pub figure: String,
    /// The lines.
    pub lines: Vec<ParameterLine>,
    /// The source's figure for each value, drawn in grey.
    pub paper: Vec<Option<f64>>,
}

/// A line of a [`ParameterChart`].
#[derive(Clone, Debug)]
pub struct ParameterLine {
    /// Name in the legend.
    pub name: String,
    /// Low, median and high figure for each value. `None` if it was not measured.
    pub points: Vec<Option<[f64; 3]>>,
}

impl ParameterChart {
    /// The contents of the picture's file.
    ///
    /// # Errors
    /// If the picture cannot be drawn.
    pub fn draw(&self, format: ImageFormat) -> Result<Vec<u8>, String> {
        let chart = self.chart();
        chart.draw(format).map_err(|error| format!("cannot draw \"{}\": {error}", self.title))
    }

    fn chart(&self) -> Chart {
        let mut chart = Chart::new(&self.title, &self.warning);
        let places = Places::of(&self.values);
        chart.x = Scale::linear(places.from, places.to, &self.parameter, Some(places.ticks(&self.values)));
        let measured = self.lines.iter().flat_map(|line| line.points.iter().flatten().flatten()).copied();
        chart.y = vertical(measured.chain(self.paper.iter().flatten().copied()), &self.figure);
        let paper: Vec<_> = self.paper.iter().map(|value| value.map(|value| [value; 3])).collect();
        if paper.iter().any(Option::is_some) {
            draw_line(&mut chart, "the source", &paper, Colour::hex(palette::GREY), &places, 0.0);
        }
        for (index, line) in self.lines.iter().enumerate() {
            // Values without a scale have the points of all lines side by side, so that they do not overlap.
            let centered = index as f64 - (self.lines.len() as f64 - 1.0) / 2.0;
            let shift = if places.is_scale { 0.0 } else { centered * 0.5 / self.lines.len() as f64 };
            draw_line(&mut chart, &line.name, &line.points, Colour::of(index), &places, shift);
        }
        chart
    }
}

/// A vertical axis for these values: from zero, or logarithmic.
pub(super) fn vertical(values: impl Iterator<Item = f64>, figure: &str) -> Scale {
    let all = values.filter(|value| value.is_finite());
    let (low, high) = all.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return Scale::linear(0.0, 1.0, figure, None);
    }
    if low > 0.0 && high / low >= LOGARITHMIC_TIMES {
        return Scale::logarithmic(low * 0.8, high * 1.25, figure, logarithmic_ticks(low * 0.8, high * 1.25));
    }
    let room = ROOM * (high.max(0.0) - low.min(0.0)).max(f64::MIN_POSITIVE);
    let (low, high) = (if low < 0.0 { low - room } else { 0.0 }, if high > 0.0 { high + room } else { 1.0 });
    if low < 0.0 || high < 100.0 { Scale::linear(low, high, figure, None) } else { Scale::counts(high, figure) }
}

/// Points with whiskers. Numbers are connected; other values have no order, so they are not.
fn draw_line(chart: &mut Chart, name: &str, points: &[Option<[f64; 3]>], colour: Colour, places: &Places, shift: f64) {
    let placed: Vec<(f64, [f64; 3])> =
        points.iter().zip(&places.at).filter_map(|(point, at)| Some((at + shift, (*point)?))).collect();
    let medians: Vec<_> = placed.iter().map(|(at, [_, median, _])| (*at, *median)).collect();
    chart.line(name, if places.is_scale && medians.len() > 1 { medians } else { Vec::new() }, colour);
    let half = WHISKER * (places.to - places.from);
    for (at, [low, median, high]) in placed {
        if high > low {
            chart.line("", vec![(at, low), (at, high)], colour.thin());
            for end in [low, high] {
                chart.line("", vec![(at - half, end), (at + half, end)], colour.thin());
            }
        }
        chart.line("", vec![(at, median)], colour);
    }
}

/// Where the values of the parameter are on the horizontal axis.
struct Places {
    at: Vec<f64>,
    from: f64,
    to: f64,
    /// Whether the values are numbers, drawn to scale.
    is_scale: bool,
}

impl Places {
    fn of(values: &[String]) -> Self {
        let numbers: Option<Vec<f64>> =
            values.iter().map(|value| value.parse().ok().filter(|number: &f64| number.is_finite())).collect();
        let Some(numbers) = numbers.filter(|numbers| numbers.len() > 1) else {
            let at: Vec<f64> = (0..values.len()).map(|place| place as f64).collect();
            return Self { from: -0.5, to: values.len().max(1) as f64 - 0.5, at, is_scale: false };
        };
        let [low, high] = [f64::min, f64::max].map(|of| numbers.iter().copied().reduce(of).unwrap_or_default());
        let is_logarithmic = low > 0.0 && high / low >= LOGARITHMIC_TIMES;
        let at: Vec<f64> = numbers.iter().map(|number| if is_logarithmic { number.log10() } else { *number }).collect();
        let (low, high) = if is_logarithmic { (low.log10(), high.log10()) } else { (low, high) };
        let room = (high - low).max(f64::MIN_POSITIVE) * ROOM;
        Self { at, from: low - room, to: high + room, is_scale: true }
    }

    /// A label for each value, except where they would overlap.
    fn ticks(&self, values: &[String]) -> Vec<(f64, String)> {
        let mut ticks: Vec<(f64, String)> = Vec::new();
        let mut sorted: Vec<_> = self.at.iter().zip(values).collect();
        sorted.sort_by(|one, other| one.0.total_cmp(other.0));
        for (at, value) in sorted {
            if ticks.last().is_none_or(|(last, _)| at - last > LABELS_NEAR * (self.to - self.from)) {
                ticks.push((*at, shortened(value, (LETTERS_MAX / values.len().max(1)).max(6))));
            }
        }
        ticks
    }
}

/// Ticks at each decade, and at 2 and 5 if there are few.
fn logarithmic_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let steps: &[f64] = if high / low < 1_000.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks = decades.flat_map(|decade| {
        // Formatted from its digits: a power computed in floating point shows its error.
        steps.iter().filter_map(move |step| {
            let tick: f64 = format!("{step}e{decade}").parse().ok()?;
            let text = tick.to_string();
            Some((tick, if tick < 1.0 { text } else { group_digits(&text) }))
        })
    });
    ticks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[&str]) -> ParameterChart {
        let line = |name: &str, factor: f64| ParameterLine {
            name: name.into(),
            points: (1..=values.len())
                .map(|place| Some([90.0, 100.0, 110.0].map(|value| value * factor * place as f64)))
                .collect(),
        };
        ParameterChart {
            title: "Rate <by> CPU".into(),
            warning: "bind: a cell failed".into(),
            parameter: "cpu".into(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
            figure: "rate, 1/s".into(),
            lines: vec![line("ours", 2.0), line("bind", 1.0)],
            paper: vec![Some(150.0); values.len()],
        }
    }

    fn svg(chart: &ParameterChart) -> String {
        String::from_utf8(chart.draw(ImageFormat::Svg).unwrap()).unwrap()
    }

    #[test]
    fn a_chart_names_its_lines_values_and_gaps() {
        let text = svg(&chart(&["0.25", "0.5", "1"]));
        let expected =
            ["Rate &lt;by&gt; CPU", "a cell failed", "rate, 1/s", "ours", "bind", "the source", "0.25", "0.5", "600"];
        for part in expected {
            assert!(text.contains(part), "{part}: {text}");
        }
        // The points of both lines and of the source.
        assert_eq!(text.matches("<circle").count(), 9);
        assert_eq!(text.matches(palette::GREY).count(), 5, "a line, three points and the legend");
    }

    #[test]
    fn values_without_an_order_are_not_connected() {
        let lines = |chart: &ParameterChart| svg(chart).matches("<polyline").count();
        let (numbers, words) = (chart(&["1", "2"]), chart(&["udp", "tcp"]));
        assert_eq!(lines(&numbers) - lines(&words), 3);
        let mut gap = numbers.clone();
        gap.lines[0].points[1] = None;
        assert_eq!(svg(&gap).matches("<circle").count(), 5);
        let empty = ParameterChart::default();
        assert!(svg(&empty).contains("<svg"));
    }

    #[test]
    fn wide_ranges_are_logarithmic() {
        let places = Places::of(&["1", "10", "100", "101"].map(str::to_owned));
        assert_eq!(places.at[..3], [0.0, 1.0, 2.0]);
        assert_eq!(places.ticks(&["1", "10", "100", "101"].map(str::to_owned)).len(), 3, "one would overlap");
        let mut names = logarithmic_ticks(0.05, 2_000.0).into_iter().map(|tick| tick.1);
        assert_eq!(names.next().as_deref(), Some("0.01"));
        assert_eq!(names.next_back().as_deref(), Some("10,000"));
        let even = Places::of(&["0.25", "0.5", "1"].map(str::to_owned));
        assert_eq!(even.at, [0.25, 0.5, 1.0]);
    }
}
