//! A chart with two axes, drawn with `plotters`.

use super::bitmap::{Bitmap, Failure};
use super::image_format::ImageFormat;
use crate::{Run, palette};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::register_font;
use std::ops::Range;

const SIZE: (u32, u32) = (900, 420);
/// Lines of event texts at the top. If they are full, a mark has no text.
const EVENT_LINES: usize = 4;
/// Maximum length of an event text or legend name.
const LETTERS_MAX: usize = 36;
const INK: RGBColor = RGBColor(28, 35, 40);
const SOFT: RGBColor = RGBColor(90, 101, 109);
const GRID: RGBColor = RGBColor(224, 229, 231);
/// Font families in SVGs. Bitmaps are drawn, and all text is measured, with the built-in font.
const FONT: &str = "Liberation Sans, DejaVu Sans, Helvetica, Arial, sans-serif";

/// A colour with opacity and width, as used in the page.
#[derive(Clone, Copy)]
pub(super) struct Colour {
    rgb: RGBColor,
    opacity: f64,
    width: u32,
}

impl Colour {
    /// Parses `#RRGGBB`.
    pub(super) fn hex(text: &str) -> Self {
        let number = u32::from_str_radix(text.trim_start_matches('#'), 16).unwrap_or_default();
        let [_, red, green, blue] = number.to_be_bytes();
        Self { rgb: RGBColor(red, green, blue), opacity: 1.0, width: 2 }
    }

    /// The colour of a run.
    pub(super) fn of(index: usize) -> Self {
        Self::hex(palette::run(index))
    }

    pub(super) fn thin(self) -> Self {
        Self { width: 1, ..self }
    }

    pub(super) fn pale(self) -> Self {
        Self { opacity: 0.35, ..self }
    }

    /// A wide line that is visible on both sides of another one.
    pub(super) fn broad(self) -> Self {
        Self { width: 7, ..self }
    }

    /// A pale variant for the background.
    pub(super) fn faint(self) -> Self {
        Self { opacity: 0.15, ..self }
    }

    /// A colour of the heat map, from nearly white (0) to dark blue (1).
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

    /// A time axis of the run.
    pub(super) fn time(end: f64) -> Self {
        Self::linear(0.0, end, "time in the run, s", None)
    }

    /// A logarithmic axis of durations in seconds.
    pub(super) fn times(low: f64, high: f64, title: &str) -> Self {
        // With few decades, ticks are also at 2 and 5.
        let steps: &[u32] = if high / low < 50.0 { &[1, 2, 5] } else { &[1] };
        let ticks = (-9i32..3).flat_map(|decade| {
            let unit = ["ns", "us", "ms", "s"][(decade + 9) as usize / 3];
            let factor = 10u32.pow((decade + 9) as u32 % 3);
            steps.iter().map(move |step| (f64::from(*step) * 10f64.powi(decade), format!("{} {unit}", step * factor)))
        });
        let ticks = ticks.collect();
        Self::logarithmic(low * 0.8, high * 1.25, title, ticks)
    }

    /// An axis of counts from zero, with digits in groups of three.
    pub(super) fn counts(most: f64, title: &str) -> Self {
        let ticks = even_ticks(0.0, most).into_iter().map(|(tick, text)| (tick, group_digits(&text))).collect();
        Self::linear(0.0, most, title, Some(ticks))
    }

    /// Ticks in per cent on an axis of shares from `-most` to `most`.
    pub(super) fn shares(most: f64) -> Vec<(f64, String)> {
        let name = |text: String| if text.trim_start_matches(['-', '0', '.']).is_empty() { "0".into() } else { text };
        let percent = even_ticks(-most * 100.0, most * 100.0).into_iter();
        percent.map(|(tick, text)| (tick / 100.0, format!("{} %", name(text)))).collect()
    }

    /// The position of a value: the value or its logarithm.
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

/// A range with fixed ticks.
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
    /// A line through these points. Its name is in the legend, unless empty.
    Line(String, Vec<(f64, f64)>, Colour),
    /// A rectangle from corner to corner.
    Area((f64, f64), (f64, f64), Colour),
    /// A mark at this time, with its text at the top.
    Event(f64, String, Colour),
}

/// An unfinished chart.
pub(super) struct Chart {
    title: String,
    /// A second title line: why the run is invalid. May be empty.
    reason: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    marks: Vec<Mark>,
}

impl Chart {
    pub(super) fn new(title: &str, reason: &str) -> Self {
        let [x, y] = [0, 1].map(|_| Scale::linear(0.0, 1.0, "", None));
        Self { title: title.into(), reason: reason.into(), x, y, marks: Vec::new() }
    }

