//! Other answers for an RRset than the kept one.

use super::draft::{Difference, StoredRrset};
use super::report::{Conflict, KeptAnswer, OtherAnswer};
use super::rrset::{Kind, has_same_records};
use crate::limits::OTHER_ANSWERS_MAX;
use wire::number::Rtype;

/// The other answers, in order of arrival.
#[derive(Default)]
pub(super) struct Contradiction {
    /// The largest difference.
    differs: Option<Difference>,
    messages: u64,
    others: Vec<(StoredRrset, u64)>,
    unlisted: u64,
}

impl Contradiction {
    /// Adds an answer that is not kept. Returns whether it is listed as a new one.
    pub(super) fn add(&mut self, rtype: Rtype, differs: Difference, other: StoredRrset) -> bool {
        self.differs = Some(self.differs.map_or(differs, |before| before.min(differs)));
        self.messages += 1;
        let is_same =
            |stored: &StoredRrset| stored.ttl == other.ttl && has_same_records(rtype, &stored.rdatas, &other.rdatas);
        if let Some((_, messages)) = self.others.iter_mut().find(|(stored, _)| is_same(stored)) {
            *messages += 1;
            return false;
        }
        if self.others.len() >= OTHER_ANSWERS_MAX {
            self.unlisted += 1;
            return false;
        }
        self.others.push((other, 1));
        true
    }

    /// The finding for the report.
    pub(super) fn into_conflict(self, zone: String, rrset: String, kind: Kind, kept: Option<&StoredRrset>) -> Conflict {
        let kept_answer = KeptAnswer {
            ttl: kept.map(|kept| kept.ttl),
            records: kept.map(|kept| texts(kind.rtype, kept)).unwrap_or_default(),
        };
        // A later, better source may have said the same as an earlier one.
        let is_kept = |stored: &StoredRrset| {
            kept.is_some_and(|kept| {
                kept.ttl == stored.ttl && has_same_records(kind.rtype, &kept.rdatas, &stored.rdatas)
            })
        };
        let others = self.others.iter().filter(|(stored, _)| !is_kept(stored));
        let others = others
            .map(|(stored, messages)| OtherAnswer {
                ttl: Some(stored.ttl),
                records: texts(kind.rtype, stored),
                messages: *messages,
            })
            .collect();
        let what = if self.differs == Some(Difference::Records) { "records" } else { "ttl" };
        let (messages, others_unlisted) = (self.messages, self.unlisted);
        Conflict { zone, rrset, what, messages, kept: kept_answer, others, others_unlisted }
    }
}

/// Rdata in presentation format.
fn texts(rtype: Rtype, stored: &StoredRrset) -> Vec<String> {
    let text = |rdata: &[u8]| {
        let mut text = String::new();
        zone::text::print_rdata(rtype, rdata, &mut text);
        text
    };
    stored.rdatas.iter().map(|rdata| text(rdata)).collect()
}
