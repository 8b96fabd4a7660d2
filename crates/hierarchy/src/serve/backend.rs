//! Real servers in place of what is emulated: an address still decides which zone answers, and a server under test has
//! that zone.
//!
//! A server that had a zone and one above it would answer for both, where two servers refer from one to the other. So
//! there is one server for each level: the zones that have the same number of zones above them.

use super::Transport;
use wire::number::Rcode;
use wire::parse::Header;
use zone::answer::{ALL_LABELS, AnswerKind, Answered};

/// A way to the servers under test.
pub trait Backend: Send {
    /// Asks the server of a level, and writes its answer; gives its bytes, 0 if there is none.
    fn exchange(&mut self, level: usize, transport: Transport, query: &[u8], out: &mut [u8]) -> usize;
}

/// What an answer is, by its header.
pub(super) fn told(answer: &[u8]) -> Option<Answered> {
    let header = Header::parse(answer)?;
    let [_, answers, authority, _] = header.counts;
    let rcode = Rcode(u16::from(header.rcode));
    let kind = match rcode {
        Rcode::NOERROR if answers > 0 => AnswerKind::Positive,
        // RFC 2308 2.2: without AA, and with NS records, it refers.
        Rcode::NOERROR if !header.aa && authority > 0 => AnswerKind::Referral,
        Rcode::NOERROR => AnswerKind::NoData,
        Rcode::NXDOMAIN => AnswerKind::NxDomain,
        Rcode::FORMERR => AnswerKind::FormErr,
        Rcode::NOTIMP => AnswerKind::NotImp,
        Rcode::YXDOMAIN => AnswerKind::YxDomain,
        Rcode::REFUSED => AnswerKind::Refused,
        _ => AnswerKind::ServFail,
    };
    Some(Answered { len: answer.len(), kind, rcode, truncated: header.tc, common_labels: ALL_LABELS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_header() {
        let answer = |flags: [u8; 2], answers: u8, authority: u8| {
            told(&[0, 7, flags[0], flags[1], 0, 1, 0, answers, 0, authority, 0, 0]).unwrap().kind
        };
        assert_eq!(answer([0x84, 0], 1, 0), AnswerKind::Positive);
        assert_eq!(answer([0x80, 0], 0, 2), AnswerKind::Referral);
        assert_eq!(answer([0x84, 0], 0, 1), AnswerKind::NoData);
        assert_eq!(answer([0x84, 3], 0, 1), AnswerKind::NxDomain);
        assert_eq!(answer([0x80, 5], 0, 0), AnswerKind::Refused);
        assert_eq!(answer([0x80, 2], 0, 0), AnswerKind::ServFail);
        assert!(told(&[0, 7, 0x86, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap().truncated);
        assert!(told(&[0; 11]).is_none());
    }
}
