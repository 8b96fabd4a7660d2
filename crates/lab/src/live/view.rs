//! The run as a person sees it: a few lines that change in a terminal, a line a second elsewhere.

use crate::measure::Second;
use crate::report::{Validity, duration};
use crate::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Seconds that the small drawing of p99 shows.
const SPARK_COUNT: usize = 60;
/// Heights of that drawing, from low to high.
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The view of one run.
#[derive(Debug)]
pub struct View {
    /// `None` when standard error is no terminal.
    bar: Option<ProgressBar>,
    seconds_planned: u64,
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
        Self { bar, seconds_planned, p99: VecDeque::with_capacity(SPARK_COUNT + 1) }
    }

    fn bar(planned: Duration, target: ProgressDrawTarget) -> ProgressBar {
        let template = "{bar:30} {elapsed} of {len} s, {left}; seconds that are accounted for: {pos}\n{msg}";
        // By the clock, since a second is accounted for only when its last query has had its time.
        let left = move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let left = planned.saturating_sub(state.elapsed()).as_secs_f64().ceil();
            // What cannot be drawn is left out: the terminal is no part of the run.
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
        let warning = if so_far.valid { String::new() } else { format!("{so_far} (so far)") };
        let Some(bar) = &self.bar else {
            let left = self.seconds_planned.saturating_sub(index + 1);
            say(format_args!("{:>5} s  {}  {left} s left  {warning}\n", index + 1, line(second)));
            return;
        };
        bar.set_position((index + 1).min(self.seconds_planned));
        bar.set_message(format!(
            "this second  {}\nthe whole    {}\np99 by time  {}\n{warning}",
            line(second),
            line(total),
            self.spark()
        ));
    }

    pub(super) fn note(&mut self, at: Duration, text: &str) {
        let text = format!("{:>5.1} s  {text}", at.as_secs_f64());
        match &self.bar {
            Some(bar) => bar.println(text),
            None => say(format_args!("{text}\n")),
        }
    }

    pub(super) fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Heights by the logarithm, since latency spans decades.
    fn spark(&self) -> String {
        let log = |&ns: &u64| (ns.max(1) as f64).ln();
        let low = self.p99.iter().map(log).fold(f64::INFINITY, f64::min);
        let high = self.p99.iter().map(log).fold(0.0, f64::max);
        // Under a factor of two everything is flat.
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
        let mut view = View { bar: Some(View::bar(planned, target)), seconds_planned: 3_600, p99: VecDeque::new() };
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
            let told = shown.lines().find(|own| own.starts_with(line)).unwrap();
            let words: Vec<_> = told.split_whitespace().collect();
            let of = |word: &str| words[words.iter().position(|own| *own == word).unwrap() + 1];
            assert_eq!((of("lost"), of("out"), of("p50")), ("7", "3)", "100"), "{shown}");
        }
        view.finish();
        assert_eq!(terminal.contents(), "", "it leaves nothing behind");
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
        assert!(view.spark().starts_with("▁▁█▁  100 us to 50.0 ms"), "{}", view.spark());
    }
}
