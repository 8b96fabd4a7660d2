//! The run so far as Prometheus metrics, over plain HTTP.

use crate::limits::EXPORTER_WAIT_MS;
use crate::measure::Second;
use crate::report::Validity;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is answered.
#[derive(Clone, Default, Debug)]
struct Page {
    metrics: String,
    /// Of the run that has ended.
    is_end: bool,
}

/// An endpoint that answers as long as the program runs.
#[derive(Debug)]
pub struct Exporter {
    text: Arc<Mutex<Page>>,
    /// Whether somebody has read how the run ended.
    is_end_read: Arc<AtomicBool>,
    address: SocketAddr,
}

impl Exporter {
    /// Listens.
    ///
    /// # Errors
    /// When the address is taken, or no thread can be started.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let exporter = Self { text: Arc::default(), is_end_read: Arc::default(), address: listener.local_addr()? };
        let (text, is_end_read) = (Arc::clone(&exporter.text), Arc::clone(&exporter.is_end_read));
        let serve = move || {
            // One client at a time: it is asked a few times a minute.
            for stream in listener.incoming().filter_map(Result::ok) {
                let page = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A client that goes away hurts nobody.
                let is_read = respond(stream, &page.metrics).unwrap_or(false);
                is_end_read.fetch_or(is_read && page.is_end, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new().name("exporter".into()).spawn(serve)?;
        Ok(exporter)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn second(&self, index: u64, second: &Second, total: &Second, so_far: &Validity) {
        let mut metrics = page(index, second, total);
        metrics += &validity_metrics(so_far, "so far");
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = Page { metrics, is_end: false };
    }

    /// The run has ended; the figures stay, and what it is judged to be is final.
    pub(super) fn finish(&self, total: &Second, validity: &Validity) {
        let mut page = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = page.metrics.lines().find_map(|line| line.strip_prefix("catlab_seconds ")?.parse::<u64>().ok());
        let mut metrics = self::page(seconds.unwrap_or(1).saturating_sub(1), &Second::default(), total);
        metrics += &validity_metrics(validity, "of the whole run");
        *page = Page { metrics, is_end: true };
    }

    /// Whether somebody has read how the run ended.
    pub(super) fn is_end_read(&self) -> bool {
        self.is_end_read.load(Ordering::Relaxed)
    }
}

/// Gives whether the metrics were asked for.
fn respond(mut stream: TcpStream, page: &str) -> io::Result<bool> {
    let patience = Some(Duration::from_millis(EXPORTER_WAIT_MS));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    let mut request = [0; 2_048];
    let len = stream.read(&mut request)?;
    let is_metrics = request[..len].starts_with(b"GET /metrics");
    let (status, body) = if is_metrics { ("200 OK", page) } else { ("404 Not Found", "the metrics are at /metrics\n") };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Ok(is_metrics)
}

/// Whether the figures mean what they say, and if not, why: a series for each reason.
fn validity_metrics(validity: &Validity, when: &str) -> String {
    let mut text = format!(
        "# HELP catlab_valid Whether the run is valid, {when}.\n# TYPE catlab_valid gauge\ncatlab_valid {}\n",
        u8::from(validity.valid)
    );
    if !validity.valid {
        text += "# HELP catlab_invalid The run is INVALID, for this reason.\n# TYPE catlab_invalid gauge\n";
        for reason in &validity.reasons {
            let reason = reason.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
            text += &format!("catlab_invalid{{reason=\"INVALID: {reason}\"}} 1\n");
        }
    }
    text
}

fn page(index: u64, second: &Second, total: &Second) -> String {
    let mut page = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        // Writing into a string cannot fail.
        let _written = writeln!(page, "# HELP catlab_{name} {help}\n# TYPE catlab_{name} {kind}");
        for (labels, value) in values {
            let _written = writeln!(page, "catlab_{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value as f64)];
    metric("seconds", "gauge", "Seconds of the run that are accounted for.", &one(index + 1));
    metric("sent_total", "counter", "Queries sent.", &one(total.sent));
    metric("answered_total", "counter", "Queries answered in time.", &one(total.answered));
    metric("timed_out_total", "counter", "Queries not answered in time.", &one(total.timed_out));
    metric("late_total", "counter", "Answers after the time-out.", &one(total.late));
    metric("duplicate_total", "counter", "Second answers to a query.", &one(total.duplicate));
    metric("mismatched_total", "counter", "Answers with another question.", &one(total.mismatched));
    metric("stray_total", "counter", "Messages with an ID that was never sent, or none.", &one(total.stray));
    let other = "Messages from another address than the one that was asked.";
    metric("other_address_total", "counter", other, &one(total.other_address));
    metric("unexpected_total", "counter", "Answers with an RCODE that was not expected.", &one(total.unexpected));
    metric(
        "checked_total",
        "counter",
        "Answers that were held against the expected ones.",
        &one(total.checked.checked),
    );
    metric("wrong_total", "counter", "Of these: wrong.", &one(total.checked.wrong()));
    let rcodes: Vec<_> = (0u16..)
        .zip(total.rcodes)
        .filter(|&(_, count)| count > 0)
        .map(|(rcode, count)| (format!("{{rcode=\"{:?}\"}}", wire::number::Rcode(rcode)), count as f64))
        .collect();
    metric("answers_total", "counter", "Answers by RCODE.", &rcodes);
    for (name, help, histogram) in [
        ("latency_seconds", "From the planned time to the answer, in the last second.", &second.latency),
        ("send_lag_seconds", "From the planned time to the sending, in the last second.", &second.send_lag),
    ] {
        let quantiles = [0.5, 0.9, 0.99, 0.999, 1.0]
            .map(|q| (format!("{{quantile=\"{q}\"}}"), histogram.value_at_quantile(q) as f64 / 1e9));
        metric(name, "gauge", help, &quantiles);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_so_far_can_be_scraped() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut second = Second::default();
        second.sent(10, 40);
        second.record_latency(2_000_000, 2_000_000);
        second.rcodes[0] = 1;
        exporter.second(0, &second, &second, &Validity { valid: true, reasons: Vec::new() });
        let get = |path: &str| {
            let mut stream = TcpStream::connect(exporter.address()).unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let text = get("/metrics");
        assert!(text.contains("\ncatlab_sent_total 1\n"), "{text}");
        assert!(text.contains("\ncatlab_answers_total{rcode=\"NOERROR\"} 1\n"), "{text}");
        assert!(text.contains("\ncatlab_latency_seconds{quantile=\"0.99\"} 0.00"), "{text}");
        assert!(text.contains("\ncatlab_valid 1\n") && !text.contains("INVALID"), "{text}");
        let reasons = vec!["it was \"late\"".to_owned()];
        exporter.finish(&second, &Validity { valid: false, reasons });
        assert!(get("/").starts_with("HTTP/1.1 404") && !exporter.is_end_read());
        let text = get("/metrics");
        assert!(text.contains("\ncatlab_invalid{reason=\"INVALID: it was \\\"late\\\"\"} 1\n"), "{text}");
        assert!(text.contains("\ncatlab_valid 0\n") && text.contains("\ncatlab_seconds 1\n"), "{text}");
        assert!(text.contains("\ncatlab_sent_total 1\n"), "{text}");
        let start = std::time::Instant::now();
        while !exporter.is_end_read() {
            assert!(start.elapsed() < Duration::from_secs(10), "the end was read");
            std::thread::yield_now();
        }
    }
}