    pub(super) fn line(&mut self, name: &str, points: Vec<(f64, f64)>, colour: Colour) {
        self.marks.push(Mark::Line(name.into(), points, colour));
    }

    pub(super) fn area(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        self.marks.push(Mark::Area(from, to, colour));
    }

    /// Marks the events of these runs.
    pub(super) fn events(&mut self, runs: &[Run]) {
        for (index, run) in runs.iter().enumerate() {
            let colour = if runs.len() > 1 { Colour::of(index) } else { Colour::hex(palette::BAD) };
            for event in &run.recording.events {
                self.event(event.at, &format!("{}: {}", event.kind, event.text), colour);
            }
        }
    }

    /// Marks an event at this time.
    pub(super) fn event(&mut self, at: f64, what: &str, colour: Colour) {
        self.marks.push(Mark::Event(at, shortened(what, LETTERS_MAX), colour));
    }

    /// The contents of its file.
    pub(super) fn draw(&self, format: ImageFormat) -> Result<Vec<u8>, Failure> {
        register_font(FONT, FontStyle::Normal, notosans::REGULAR_TTF).map_err(|_| "the font of pictures is broken")?;
        match format {
            ImageFormat::Svg => {
                let mut text = String::new();
                self.draw_on(SVGBackend::with_string(&mut text, SIZE), 1)?;
                Ok(text.into_bytes())
            }
            ImageFormat::Png => {
                let mut bitmap = Bitmap::new(SIZE);
                self.draw_on(bitmap.backend(), Bitmap::SCALE)?;
                bitmap.png()
            }
        }
    }

    /// Draws with `scale` pixels per unit.
    fn draw_on<B: DrawingBackend>(&self, backend: B, scale: u32) -> Result<(), Failure>
    where
        B::ErrorType: 'static,
    {
        let font = |size: u32| font(size, scale);
        let names = self.names();
        let width =
            |text: &str, size: u32| font(size).layout_box(text).map_or(0, |(from, to)| (to.0 - from.0) as u32 / scale);
        let legend_width = names.iter().map(|(name, _)| width(name, 12) + 40).max().unwrap_or_default();
        let root = backend.into_drawing_area();
        root.fill(&WHITE)?;
        let mut below = root.margin(10 * scale, 0, 0, 0).titled(&self.title, font(17).color(&INK))?;
        if !self.reason.is_empty() {
            let reason = fit_text(&self.reason, SIZE.0 - 20, |text| width(text, 12));
            below = below.titled(&reason, font(12).color(&Colour::hex(palette::BAD).rgb))?;
        }
        let mut chart = ChartBuilder::on(&below)
            .margin(10 * scale)
            .margin_right((24 + legend_width) * scale)
            .x_label_area_size(44 * scale)
            .y_label_area_size(72 * scale)
            .build_cartesian_2d(self.x.axis(), self.y.axis())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID.stroke_width(scale))
            .light_line_style(TRANSPARENT)
            .axis_style(SOFT.stroke_width(scale))
            .set_all_tick_mark_size(5 * scale)
            .x_labels(self.x.ticks.len())
            .y_labels(self.y.ticks.len())
            .x_label_formatter(&|place| self.x.tick_name(*place))
            .y_label_formatter(&|place| self.y.tick_name(*place))
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .label_style(font(12).color(&SOFT))
            .axis_desc_style(font(13).color(&INK))
            .draw()?;
        let place = |(x, y): (f64, f64)| (self.x.place(x), self.y.place(y));
        let mut event_lines = EventLines::default();
        for mark in &self.marks {
            match mark {
                Mark::Area(from, to, colour) => {
                    let style = colour.rgb.mix(colour.opacity).filled();
                    chart.draw_series([Rectangle::new([place(*from), place(*to)], style)])?;
                }
                Mark::Line(_, points, colour) if points.len() == 1 => {
                    // A line with one point would be invisible.
                    let style = colour.rgb.mix(colour.opacity).filled();
                    chart.draw_series([Circle::new(place(points[0]), 3 * scale, style)])?;
                }
                Mark::Line(_, points, colour) => {
                    let style = colour.rgb.mix(colour.opacity).stroke_width(colour.width * scale);
                    chart.draw_series(LineSeries::new(points.iter().copied().map(place), style))?;
                }
                Mark::Event(at, what, colour) => {
                    let ends = [self.y.from, self.y.to].map(|y| place((*at, y)));
                    chart.draw_series([PathElement::new(ends, colour.rgb.mix(0.8).stroke_width(scale))])?;
                    let left = chart.backend_coord(&ends[1]).0 / scale as i32;
                    if let Some(line) = event_lines.place(left, width(what, 11), what) {
                        let style = font(11).color(&colour.rgb);
                        let offset = (4 * scale as i32, (3 + 13 * line as i32) * scale as i32);
                        chart.draw_series([EmptyElement::at(ends[1]) + Text::new(what.clone(), offset, style)])?;
                    }
                }
            }
        }
        draw_legend(&root, &names, legend_width, scale)?;
        root.present()?;
        Ok(())
    }

    /// The legend. A single line needs none.
    fn names(&self) -> Vec<(String, Colour)> {
        let named = self.marks.iter().filter_map(|mark| match mark {
            Mark::Line(name, _, colour) if !name.is_empty() => Some((shortened(name, LETTERS_MAX), *colour)),
            _ => None,
        });
        let names: Vec<_> = named.collect();
        if names.len() > 1 { names } else { Vec::new() }
    }
}

