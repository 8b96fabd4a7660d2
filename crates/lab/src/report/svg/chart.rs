//! A picture with two axes: what `plotters` needs to be told each time.

use crate::report::{Run, palette};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use std::error::Error;
use std::ops::Range;

pub(super) type Failure = Box<dyn Error>;

const SIZE: (u32, u32) = (900, 420);
/// Lines at the top that texts of events take turns on.
const EVENT_LINES: usize = 4;
const INK: RGBColor = RGBColor(28, 35, 40);
const SOFT: RGBColor = RGBColor(90, 101, 109);
const GRID: RGBColor = RGBColor(224, 229, 231);
const FONT: &str = "Liberation Sans, DejaVu Sans, Helvetica, Arial, sans-serif";

/// How something is painted: the colours of the page.
#[derive(Clone, Copy)]
pub(super) struct Colour {
    rgb: RGBColor,
    opacity: f64,
    width: u32,
}

impl Colour {
    /// `#RRGGBB`.
    pub(super) fn hex(text: &str) -> Self {
        let number = u32::from_str_radix(text.trim_start_matches('#'), 16).unwrap_or_default();
        let [_, red, green, blue] = number.to_be_bytes();
        Self { rgb: RGBColor(red, green, blue), opacity: 1.0, width: 2 }
    }

    /// Of a run.
    pub(super) fn of(index: usize) -> Self {
        Self::hex(palette::run(index))
    }

    pub(super) fn thin(self) -> Self {
        Self { width: 1, ..self }
    }

    pub(super) fn pale(self) -> Self {
        Self { opacity: 0.35, ..self }
    }

    /// From nearly white, 0, to dark blue, 1.
    pub(super) fn heat(strength: f64) -> Self {
        let part = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * strength) as u8;
        Self { rgb: RGBColor(part(0xD6, 0x08), part(0xE6, 0x30), part(0xF4, 0x6B)), opacity: 1.0, width: 1 }
    }
}

/// An axis.
pub(super) struct Scale {
    from: f64,
    to: f64,
    is_logarithmic: bool,
    title: String,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    pub(super) fn linear(from: f64, to: f64, title: &str, ticks: Option<Vec<(f64, String)>>) -> Self {
        let ticks = ticks.unwrap_or_else(|| even_ticks(from, to));
        Self { from, to, is_logarithmic: false, title: title.into(), ticks }
    }

    pub(super) fn logarithmic(from: f64, to: f64, title: &str, mut ticks: Vec<(f64, String)>) -> Self {
        ticks.retain(|(value, _)| (from * 0.999..=to * 1.001).contains(value));
        Self { from, to, is_logarithmic: true, title: title.into(), ticks }
    }

    /// The time of the run.
    pub(super) fn time(end: f64) -> Self {
        Self::linear(0.0, end, "time in the run, s", None)
    }

    /// Durations in seconds.
    pub(super) fn times(low: f64, high: f64, title: &str) -> Self {
        let names =
            ["1 ns", "10 ns", "100 ns", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"];
        let ticks = (-9..).zip(names).map(|(decade, name)| (10f64.powi(decade), name.to_owned())).collect();
        Self::logarithmic(low * 0.8, high * 1.25, title, ticks)
    }

    /// Where a value lies: itself, or its logarithm.
    fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        if self.is_logarithmic { value.log10() } else { value }
    }

    fn axis(&self) -> Axis {
        let ticks = self.ticks.iter().map(|(value, _)| self.place(*value)).collect();
        Axis { range: self.place(self.from)..self.place(self.to), ticks }
    }

    fn tick_name(&self, place: f64) -> String {
        let found = self.ticks.iter().find(|(value, _)| (self.place(*value) - place).abs() < 1e-9);
        found.map_or_else(String::new, |(_, name)| name.clone())
    }
}

/// A range with ticks where they are wanted.
struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start).max(f64::MIN_POSITIVE);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

