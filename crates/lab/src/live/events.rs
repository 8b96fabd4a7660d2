//! Prints a run as JSON lines, for other programs.

use measure::Second;
use report::Validity;
use serde_json::{Value, json};
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// The output of the lines.
pub struct Events {
    out: Box<dyn Write>,
}

impl Events {
    /// Prints one line per event: `{"event": "second", ...}`, `note`, and finally `end`. A closed output does not end
    /// the run.
    #[must_use]
    pub fn new(out: Box<dyn Write>) -> Self {
        Self { out }
    }

    pub(super) fn second(&mut self, index: u64, second: &Second, so_far: &Validity) {
        let mut event = figures("second", second);
        event["second"] = index.into();
        event["validity_so_far"] = json!(so_far);
        self.put(&event);
    }

    pub(super) fn note(&mut self, at: Duration, text: &str) {
        self.put(&json!({"event": "note", "at": at.as_secs_f64(), "text": text}));
    }

    pub(super) fn finish(&mut self, total: &Second, validity: &Validity) {
        let mut event = figures("end", total);
        event["validity"] = json!(validity);
        self.put(&event);
    }

    fn put(&mut self, event: &Value) {
        let _gone = writeln!(self.out, "{event}").and_then(|()| self.out.flush());
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

fn figures(kind: &str, second: &Second) -> Value {
    let us = |histogram: &hdrhistogram::Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    let rcodes: serde_json::Map<String, Value> = (0u16..)
        .zip(second.rcodes)
        .filter(|&(_, count)| count > 0)
        .map(|(rcode, count)| (format!("{:?}", wire::number::Rcode(rcode)), count.into()))
        .collect();
    json!({
        "event": kind,
        "sent": second.sent,
        "answered": second.answered,
        "timed_out": second.timed_out,
        "late": second.late,
        "duplicate": second.duplicate,
        "mismatched": second.mismatched,
        "stray": second.stray,
        "other_address": second.other_address,
        "unexpected": second.unexpected,
        "answer_check": second.checked,
        "rcodes": rcodes,
        "latency_us": {
            "p50": us(&second.latency, 0.5),
            "p99": us(&second.latency, 0.99),
            "p99_9": us(&second.latency, 0.999),
            "max": us(&second.latency, 1.0),
        },
        "send_lag_us": {"p99": us(&second.send_lag, 0.99), "max": us(&second.send_lag, 1.0)},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Pipe(Sender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_second_is_a_line() {
        let (send, lines) = channel();
        let mut events = Events::new(Box::new(Pipe(send)));
        let mut second = Second::default();
        second.sent(10, 40);
        second.answered = 1;
        second.rcodes[3] = 1;
        second.record_latency(1_000_000, 900_000);
        let valid = Validity { valid: true, reasons: Vec::new() };
        events.second(4, &second, &valid);
        let validity = Validity { valid: false, reasons: vec!["too late".to_owned()] };
        events.finish(&second, &validity);
        let text: Vec<u8> = lines.try_iter().flatten().collect();
        let text = String::from_utf8(text).unwrap();
        let parsed: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((parsed.len(), &parsed[0]["second"], &parsed[0]["rcodes"]["NXDOMAIN"]), (2, &json!(4), &json!(1)));
        assert_eq!(parsed[1]["event"], "end");
        assert_eq!(parsed[1]["validity"], json!({ "valid": false, "reasons": ["too late"] }));
        drop(lines);
        events.second(5, &second, &valid);
    }
}
