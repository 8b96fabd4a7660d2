//! The text format of Prometheus (version 0.0.4): a header for each family, and a line for each series.
#![forbid(unsafe_code)]

use std::fmt::{Display, Write};

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page that is being written.
#[derive(Debug, Default)]
pub struct Page(String);

/// The type of a family.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A number that only goes up, until the process ends.
    Counter,
    /// A number that goes up and down.
    Gauge,
}

impl Page {
    /// Starts a family; its series follow.
    pub fn family<'p>(&'p mut self, name: &'p str, kind: Kind, help: &str) -> Family<'p> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.head(name, kind, help);
        Family { page: self, name }
    }

    /// Writes a family of one series without labels.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help).series(&[], value);
    }

    /// Writes a histogram: for each bucket its upper bound, and the number of values up to it; then the number of all
    /// values, and their sum.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        total: u64,
        sum: f64,
    ) {
        self.head(name, "histogram", help);
        for (bound, count) in buckets {
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {count}"));
        }
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {total}"));
        self.line(format_args!("{name}_sum {sum}"));
        self.line(format_args!("{name}_count {total}"));
    }

    /// The page as text.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a String never fails");
    }
}

/// One family of a [`Page`].
#[derive(Debug)]
pub struct Family<'p> {
    page: &'p mut Page,
    name: &'p str,
}

impl Family<'_> {
    /// Writes one series.
    pub fn series(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        let mut text = String::new();
        for (key, value) in labels {
            let comma = if text.is_empty() { "" } else { "," };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(text, "{comma}{key}=\"{value}\"").expect("writing to a String never fails");
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

    #[test]
    fn a_page_has_the_format_of_prometheus() {
        let mut page = Page::default();
        page.single("up", Kind::Gauge, "Whether it runs.", 1);
        page.family("drops_total", Kind::Counter, "Dropped.").series(&[("reason", "a\"b"), ("kind", "x")], 3);
        page.histogram("sync_seconds", "Time.", [(0.00005, 0), (0.0001, 1)], 1, 0.00007);
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
