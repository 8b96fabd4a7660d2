//! The text format of Prometheus (version 0.0.4): a head for each family, a line for each series.

use super::{BUCKETS_US, DurationHistogram};
use std::fmt::{Display, Write};

/// The media type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page that is being written.
#[derive(Default)]
pub(crate) struct Page(String);

/// What a family is.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

impl Page {
    /// Starts a family; its series follow.
    pub(crate) fn family<'p>(&'p mut self, name: &'p str, kind: Kind, help: &str) -> Family<'p> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.head(name, kind, help);
        Family { page: self, name }
    }

    /// A family of one series without labels.
    pub(crate) fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help).series(&[], value);
    }

    /// A histogram of durations, in seconds.
    pub(crate) fn histogram(&mut self, name: &'static str, help: &str, histogram: &DurationHistogram) {
        self.head(name, "histogram", help);
        let (counts, sum_us) = histogram.cumulative();
        for (count, bound) in counts.iter().zip(BUCKETS_US) {
            self.line(format_args!("{name}_bucket{{le=\"{}\"}} {count}", bound as f64 / 1e6));
        }
        let total = counts.last().copied().unwrap_or(0);
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {total}"));
        self.line(format_args!("{name}_sum {}", sum_us as f64 / 1e6));
        self.line(format_args!("{name}_count {total}"));
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a String takes what it is given");
    }
}

/// One family of a [`Page`].
pub(crate) struct Family<'p> {
    page: &'p mut Page,
    name: &'p str,
}

impl Family<'_> {
    /// One series.
    pub(crate) fn series(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        let mut text = String::new();
        for (key, value) in labels {
            let comma = if text.is_empty() { "" } else { "," };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(text, "{comma}{key}=\"{value}\"").expect("a String takes what it is given");
        }
        let name = self.name;
        if text.is_empty() {
            self.page.line(format_args!("{name} {value}"));
        } else {
            self.page.line(format_args!("{name}{{{text}}} {value}"));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_page_reads_as_prometheus_wants_it() {
        let mut page = Page::default();
        page.single("up", Kind::Gauge, "Whether it runs.", 1);
        page.family("drops_total", Kind::Counter, "Dropped.").series(&[("reason", "a\"b"), ("kind", "x")], 3);
        let histogram = DurationHistogram::default();
        histogram.record(Duration::from_micros(70));
        page.histogram("sync_seconds", "Time.", &histogram);
        let text = page.finish();
        assert!(text.starts_with("# HELP up Whether it runs.\n# TYPE up gauge\nup 1\n"), "{text}");
        assert!(text.contains("drops_total{reason=\"a\\\"b\",kind=\"x\"} 3\n"), "{text}");
        assert!(
            text.contains("sync_seconds_bucket{le=\"0.00005\"} 0\nsync_seconds_bucket{le=\"0.0001\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("sync_seconds_bucket{le=\"+Inf\"} 1\nsync_seconds_sum 0.00007\nsync_seconds_count 1\n"),
            "{text}"
        );
    }
}
