//! Metrics in the text format of Prometheus, in a file for node_exporter or over HTTP.

use crate::limits::{METRICS_MS, METRICS_REQUEST_BYTES_MAX};
use crate::machine::{Machine, NameError, NameStatus, Notice, Now};
use crate::time::Deadline;
use metrics_text::{Kind, Page};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Counters since the start.
#[derive(Default, Debug)]
pub(crate) struct Counters {
    updates: u64,
    confirmations: u64,
    /// By the server's index.
    server_failures: BTreeMap<usize, u64>,
    address_changes: u64,
    /// By kind, and whether the probe answered.
    probes: BTreeMap<(&'static str, bool), u64>,
    state_failures: u64,
}

impl Counters {
    pub(crate) fn count(&mut self, notice: &Notice) {
        match notice {
            Notice::Updated { .. } => self.updates += 1,
            Notice::Confirmed { .. } => self.confirmations += 1,
            Notice::ServerFailed { server, .. } => *self.server_failures.entry(*server).or_default() += 1,
            Notice::TargetChanged { .. } => self.address_changes += 1,
            Notice::DryRun { .. } | Notice::RetryLater { .. } | Notice::PublicAddress { .. } => {}
        }
    }

    pub(crate) fn probed(&mut self, kind: &'static str, answered: bool) {
        *self.probes.entry((kind, answered)).or_default() += 1;
    }

    pub(crate) const fn state_failed(&mut self) {
        self.state_failures += 1;
    }

    /// The page.
    pub(crate) fn page(&self, machine: &Machine, servers: &[String], now: Now) -> String {
        let mut page = Page::default();
        let counter = Kind::Counter;
        let help = "Updates that a server has applied.";
        page.single("catamaran_ddns_updates_total", counter, help, self.updates);
        let help = "Checks that found a name up to date.";
        page.single("catamaran_ddns_confirmations_total", counter, help, self.confirmations);
        let help = "Changes of the target addresses of a name and family.";
        page.single("catamaran_ddns_address_changes_total", counter, help, self.address_changes);
        let help = "Requests that a server did not answer or refused.";
        let mut family = page.family("catamaran_ddns_server_failures_total", counter, help);
        for (index, server) in servers.iter().enumerate() {
            let failures = self.server_failures.get(&index).copied().unwrap_or_default();
            family.series(&[("server", server)], failures);
        }
        let mut family = page.family("catamaran_ddns_probes_total", counter, "Probes for the public address.");
        for ((kind, answered), count) in &self.probes {
            let outcome = if *answered { "answered" } else { "failed" };
            family.series(&[("kind", kind), ("outcome", outcome)], count);
        }
        let help = "Failed writes of the state file.";
        page.single("catamaran_ddns_state_failures_total", counter, help, self.state_failures);
        let help = "Whether the name is up to date, as far as is known.";
        let mut family = page.family("catamaran_ddns_settled", Kind::Gauge, help);
        for (name, status) in machine.name_statuses(now) {
            family.series(&[("name", &name.to_string())], u64::from(status == NameStatus::UpToDate));
        }
        let mut family = page.family("catamaran_ddns_conflict", Kind::Gauge, "Whether the name has foreign records.");
        for (name, status) in machine.name_statuses(now) {
            let is_conflict = matches!(status, NameStatus::Failed(NameError::ForeignRecord(_)));
            family.series(&[("name", &name.to_string())], u64::from(is_conflict));
        }
        let help = "When a server last confirmed the records, in seconds since 1970.";
        let mut family = page.family("catamaran_ddns_confirmed_timestamp_seconds", Kind::Gauge, help);
        for (name, at_s) in machine.confirmed_at_s() {
            family.series(&[("name", &name.to_string())], at_s);
        }
        page.finish()
    }
}

/// The current page.
pub(crate) type SharedPage = Arc<Mutex<String>>;

/// Serves the page to one client at a time, with a time limit for each.
pub(crate) fn serve(listener: &TcpListener, shared_page: &SharedPage) {
    loop {
        match listener.accept() {
            // Errors of a client are ignored.
            Ok((stream, _)) => drop(answer(stream, shared_page)),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                crate::time::sleep_ms(METRICS_MS);
            }
        }
    }
}

fn answer(mut stream: TcpStream, shared_page: &SharedPage) -> io::Result<()> {
    let deadline = Deadline::after_ms(METRICS_MS);
    let mut request = Vec::new();
    let mut part = [0; 512];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > METRICS_REQUEST_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(deadline.remaining().ok_or(ErrorKind::TimedOut)?))?;
        match stream.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => request.extend(&part[..len]),
        }
    }
    let is_known = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
    let page = shared_page.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let (status, page) = if is_known { ("200 OK", page) } else { ("404 Not Found", "see /metrics\n".to_owned()) };
    stream.set_write_timeout(Some(deadline.remaining().ok_or(ErrorKind::TimedOut)?))?;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::machine::Options;
    use crate::state::SavedState;
    use wire::Name;

    fn get(address: std::net::SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        // A server that closes a connection with unread data resets it.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn the_page_is_what_prometheus_reads_and_is_served() {
        let text = "zone = \"example.test\"\nservers = [\"192.0.2.1\"]\nkey_file = \"k\"\n[[name]]\n\
                    name = \"home.example.test\"\n";
        let config = Config::parse(text).unwrap();
        let options = Options { is_dry_run: false, take_over: false, check_period_s: 0, seed: 1 };
        let machine = Machine::new(&config, SavedState::new("example.test."), options);
        let mut counters = Counters::default();
        let name: Name = "home.example.test".parse().unwrap();
        counters.count(&Notice::ServerFailed { server: 0, name, why: String::new() });
        counters.probed("stun", true);
        let page = counters.page(&machine, &["a\"b".to_owned()], Now { ms: 0, unix_s: 0 });
        for line in [
            "# TYPE catamaran_ddns_updates_total counter\ncatamaran_ddns_updates_total 0\n",
            "catamaran_ddns_server_failures_total{server=\"a\\\"b\"} 1\n",
            "catamaran_ddns_probes_total{kind=\"stun\",outcome=\"answered\"} 1\n",
            "catamaran_ddns_settled{name=\"home.example.test.\"} 0\n",
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }

        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared_page = SharedPage::new(Mutex::new(page.clone()));
        // The thread runs until the process exits.
        std::thread::spawn(move || serve(&listener, &shared_page));
        let answer = get(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(&page), "{answer}");
        assert!(get(address, b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        // A client that never finishes its request is dropped, and the next one is served.
        assert_eq!(get(address, &[b'x'; METRICS_REQUEST_BYTES_MAX + 600]), "");
        assert!(get(address, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with(&page));
    }
}