enum Mark {
    /// Through these points; with its name in the legend, if it has one.
    Line(String, Vec<(f64, f64)>, Colour),
    /// From corner to corner.
    Area((f64, f64), (f64, f64), Colour),
    /// At this time; its text on one of the lines at the top, so that neighbours do not cover each other.
    Event(f64, usize, String),
}

/// A picture in the making.
pub(super) struct Chart {
    title: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    marks: Vec<Mark>,
}

impl Chart {
    pub(super) fn new(title: &str) -> Self {
        let [x, y] = [0, 1].map(|_| Scale::linear(0.0, 1.0, "", None));
        Self { title: title.into(), x, y, marks: Vec::new() }
    }

    pub(super) fn line(&mut self, name: &str, points: Vec<(f64, f64)>, colour: Colour) {
        self.marks.push(Mark::Line(name.into(), points, colour));
    }

    pub(super) fn area(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        self.marks.push(Mark::Area(from, to, colour));
    }

    /// Marks what happened during these runs.
    pub(super) fn events(&mut self, runs: &[Run]) {
        for (number, event) in runs.iter().flat_map(|run| &run.recording.events).enumerate() {
            self.marks.push(Mark::Event(event.at, number % EVENT_LINES, event.text.clone()));
        }
    }

    /// The text of the SVG.
    pub(super) fn draw(self) -> Result<String, Failure> {
        let mut text = String::new();
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 17).into_font().color(&INK))
            .margin(10)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(self.x.axis(), self.y.axis())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(SOFT)
            .x_labels(self.x.ticks.len())
            .y_labels(self.y.ticks.len())
            .x_label_formatter(&|place| self.x.tick_name(*place))
            .y_label_formatter(&|place| self.y.tick_name(*place))
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .label_style((FONT, 12).into_font().color(&SOFT))
            .axis_desc_style((FONT, 13).into_font().color(&INK))
            .draw()?;
        let place = |(x, y): (f64, f64)| (self.x.place(x), self.y.place(y));
        let names = self.marks.iter().filter(|mark| matches!(mark, Mark::Line(name, ..) if !name.is_empty())).count();
        for mark in &self.marks {
            match mark {
                Mark::Area(from, to, colour) => {
                    let style = colour.rgb.mix(colour.opacity).filled();
                    chart.draw_series([Rectangle::new([place(*from), place(*to)], style)])?;
                }
                Mark::Line(name, points, colour) => {
                    let style = colour.rgb.mix(colour.opacity).stroke_width(colour.width);
                    let drawn = chart.draw_series(LineSeries::new(points.iter().copied().map(place), style))?;
                    if !name.is_empty() {
                        drawn
                            .label(name)
                            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style.stroke_width(3)));
                    }
                }
                Mark::Event(at, line, what) => {
                    let ends = [self.y.from, self.y.to].map(|y| place((*at, y)));
                    chart.draw_series([PathElement::new(ends, Colour::hex(palette::BAD).rgb.mix(0.8))])?;
                    let style = (FONT, 11).into_font().color(&Colour::hex(palette::BAD).rgb);
                    chart.draw_series([
                        EmptyElement::at(ends[1]) + Text::new(what.clone(), (4, 3 + 13 * *line as i32), style)
                    ])?;
                }
            }
        }
        // One line needs no name.
        if names > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::LowerRight)
                .background_style(WHITE.mix(0.85))
                .border_style(GRID)
                .label_font((FONT, 12).into_font().color(&INK))
                .draw()?;
        }
        root.present()?;
        drop(chart);
        drop(root);
        Ok(text)
    }
}

/// About eight, at round values.
fn even_ticks(from: f64, to: f64) -> Vec<(f64, String)> {
    let rough = (to - from).max(1e-12) / 8.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(rough);
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let first = (from / step).ceil() as i64;
    let last = (to / step).floor() as i64;
    (first..=last).map(|tick| (tick as f64 * step, format!("{:.digits$}", tick as f64 * step))).collect()
}
