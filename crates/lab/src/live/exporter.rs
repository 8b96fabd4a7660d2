//! Serves the current results as Prometheus metrics over HTTP.

use crate::limits::EXPORTER_WAIT_MS;
use measure::Second;
use metrics_text::{Kind, Page};
use report::Validity;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The page that clients get.
#[derive(Clone, Default, Debug)]
struct Published {
    metrics: String,
    /// Whether the run has ended.
    is_end: bool,
}

/// An endpoint that runs until the program exits.
#[derive(Debug)]
pub struct Exporter {
    text: Arc<Mutex<Published>>,
    /// Whether a client has read the final results.
    is_end_read: Arc<AtomicBool>,
    address: SocketAddr,
}

impl Exporter {
    /// Starts the endpoint.
    ///
    /// # Errors
    /// If the address is in use, or the thread cannot be started.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let exporter = Self { text: Arc::default(), is_end_read: Arc::default(), address: listener.local_addr()? };
        let (text, is_end_read) = (Arc::clone(&exporter.text), Arc::clone(&exporter.is_end_read));
        let serve = move || {
            // Serves one client at a time, which is enough for Prometheus.
            for stream in listener.incoming().filter_map(Result::ok) {
                let page = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A closed connection does no harm.
                let is_read = respond(stream, &page.metrics).unwrap_or(false);
                is_end_read.fetch_or(is_read && page.is_end, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new().name("exporter".into()).spawn(serve)?;
        Ok(exporter)
    }

    /// The listen address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn second(&self, index: u64, second: &Second, total: &Second, so_far: &Validity) {
        let mut page = page(index, second, total);
        write_validity(&mut page, so_far, "so far");
        let published = Published { metrics: page.finish(), is_end: false };
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = published;
    }

    /// The run has ended. Publishes the final results and the verdict.
    pub(super) fn finish(&self, total: &Second, validity: &Validity) {
        let mut published = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds =
            published.metrics.lines().find_map(|line| line.strip_prefix("catlab_seconds ")?.parse::<u64>().ok());
        let mut page = page(seconds.unwrap_or(1).saturating_sub(1), &Second::default(), total);
        write_validity(&mut page, validity, "of the whole run");
        *published = Published { metrics: page.finish(), is_end: true };
    }

    /// Whether a client has read the final results.
    pub(super) fn is_end_read(&self) -> bool {
        self.is_end_read.load(Ordering::Relaxed)
    }
}

/// Answers a request. Returns whether it was for the metrics.
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

/// Writes whether the run is valid, with one series for each reason why it is not.
fn write_validity(page: &mut Page, validity: &Validity, when: &str) {
    let help = format!("Whether the run is valid, {when}.");
    page.single("catlab_valid", Kind::Gauge, &help, u8::from(validity.valid));
    if !validity.valid {
        let mut family = page.family("catlab_invalid", Kind::Gauge, "The run is INVALID, for this reason.");
        for reason in &validity.reasons {
            family.series(&[("reason", &format!("INVALID: {reason}"))], 1);
        }
    }
}

fn page(index: u64, second: &Second, total: &Second) -> Page {
    let mut page = Page::default();
    page.single("catlab_seconds", Kind::Gauge, "Seconds of the run that are accounted for.", index + 1);
    for (name, help, value) in [
        ("catlab_sent_total", "Queries sent.", total.sent),
        ("catlab_answered_total", "Queries answered in time.", total.answered),
        ("catlab_timed_out_total", "Queries not answered in time.", total.timed_out),
        ("catlab_late_total", "Answers after the time-out.", total.late),
        ("catlab_duplicate_total", "Further answers to answered queries.", total.duplicate),
        ("catlab_mismatched_total", "Answers with another question.", total.mismatched),
        ("catlab_stray_total", "Messages with an ID that was never sent, or none.", total.stray),
        ("catlab_other_address_total", "Messages from another address than the queried one.", total.other_address),
        ("catlab_unexpected_total", "Answers with an RCODE that was not expected.", total.unexpected),
        ("catlab_checked_total", "Answers that were compared with the expected ones.", total.checked.checked),
        ("catlab_wrong_total", "Of these: wrong.", total.checked.wrong()),
    ] {
        page.single(name, Kind::Counter, help, value);
    }
    let mut rcodes = page.family("catlab_answers_total", Kind::Counter, "Answers by RCODE.");
    for (rcode, count) in (0u16..).zip(total.rcodes).filter(|&(_, count)| count > 0) {
        rcodes.series(&[("rcode", &format!("{:?}", wire::number::Rcode(rcode)))], count);
    }
    for (name, help, histogram) in [
        ("catlab_latency_seconds", "From the planned time to the answer, in the last second.", &second.latency),
        ("catlab_send_lag_seconds", "From the planned time to the sending, in the last second.", &second.send_lag),
    ] {
        let mut quantiles = page.family(name, Kind::Gauge, help);
        for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
            let seconds = histogram.value_at_quantile(quantile) as f64 / 1e9;
            quantiles.series(&[("quantile", &quantile.to_string())], seconds);
        }
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
