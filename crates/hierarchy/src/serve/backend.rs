//! Real servers instead of the emulation. The queried address still decides which zone answers, and a server under test
//! has that zone.
//!
//! If one server had a zone and its parent, it would answer for both and never send a referral. So there is one server
//! for each level, that is, for the zones with the same number of zones above them.

use super::Transport;
use wire::number::Rcode;
use wire::parse::Header;
use zone::answer::{ALL_LABELS, AnswerKind, ResponseInfo};

/// Access to the servers under test.
pub trait Backend: Send {
    /// Asks the server of a level and writes its answer. Returns the length, or 0 without an answer.
    fn exchange(&mut self, level: usize, transport: Transport, query: &[u8], out: &mut [u8]) -> usize;
}

/// The kind of an answer, from its header.
pub(super) fn answered_of(answer: &[u8]) -> Option<ResponseInfo> {
    let header = Header::parse(answer)?;
    let [_, answers, authority, _] = header.counts;
    let rcode = Rcode(u16::from(header.rcode));
    let kind = match rcode {
        Rcode::NOERROR if answers > 0 => AnswerKind::Positive,
        // RFC 2308 2.2: NS records without AA are a referral.
        Rcode::NOERROR if !header.aa && authority > 0 => AnswerKind::Referral,
        Rcode::NOERROR => AnswerKind::NoData,
        Rcode::NXDOMAIN => AnswerKind::NxDomain,
        Rcode::FORMERR => AnswerKind::FormErr,
        Rcode::NOTIMP => AnswerKind::NotImp,
        Rcode::YXDOMAIN => AnswerKind::YxDomain,
        Rcode::REFUSED => AnswerKind::Refused,
        _ => AnswerKind::ServFail,
    };
    Some(ResponseInfo { len: answer.len(), kind, rcode, truncated: header.tc, common_labels: ALL_LABELS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_recognized_by_their_header() {
        let answer = |flags: [u8; 2], answers: u8, authority: u8| {
            answered_of(&[0, 7, flags[0], flags[1], 0, 1, 0, answers, 0, authority, 0, 0]).unwrap().kind
        };
        assert_eq!(answer([0x84, 0], 1, 0), AnswerKind::Positive);
        assert_eq!(answer([0x80, 0], 0, 2), AnswerKind::Referral);
        assert_eq!(answer([0x84, 0], 0, 1), AnswerKind::NoData);
        assert_eq!(answer([0x84, 3], 0, 1), AnswerKind::NxDomain);
        assert_eq!(answer([0x80, 5], 0, 0), AnswerKind::Refused);
        assert_eq!(answer([0x80, 2], 0, 0), AnswerKind::ServFail);
        assert!(answered_of(&[0, 7, 0x86, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap().truncated);
        assert!(answered_of(&[0; 11]).is_none());
    }
}
