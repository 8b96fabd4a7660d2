//! What is told while a run goes on: a view in the terminal or plain lines, JSON events, a Prometheus endpoint.
//!
//! ```text
//!   engine --each second--> Live --> View (terminal or lines), Events (JSON lines), Exporter (HTTP)
//! ```

mod events;
mod exporter;
mod marks;
mod view;

pub use events::Events;
pub use exporter::Exporter;
pub use marks::Marks;
pub use view::View;

use crate::measure::Second;
use crate::report::{Rules, Validity};
use std::time::{Duration, Instant};

/// How often it is looked whether the end has been read.
const READER_LOOK: Duration = Duration::from_millis(20);

/// All who listen to a run.
#[derive(Debug)]
pub struct Live {
    view: Option<View>,
    events: Option<Events>,
    exporter: Option<Exporter>,
    rules: Rules,
}

impl Live {
    /// Nobody listens yet.
    #[must_use]
    pub fn new(view: Option<View>, events: Option<Events>, exporter: Option<Exporter>, rules: Rules) -> Self {
        Self { view, events, exporter, rules }
    }

    /// Tells a second that changes no more, and all so far.
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

    /// Tells something that happened: a mark on the axis of time.
    pub fn note(&mut self, at: Duration, text: &str) {
        if let Some(view) = &mut self.view {
            view.note(at, text);
        }
        if let Some(events) = &mut self.events {
            events.note(at, text);
        }
    }

    /// Ends the view; what is printed next stands below it. The endpoint tells how it ended, as long as it is there.
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

    /// Waits until somebody has read from the endpoint how the run ended, but not for longer than `at_most`, and not
    /// against `stops`.
    pub fn wait_for_reader(&self, at_most: Duration, stops: &dyn Fn() -> u8) {
        let start = Instant::now();
        let is_read = || self.exporter.as_ref().is_none_or(Exporter::is_end_read);
        while !is_read() && start.elapsed() < at_most && stops() == 0 {
            std::thread::sleep(READER_LOOK);
        }
    }
}
