//! The HTTP API of a node, as its clients use it.

use crate::limits::RESPONSE_BYTES_MAX;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Port of the API of each node.
pub(crate) const API_PORT: u16 = 8053;

/// Gets a path of one node's API. Returns the status code and the body.
pub(crate) fn get(node: Ipv4Addr, path: &str, token: &str, timeout: Duration) -> io::Result<(u16, Vec<u8>)> {
    let deadline = Instant::now() + timeout;
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((node, API_PORT)), timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {node}:{API_PORT}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 65_536]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut piece)? {
            0 => break,
            _ if left.is_zero() || bytes.len() as u64 > RESPONSE_BYTES_MAX => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
    split(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The status code and the whole body.
fn split(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?.to_ascii_lowercase();
    let code = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body = &bytes[end + 4..];
    // A truncated response must not be treated as a short zone.
    (length?.parse() == Ok(body.len())).then(|| (code, body.to_vec()))
}

/// Gets the status of a node.
pub(crate) fn status(node: Ipv4Addr, token: &str) -> Option<Value> {
    let (code, body) = get(node, "/v1/status", token, Duration::from_secs(2)).ok()?;
    (code == 200).then(|| serde_json::from_slice(&body).ok())?
}

/// The contents of a zone on one node.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) serial: u32,
    /// Values by register: the owner and the type.
    pub(crate) records: BTreeMap<String, u32>,
}

/// The consistency that a read needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    /// All updates acknowledged before the read, within this time limit.
    Linearizable(Duration),
    /// The data of the queried node.
    Local,
}

/// Reads a zone.
pub(crate) fn zone(node: Ipv4Addr, zone: &str, token: &str, read: Read) -> Result<Zone, String> {
    let (is_consistent, timeout) = match read {
        Read::Linearizable(timeout) => (true, timeout),
        Read::Local => (false, Duration::from_secs(8)),
    };
    let path = format!("/v1/zone?zone={zone}&consistent={}", u8::from(is_consistent));
    let answer = get(node, &path, token, timeout);
    let (code, body) = answer.map_err(|error| format!("cannot read {zone} of {node}: {error}"))?;
    let text = String::from_utf8_lossy(&body);
    if code != 200 {
        return Err(format!("cannot read {zone} of {node}: {code} {}", text.trim()));
    }
    parse(&text).ok_or_else(|| format!("cannot parse {zone} of {node}"))
}

/// Parses the zone file from the API: one record per line, all names absolute.
fn parse(text: &str) -> Option<Zone> {
    let mut zone = Zone { serial: 0, records: BTreeMap::new() };
    let mut has_end = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [owner, _, _, rtype, rdata @ ..] = words.as_slice() else { return None };
        has_end = true;
        match *rtype {
            "SOA" => zone.serial = rdata.get(2)?.parse().ok()?,
            "A" | "AAAA" if !owner.starts_with("ns.") => {
                let register = format!("{}/{rtype}", owner.trim_end_matches('.'));
                // A register has one record. If it has two, the result is a value that no client writes.
                let value = value_of(rtype, rdata.first()?)?;
                zone.records.entry(register).and_modify(|value| *value = u32::MAX).or_insert(value);
            }
            _ => {}
        }
    }
    has_end.then_some(zone)
}

fn value_of(rtype: &str, rdata: &str) -> Option<u32> {
    match rtype {
        "A" => rdata.parse::<Ipv4Addr>().ok().map(u32::from),
        _ => rdata.parse::<std::net::Ipv6Addr>().ok().map(|address| u128::from(address) as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_parsed_and_a_second_record_is_noticed() {
        let text = "r1.\t60\tIN\tSOA\tns.r1. h.r1. 7 3600 600 86400 60\nns.r1.\t60\tIN\tA\t192.0.2.1\n\
                    c1.r1.\t60\tIN\tA\t0.0.0.9\nc2.r1.\t60\tIN\tAAAA\t2001:db8::1\nc2.r1.\t60\tIN\tAAAA\t2001:db8::2\n";
        let zone = parse(text).unwrap();
        assert_eq!(zone.serial, 7);
        let expected = [("c1.r1/A".to_owned(), 9), ("c2.r1/AAAA".to_owned(), u32::MAX)];
        assert_eq!(zone.records.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_response_that_was_cut_off_is_no_zone() {
        assert_eq!(split(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), Some((200, b"abc".to_vec())));
        assert_eq!(split(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc"), None);
    }
}
