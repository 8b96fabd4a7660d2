//! Reads a Prometheus endpoint over HTTP.

use super::reading::Reading;
use crate::limits::{METRICS_BODY_BYTES_MAX, METRICS_TIMEOUT_MS};
use report::limits::METRICS_MAX;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    path: String,
}

impl Endpoint {
    /// Parses `http://127.0.0.1:8054/metrics`. The host must be an address, so that no name is resolved.
    pub(super) fn new(url: &str) -> Option<Self> {
        let (address, path) = url.strip_prefix("http://")?.split_once('/')?;
        let address = address.parse().ok().or_else(|| Some(SocketAddr::new(address.parse().ok()?, 80)))?;
        Some(Self { address, path: format!("/{path}") })
    }

    pub(super) fn read(&self) -> io::Result<Reading> {
        let patience = Duration::from_millis(METRICS_TIMEOUT_MS);
        let mut stream = TcpStream::connect_timeout(&self.address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        // With HTTP/1.0, the body ends with the connection and has no chunks.
        let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\nAccept: text/plain\r\n\r\n", self.path, self.address);
        stream.write_all(request.as_bytes())?;
        let mut bytes = Vec::new();
        stream.take(METRICS_BODY_BYTES_MAX).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("no HTTP response"))?;
        let status = head.split_ascii_whitespace().nth(1).unwrap_or_default();
        if status != "200" {
            return Err(io::Error::other(format!("HTTP status {status}")));
        }
        Ok(Reading { metrics: parse(body), ..Reading::default() })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.path)
    }
}

/// Parses the text format: name with labels, number and optional time. Keeps the first [`METRICS_MAX`], without
/// histogram buckets.
fn parse(body: &str) -> BTreeMap<String, f64> {
    let lines = body.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{"));
    let pair = |line: &str| {
        // Labels may hold spaces, so the name ends at the closing brace if there is one.
        let end = line.rfind('}').map_or_else(|| line.find(' '), |at| Some(at + 1))?;
        let value: f64 = line[end..].split_ascii_whitespace().next()?.parse().ok()?;
        value.is_finite().then(|| (line[..end].to_owned(), value))
    };
    lines.filter_map(pair).take(METRICS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_text_format_is_read() {
        let body = "# HELP queries Queries.\nqueries_total{transport=\"udp\",note=\"a b\"} 12\nup 1 1700000000\n\
                    lag_bucket{le=\"1\"} 3\nnothing NaN\nbroken\n";
        let metrics = parse(body);
        let pairs: Vec<_> = metrics.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(pairs, [("queries_total{transport=\"udp\",note=\"a b\"}", 12.0), ("up", 1.0)]);
    }

    #[test]
    fn an_endpoint_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::new(&format!("http://{}/metrics", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            for response in ["HTTP/1.1 200 OK\r\n\r\nup 1\n", "HTTP/1.1 404 Not Found\r\n\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 512];
                let len = stream.read(&mut request).unwrap();
                assert!(request[..len].starts_with(b"GET /metrics HTTP/1.0\r\n"));
                stream.write_all(response.as_bytes()).unwrap();
            }
        });
        assert_eq!(endpoint.read().unwrap().metrics["up"], 1.0);
        assert_eq!(endpoint.read().unwrap_err().to_string(), "HTTP status 404");
        server.join().unwrap();
    }
}
