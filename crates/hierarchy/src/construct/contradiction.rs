//! What was said of an RRset besides what is kept.

use super::draft::{Differs, Held};
use super::report::{Conflict, KeptAnswer, OtherAnswer};
use super::rrset::{Kind, has_same_records};
use crate::limits::OTHER_ANSWERS_MAX;
use wire::number::Rtype;

/// Answers that are not kept, in the order in which they came.
#[derive(Default)]
pub(super) struct Contradiction {
    /// The most that one of them differs.
    differs: Option<Differs>,
    messages: u64,
    others: Vec<(Held, u64)>,
    unlisted: u64,
}

impl Contradiction {
    /// Takes an answer that is not kept; says whether it is remembered as a new one.
    pub(super) fn add(&mut self, rtype: Rtype, differs: Differs, other: Held) -> bool {
        self.differs = Some(self.differs.map_or(differs, |before| before.min(differs)));
        self.messages += 1;
        let is_same = |held: &Held| held.ttl == other.ttl && has_same_records(rtype, &held.rdatas, &other.rdatas);
        if let Some((_, messages)) = self.others.iter_mut().find(|(held, _)| is_same(held)) {
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

    /// What is told of it, beside what is kept in the end.
    pub(super) fn told(self, zone: String, rrset: String, kind: Kind, kept: Option<&Held>) -> Conflict {
        let kept_answer = KeptAnswer {
            ttl: kept.map(|kept| kept.ttl),
            records: kept.map(|kept| texts(kind.rtype, kept)).unwrap_or_default(),
        };
        // What was first seen in a worse place may be what a better one said in the end.
        let is_kept = |held: &Held| {
            kept.is_some_and(|kept| kept.ttl == held.ttl && has_same_records(kind.rtype, &kept.rdatas, &held.rdatas))
        };
        let others = self.others.iter().filter(|(held, _)| !is_kept(held));
        let others = others
            .map(|(held, messages)| OtherAnswer {
                ttl: Some(held.ttl),
                records: texts(kind.rtype, held),
                messages: *messages,
            })
            .collect();
        let what = if self.differs == Some(Differs::Records) { "records" } else { "ttl" };
        let (messages, others_unlisted) = (self.messages, self.unlisted);
        Conflict { zone, rrset, what, messages, kept: kept_answer, others, others_unlisted }
    }
}

/// Rdata as zone files have it.
fn texts(rtype: Rtype, held: &Held) -> Vec<String> {
    let text = |rdata: &[u8]| {
        let mut text = String::new();
        zone::text::print_rdata(rtype, rdata, &mut text);
        text
    };
    held.rdatas.iter().map(|rdata| text(rdata)).collect()
}
