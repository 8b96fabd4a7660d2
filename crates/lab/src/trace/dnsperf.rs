//! dnsperf's query files: a name and a type on each line.

use super::{Recorded, TraceError, Transport, read_whole, rtype};
use std::path::Path;
use wire::name::Name;
use wire::number::Rtype;

/// Every query of the file as a plain datagram without EDNS; comment lines are passed over.
///
/// # Errors
/// [`TraceError`] for the file, its compression, or a line that is no query.
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
            // Real query files hold names that cannot be sent; dnsperf passes them over too.
            Err(_) => continue,
        };
        queries.push(Recorded { transport: Transport::Udp, bytes: query(&qname, qtype) });
    }
    Ok(queries)
}

/// A query with ID 0, nothing but the question.
fn query(qname: &Name, qtype: Rtype) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(qname.as_bytes());
    bytes.extend_from_slice(&qtype.0.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes
}