/// Draws the legend next to the chart.
fn draw_legend<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    names: &[(String, Colour)],
    width: u32,
    scale: u32,
) -> Result<(), Failure>
where
    B::ErrorType: 'static,
{
    for (line, (name, colour)) in names.iter().enumerate() {
        let (x, y) = ((SIZE.0 - 14 - width) * scale, (52 + 19 * line as u32) * scale);
        let (x, y, scaled) = (x as i32, y as i32, scale as i32);
        let sample = [(x, y), (x + 20 * scaled, y)];
        root.draw(&PathElement::new(sample, colour.rgb.stroke_width(3 * scale)))?;
        root.draw(&Text::new(name.clone(), (x + 26 * scaled, y - 4 * scaled), font(12, scale).color(&INK)))?;
    }
    Ok(())
}

fn font(size: u32, scale: u32) -> FontDesc<'static> {
    (FONT, size * scale).into_font()
}

/// Positions of event texts, so that they do not overlap.
#[derive(Default)]
struct EventLines(Vec<(usize, i32, i32, String)>);

impl EventLines {
    /// The line for a text that begins at `left`. `None` if there is no room, or the same text is already there.
    fn place(&mut self, left: i32, width: u32, text: &str) -> Option<usize> {
        let right = left + width as i32 + 8;
        let covers = |placed: &&(usize, i32, i32, String)| left < placed.2 && placed.1 < right;
        if self.0.iter().filter(covers).any(|placed| placed.3 == text) {
            return None;
        }
        let is_free = |line: &usize| !self.0.iter().filter(covers).any(|placed| placed.0 == *line);
        let line = (0..EVENT_LINES).find(is_free)?;
        self.0.push((line, left, right, text.to_owned()));
        Some(line)
    }
}

/// Cuts a text to this width.
fn fit_text(text: &str, room: u32, width: impl Fn(&str) -> u32) -> String {
    let mut cut = text.to_owned();
    while width(&cut) > room && cut.pop().is_some() {
        // Makes room for the ellipsis.
        cut.truncate(cut.trim_end_matches('…').len());
        cut.pop();
        cut.push('…');
    }
    cut
}

/// Cuts a text to this number of letters.
pub(super) fn shortened(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Formats a whole number with digits in groups of three.
pub(super) fn group_digits(digits: &str) -> String {
    let places = digits.chars().enumerate();
    places.fold(String::new(), |mut grouped, (place, digit)| {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
        grouped
    })
}

/// About eight ticks at round values.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_texts_do_not_overlap() {
        let mut lines = EventLines::default();
        let placed = [(100, "a"), (110, "b"), (105, "a"), (200, "c"), (112, "d"), (114, "e"), (116, "f")]
            .map(|(left, text)| lines.place(left, 60, text));
        assert_eq!(placed, [Some(0), Some(1), None, Some(0), Some(2), Some(3), None]);
    }

    #[test]
    fn axes_within_a_decade_have_labels() {
        let names = |low, high| Scale::times(low, high, "").ticks.into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(names(1.7e-4, 9e-4), ["200 us", "500 us", "1 ms"]);
        assert_eq!(names(2e-6, 0.3), ["10 us", "100 us", "1 ms", "10 ms", "100 ms"]);
        assert_eq!(names(2.0, 30.0), ["2 s", "5 s", "10 s", "20 s"]);
    }

    #[test]
    fn long_names_are_shortened_between_letters() {
        assert_eq!(shortened("short", LETTERS_MAX), "short");
        assert_eq!(shortened(&"ü".repeat(40), LETTERS_MAX), format!("{}…", "ü".repeat(36)));
    }
}
