//! The terminal view of a run: a few updated lines, or one line per second if standard error is not a terminal.

use crate::eprint;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use measure::Second;
use report::{Validity, duration};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Number of seconds in the small chart of p99.
const SPARK_COUNT: usize = 60;
/// Bars of that chart, from low to high.
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The view of one run.
#[derive(Debug)]
pub struct View {
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    seconds_planned: u64,
    /// A line had the reasons for which the run is invalid so far.
    has_shown_reasons: bool,
    /// p99 of the last seconds, in nanoseconds.
    p99: VecDeque<u64>,
}

impl View {
    /// A view on standard error.
    ///
    /// # Panics
    /// Never: the template is a constant.
    #[must_use]
    pub fn new(is_terminal: bool, planned: Duration) -> Self {
        let seconds_planned = planned.as_secs_f64().ceil() as u64;
        let bar = is_terminal.then(|| {
            let bar = Self::bar(planned, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { bar, seconds_planned, has_shown_reasons: false, p99: VecDeque::with_capacity(SPARK_COUNT + 1) }
    }

    fn bar(planned: Duration, target: ProgressDrawTarget) -> ProgressBar {
        let template = "{bar:30} {elapsed} of {len} s, {left}; seconds that are accounted for: {pos}\n{msg}";
        // By the clock, because a second is reported only after its last query could time out.
        let left = move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let left = planned.saturating_sub(state.elapsed()).as_secs_f64().ceil();
            // Drawing errors are ignored, because the terminal is not part of the run.
            let _drawn = write!(out, "{left} s left");
        };
        let style = ProgressStyle::with_template(template).expect("a template that is right").with_key("left", left);
        let bar = ProgressBar::with_draw_target(Some(planned.as_secs_f64().ceil() as u64), target);
        bar.with_style(style.progress_chars("█▉▊▋▌▍▎▏ "))
    }

    pub(super) fn second(&mut self, index: u64, second: &Second, total: &Second, so_far: &Validity) {
        self.p99.push_back(second.latency.value_at_quantile(0.99));
        if self.p99.len() > SPARK_COUNT {
            self.p99.pop_front();
        }
        let warning = self.warning(so_far);
        let Some(bar) = &self.bar else {
            let left = self.seconds_planned.saturating_sub(index + 1);
            eprint(format_args!("{:>5} s  {}  {left} s left  {warning}\n", index + 1, line(second)));
            return;
        };
        bar.set_position((index + 1).min(self.seconds_planned));
        bar.set_message(format!(
            "this second  {}\nthe whole    {}\np99 by time  {}\n{warning}",
            line(second),
            line(total),
            self.sparkline()
        ));
    }

    /// Whether the run is invalid so far. Without a bar, each second has its own line, and only the first such line has
    /// the reasons.
    fn warning(&mut self, so_far: &Validity) -> String {
        if so_far.valid {
            return String::new();
        }
        let is_repeated = self.bar.is_none() && std::mem::replace(&mut self.has_shown_reasons, true);
        if is_repeated { "INVALID (so far)".to_owned() } else { format!("{so_far} (so far)") }
    }

    pub(super) fn note(&mut self, at: Duration, text: &str) {
        let text = format!("{:>5.1} s  {text}", at.as_secs_f64());
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprint(format_args!("{text}\n")),
        }
    }

    pub(super) fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Heights on a logarithmic scale, because latency spans decades.
    fn sparkline(&self) -> String {
        let log = |&ns: &u64| (ns.max(1) as f64).ln();
        let low = self.p99.iter().map(log).fold(f64::INFINITY, f64::min);
        let high = self.p99.iter().map(log).fold(0.0, f64::max);
        // Differences below a factor of two are drawn flat.
        let span = (high - low).max(std::f64::consts::LN_2);
        let height = |ns| (((log(ns) - low) / span) * 7.0).round() as usize;
        let drawn: String = self.p99.iter().map(|ns| SPARKS[height(ns).min(7)]).collect();
        let bound = |pick: Option<&u64>| duration(Duration::from_nanos(pick.copied().unwrap_or_default()));
        format!("{drawn}  {} to {}", bound(self.p99.iter().min()), bound(self.p99.iter().max()))
    }
}

fn line(second: &Second) -> String {
    let at = |quantile| duration(Duration::from_nanos(second.latency.value_at_quantile(quantile)));
    let lag = duration(Duration::from_nanos(second.send_lag.value_at_quantile(0.99)));
    let wrong = second.unexpected + second.checked.wrong();
    let wrong = if wrong > 0 { format!("  WRONG {wrong}") } else { String::new() };
    format!(
        "sent {:>8}  answered {:>8}  lost {:>6} (timed out {})  p50 {:>8}  p99 {:>8}  max {:>8}  lag p99 {:>8}{wrong}",
        second.sent,
        second.answered,
        second.timed_out + second.connection_lost,
        second.timed_out,
        at(0.5),
        at(0.99),
        at(1.0),
        lag,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    #[test]
    fn a_terminal_shows_the_time_left_and_all_that_was_lost() {
        let terminal = InMemoryTerm::new(24, 160);
        let planned = Duration::from_secs(3_600);
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 20);
        let mut view = View { bar: Some(View::bar(planned, target)), ..View::new(false, planned) };
        let mut second = Second::default();
        (second.timed_out, second.connection_lost) = (3, 4);
        second.sent(10, 40);
        second.record_latency(100_000, 100_000);
        view.second(0, &second, &second, &Validity { valid: true, reasons: Vec::new() });
        view.bar.as_ref().unwrap().force_draw();
        let shown = terminal.contents();
        let head = shown.lines().next().unwrap();
        assert!(head.contains(" of 3600 s, ") && head.contains("accounted for: 1"), "{shown}");
        let (_, rest) = head.split_once(" s, ").unwrap();
        let left: u64 = rest.split_once(" s left").unwrap().0.parse().unwrap();
        assert!((3_000..=3_600).contains(&left), "{shown}");
        for line in ["this second", "the whole"] {
            let row = shown.lines().find(|own| own.starts_with(line)).unwrap();
            let words: Vec<_> = row.split_whitespace().collect();
            let of = |word: &str| words[words.iter().position(|own| *own == word).unwrap() + 1];
            assert_eq!((of("lost"), of("out"), of("p50")), ("7", "3)", "100"), "{shown}");
        }
        view.finish();
        assert_eq!(terminal.contents(), "", "it leaves nothing behind");
    }

    #[test]
    fn lines_give_the_reasons_of_an_invalid_run_once() {
        let mut view = View::new(false, Duration::from_secs(4));
        let valid = Validity { valid: true, reasons: Vec::new() };
        let invalid = Validity { valid: false, reasons: vec!["queries left late".to_owned()] };
        assert_eq!(view.warning(&valid), "");
        assert!(view.warning(&invalid).contains("queries left late"));
        assert_eq!(view.warning(&invalid), "INVALID (so far)");
    }

    #[test]
    fn a_spike_stands_out() {
        let mut view = View::new(false, Duration::from_secs(4));
        let mut total = Second::default();
        for (index, latency_ns) in [100_000, 100_000, 50_000_000, 100_000].into_iter().enumerate() {
            let mut second = Second::default();
            second.sent(10, 40);
            second.record_latency(latency_ns, latency_ns);
            total.merge(&second);
            view.second(index as u64, &second, &total, &Validity { valid: true, reasons: Vec::new() });
        }
        assert!(view.sparkline().starts_with("▁▁█▁  100 us to 50.0 ms"), "{}", view.sparkline());
    }
}
