//! Server cookies (RFC 7873 5.3): learned from an answer, and sent with the next query.

use crate::limits::QUERY_BYTES_MAX;
use wire::limits::{HEADER_BYTES, NAME_BYTES_MAX};

/// The type OPT and the option COOKIE (RFC 6891 6.1.1, RFC 7873 4).
const OPT: u16 = 41;
const COOKIE: u16 = 10;
/// Bytes of the client cookie (RFC 7873 4.1), and of client and server cookie together (4.2).
const CLIENT_BYTES: usize = 8;
const BOTH_BYTES: std::ops::RangeInclusive<usize> = CLIENT_BYTES + 8..=CLIENT_BYTES + 32;

/// Client and server cookie of an answer. `None` if it has no server cookie.
pub(crate) fn learned(answer: &[u8]) -> Option<&[u8]> {
    let at = cookie_option(answer)?;
    let bytes = usize::from(u16_at(answer, at + 2)?);
    answer.get(at + 4..at + 4 + bytes).filter(|both| BOTH_BYTES.contains(&both.len()))
}

/// Adds the server cookie to the query in the first `length` bytes of `out`. Returns the new length. Does not change a
/// query without a client cookie, or with a different one.
pub(super) fn add(out: &mut [u8], length: usize, both: &[u8]) -> usize {
    let Some((opt, at)) = opt_rdata(&out[..length]).zip(cookie_option(&out[..length])) else { return length };
    let client = at + 4..at + 4 + CLIENT_BYTES;
    let is_ours =
        u16_at(out, at + 2) == Some(CLIENT_BYTES as u16) && out.get(client.clone()) == both.get(..CLIENT_BYTES);
    let Some(server) = both.get(CLIENT_BYTES..).filter(|_| is_ours) else { return length };
    let longer = length + server.len();
    let (Some(rdlength), true) = (u16_at(out, opt), longer <= out.len().min(QUERY_BYTES_MAX)) else { return length };
    out.copy_within(client.end..length, client.end + server.len());
    out[client.end..client.end + server.len()].copy_from_slice(server);
    out[at + 2..at + 4].copy_from_slice(&(both.len() as u16).to_be_bytes());
    out[opt..opt + 2].copy_from_slice(&(rdlength + server.len() as u16).to_be_bytes());
    longer
}

fn u16_at(message: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?))
}

/// Offset of the COOKIE option.
fn cookie_option(message: &[u8]) -> Option<usize> {
    let start = opt_rdata(message)?;
    let (mut at, end) = (start + 2, start + 2 + usize::from(u16_at(message, start)?));
    message.get(..end)?;
    while at < end {
        if u16_at(message, at)? == COOKIE {
            return Some(at);
        }
        at += 4 + usize::from(u16_at(message, at + 2)?);
    }
    None
}

/// Offset of the rdata length of the OPT record.
fn opt_rdata(message: &[u8]) -> Option<usize> {
    let counts = [4, 6, 8, 10].map(|at| u16_at(message, at));
    let mut at = HEADER_BYTES;
    for _ in 0..counts[0]? {
        at = name_end(message, at)? + 4;
    }
    for _ in 0..u32::from(counts[1]?) + u32::from(counts[2]?) + u32::from(counts[3]?) {
        let fixed = name_end(message, at)?;
        if u16_at(message, fixed)? == OPT {
            return Some(fixed + 8);
        }
        at = fixed + 10 + usize::from(u16_at(message, fixed + 8)?);
    }
    None
}

/// Offset of the end of a name, which may be compressed.
fn name_end(message: &[u8], mut at: usize) -> Option<usize> {
    let start = at;
    while at - start <= NAME_BYTES_MAX {
        match *message.get(at)? {
            0 => return Some(at + 1),
            0xC0.. => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Extras;
    use wire::name::Name;
    use wire::number::Rtype;

    fn query(cookie: Option<[u8; 8]>) -> Vec<u8> {
        let extras = Extras { cookie, subnet: Some(("192.0.2.0".parse().unwrap(), 24)), ..Extras::default() };
        let extras = Extras { options: vec![(65_001, vec![9; 5])], ..extras };
        extras.query("www.example.".parse::<Name>().unwrap().as_ref(), Rtype::A).unwrap()
    }

    /// The query with a server cookie.
    fn with(query: &[u8], both: &[u8]) -> Vec<u8> {
        let mut out = [0; QUERY_BYTES_MAX];
        out[..query.len()].copy_from_slice(query);
        let length = add(&mut out, query.len(), both);
        out[..length].to_vec()
    }

    #[test]
    fn a_learned_cookie_is_sent() {
        let plain = query(Some([7; 8]));
        assert_eq!(learned(&plain), None);
        let both = [[7; 8], [1; 8], [2; 8]].concat();
        let longer = with(&plain, &both);
        assert_eq!((longer.len(), learned(&longer)), (plain.len() + 16, Some(&both[..])));
        // Later options are unchanged: an independent parser finds all of them.
        let message = domain::base::Message::from_slice(&longer).unwrap();
        let options: Vec<_> = message.opt().unwrap().opt().iter::<domain::base::opt::UnknownOptData<_>>().collect();
        let codes: Vec<u16> = options.iter().map(|option| option.as_ref().unwrap().code().to_int()).collect();
        assert_eq!(codes, [8, 10, 65_001]);
    }

    #[test]
    fn queries_without_the_cookie_of_this_client_are_unchanged() {
        let both = [[7; 8], [1; 8]].concat();
        for query in [query(None), query(Some([8; 8])), with(&query(Some([7; 8])), &both), vec![0; 12], vec![0; 3]] {
            assert_eq!(with(&query, &both), query);
        }
        for cut in 0..query(Some([7; 8])).len() {
            let cut = &query(Some([7; 8]))[..cut];
            assert_eq!((with(cut, &both).len(), learned(cut)), (cut.len(), None));
        }
    }
}
