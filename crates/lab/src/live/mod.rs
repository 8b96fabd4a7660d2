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
use crate::report::Validity;
use std::time::Duration;

/// All who listen to a run.
#[derive(Debug)]
pub struct Live {
    view: Option<View>,
    events: Option<Events>,
    exporter: Option<Exporter>,
}

impl Live {
    /// Nobody listens yet.
    #[must_use]
    pub fn new(view: Option<View>, events: Option<Events>, exporter: Option<Exporter>) -> Self {
        Self { view, events, exporter }
    }

    /// Tells a second that changes no more, and all so far.
    pub fn second(&mut self, index: u64, second: &Second, total: &Second) {
        if let Some(view) = &mut self.view {
            view.second(index, second, total);
        }
        if let Some(events) = &mut self.events {
            events.second(index, second);
        }
        if let Some(exporter) = &self.exporter {
            exporter.second(index, second, total);
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

    /// Ends the view; what is printed next stands below it.
    pub fn finish(&mut self, total: &Second, validity: &Validity) {
        if let Some(view) = &mut self.view {
            view.finish();
        }
        if let Some(events) = &mut self.events {
            events.finish(total, validity);
        }
    }
}
