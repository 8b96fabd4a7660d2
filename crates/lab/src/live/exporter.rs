//! The run so far as Prometheus metrics, over plain HTTP.

use crate::limits::EXPORTER_WAIT_MS;
use crate::measure::Second;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// An endpoint that answers as long as the program runs.
#[derive(Debug)]
pub struct Exporter {
    text: Arc<Mutex<String>>,
    address: SocketAddr,
}

impl Exporter {
    /// Listens.
    ///
    /// # Errors
    /// When the address is taken, or no thread can be started.
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let exporter = Self { text: Arc::default(), address: listener.local_addr()? };
        let text = Arc::clone(&exporter.text);
        let serve = move || {
            // One client at a time: it is asked a few times a minute.
            for stream in listener.incoming().filter_map(Result::ok) {
                let page = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A client that goes away hurts nobody.
                let _gone = respond(stream, &page);
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

    pub(super) fn second(&self, index: u64, second: &Second, total: &Second) {
        let page = page(index, second, total);
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

fn respond(mut stream: TcpStream, page: &str) -> io::Result<()> {
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
    stream.write_all(body.as_bytes())
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
        second.took(2_000_000, 2_000_000);
        second.rcodes[0] = 1;
        exporter.second(0, &second, &second);
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
        assert!(get("/").starts_with("HTTP/1.1 404"));
    }
}
