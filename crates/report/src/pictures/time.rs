//! Charts of figures over time: a line for each value of a parameter, with an area over repeats.

use super::ImageFormat;
use super::chart::{Chart, Colour, Scale};
use super::parameters::vertical;
use crate::palette;

/// A figure over time.
#[derive(Clone, Debug, Default)]
pub struct TimeChart {
    /// The title.
    pub title: String,
    /// What is missing, in red below the title. May be empty.
    pub warning: String,
    /// The figure of the vertical axis, with its unit.
    pub figure: String,
    /// The lines.
    pub lines: Vec<TimeLine>,
    /// Events: their time in seconds, and what happened.
    pub events: Vec<(f64, String)>,
}

/// A line of a [`TimeChart`].
#[derive(Clone, Debug)]
pub struct TimeLine {
    /// Name in the legend.
    pub name: String,
    /// Times in seconds, in order, with the low, median and high figure.
    pub points: Vec<(f64, [f64; 3])>,
}

impl TimeChart {
    /// The contents of the picture's file.
    ///
    /// # Errors
    /// If the picture cannot be drawn.
    pub fn draw(&self, format: ImageFormat) -> Result<Vec<u8>, String> {
        self.chart().draw(format).map_err(|error| format!("cannot draw \"{}\": {error}", self.title))
    }

    fn chart(&self) -> Chart {
        let mut chart = Chart::new(&self.title, &self.warning);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let end = points().map(|(at, _)| *at).chain(self.events.iter().map(|(at, _)| *at)).fold(1.0, f64::max);
        chart.x = Scale::time(end);
        chart.y = vertical(points().flat_map(|(_, values)| values).copied(), &self.figure);
        for (index, line) in self.lines.iter().enumerate() {
            for pair in line.points.windows(2) {
                let [(from, [low, _, high]), (to, _)] = pair else { continue };
                if high > low {
                    chart.area((*from, *low), (*to, *high), Colour::of(index).faint());
                }
            }
        }
        for (index, line) in self.lines.iter().enumerate() {
            let medians = line.points.iter().map(|(at, [_, median, _])| (*at, *median));
            chart.line(&line.name, medians.collect(), Colour::of(index));
        }
        for (at, what) in &self.events {
            chart.event(*at, what, Colour::hex(palette::BAD));
        }
        chart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_over_time_has_its_lines_areas_and_events() {
        let line = |name: &str, spread: f64| TimeLine {
            name: name.into(),
            points: (0..5_u8).map(|at| (f64::from(at) + 0.5, [1.0 - spread, 1.0, 1.0 + spread])).collect(),
        };
        let drawn = |spread: f64| {
            let chart = TimeChart {
                title: "Share <over> time".into(),
                warning: "a cell failed".into(),
                figure: "share".into(),
                lines: vec![line("updates", spread), line("queries", 0.0)],
                events: vec![(2.5, "kill dns".into())],
            };
            String::from_utf8(chart.draw(ImageFormat::Svg).unwrap()).unwrap()
        };
        let text = drawn(0.1);
        for part in ["Share &lt;over&gt; time", "a cell failed", "updates", "queries", "kill dns", "time in the run, s"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let areas = |text: &str| text.matches("<rect").count();
        assert_eq!(areas(&text) - areas(&drawn(0.0)), 4, "one between two points each");
        let empty = TimeChart::default().draw(ImageFormat::Svg).unwrap();
        assert!(String::from_utf8(empty).unwrap().contains("<svg"));
    }
}
