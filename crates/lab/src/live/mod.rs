//! Output during a run: a terminal view or plain lines, JSON events, and a Prometheus endpoint.
//!
//! ```text
//!    engine --each second--> Live --> View (terminal or lines), Events (JSON lines), Exporter (HTTP)
//! ```

mod events;
mod exporter;
mod marks;
mod view;

pub use events::Events;
pub use exporter::Exporter;
pub use marks::Marks;
pub use view::View;

use measure::Second;
use report::{Rules, Validity};
use std::time::{Duration, Instant};

/// Interval of the check whether the final results were read.
const READER_INTERVAL: Duration = Duration::from_millis(20);

/// All outputs of a run.
#[derive(Debug)]
pub struct Live {
    view: Option<View>,
    events: Option<Events>,
    exporter: Option<Exporter>,
    rules: Rules,
}

impl Live {
    /// The outputs of a run that has not started.
    #[must_use]
    pub fn new(view: Option<View>, events: Option<Events>, exporter: Option<Exporter>, rules: Rules) -> Self {
        Self { view, events, exporter, rules }
    }

    /// Reports a completed second, and the total so far.
    pub fn second(&mut self, index: u64, second: &Second, total: &Second) {
        let validity = Validity::so_far(total, &self.rules);
        if let Some(view) = &mut self.view {
            view.second(index, second, total, &validity);
        }
        if let Some(events) = &mut self.events {
            events.second(index, second, &validity);
        }
        if let Some(exporter) = &self.exporter {
            exporter.second(index, second, total, &validity);
        }
    }

    /// Reports a mark.
    pub fn note(&mut self, at: Duration, text: &str) {
        if let Some(view) = &mut self.view {
            view.note(at, text);
        }
        if let Some(events) = &mut self.events {
            events.note(at, text);
        }
    }

    /// Ends the view, so that later output starts below it. The endpoint serves the final results.
    pub fn finish(&mut self, total: &Second, validity: &Validity) {
        if let Some(view) = &mut self.view {
            view.finish();
        }
        if let Some(events) = &mut self.events {
            events.finish(total, validity);
        }
        if let Some(exporter) = &self.exporter {
            exporter.finish(total, validity);
        }
    }

    /// Waits until a client has read the final results from the endpoint, for at most `at_most`. Stops early if the
    /// user asks to.
    pub fn wait_for_reader(&self, at_most: Duration, stops: &dyn Fn() -> u8) {
        let start = Instant::now();
        let is_read = || self.exporter.as_ref().is_none_or(Exporter::is_end_read);
        while !is_read() && start.elapsed() < at_most && stops() == 0 {
            std::thread::sleep(READER_INTERVAL);
        }
    }
}
