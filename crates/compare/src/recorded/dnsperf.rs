//! Query files of dnsperf: a name and a type on each line.

use super::file::{Recorded, TraceError, read_whole};
use std::path::Path;
use trace::{Transport, rtype};
use wire::name::Name;
use wire::number::Rtype;

/// Reads every query as a UDP message without EDNS. Comment lines are skipped.
///
/// # Errors
/// [`TraceError`] if the file cannot be read or decompressed, or if a line is not a query.
pub fn read_dnsperf(path: &Path) -> Result<Vec<Recorded>, TraceError> {
    let bytes = read_whole(path)?;
    let mut queries = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let Some(qname) = words.next().filter(|word| !word.starts_with([';', '#'])) else { continue };
        let wrong = |what: &str| TraceError::Format("dnsperf", format!("line {}: {what}: {line}", index + 1));
        let qtype = words.next().and_then(rtype).ok_or_else(|| wrong("no known type"))?;
        let qname: Name = match qname.parse() {
            Ok(qname) => qname,
            // Real query files have names that cannot be sent. dnsperf skips them too.
            Err(_) => continue,
        };
        queries.push(Recorded { transport: Transport::Udp, bytes: query(&qname, qtype) });
    }
    Ok(queries)
}

/// A query with ID 0, the question and nothing else.
fn query(qname: &Name, qtype: Rtype) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(qname.as_bytes());
    bytes.extend_from_slice(&qtype.0.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes
}
