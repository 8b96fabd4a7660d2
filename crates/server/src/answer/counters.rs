//! Counters of messages. Each worker has its own; they are summed when `/metrics` is read.

use crate::listen::Transport;
use crate::metrics::Counter;
use metrics_text::{Kind, Page};
use std::sync::Arc;
use tsig::TsigReject;
use wire::compose::ede;
use wire::number::Rcode;
use wire::parse::{DropReason, RejectReason};
use zone::answer::{AnswerKind, ResponseInfo};

/// RCODEs with their own counter; the last counter is for all others.
const RCODES: [(u16, &str); 17] = [
    (0, "noerror"),
    (1, "formerr"),
    (2, "servfail"),
    (3, "nxdomain"),
    (4, "notimp"),
    (5, "refused"),
    (6, "yxdomain"),
    (7, "yxrrset"),
    (8, "nxrrset"),
    (9, "notauth"),
    (10, "notzone"),
    (16, "badvers"),
    (17, "badkey"),
    (18, "badtime"),
    (22, "badtrunc"),
    (23, "badcookie"),
    (u16::MAX, "other"),
];

/// The outcomes of queries.
const KINDS: [AnswerKind; 12] = [
    AnswerKind::Positive,
    AnswerKind::NoData,
    AnswerKind::NxDomain,
    AnswerKind::Referral,
    AnswerKind::Alias,
    AnswerKind::YxDomain,
    AnswerKind::Refused,
    AnswerKind::ServFail,
    AnswerKind::FormErr,
    AnswerKind::NotImp,
    AnswerKind::CookieOnly,
    AnswerKind::Chaos,
];

/// Why the server refuses a well-formed request. If the request is signed, its signature is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The class of an UPDATE is not IN, or this server does not have its zone: NOTAUTH.
    ZoneUnknown,
    /// An UPDATE without TSIG: REFUSED.
    Unsigned,
    /// The key has no right to do this in the zone: REFUSED.
    NotGranted,
    /// The zone is signed elsewhere; an update would make it bogus: REFUSED.
    Presigned,
    /// The node has not caught up: SERVFAIL.
    NotServing,
    /// The zone to be transferred has expired: SERVFAIL.
    Expired,
    /// The zone to be transferred needs a lease that the node does not have: SERVFAIL.
    CutOff,
    /// The prescan found an error: its RCODE (RFC 2136 3.4.1).
    Prescan,
    /// The queue for the update threads, or for the replica, is full: SERVFAIL.
    QueueFull,
    /// The queue for updates is half full, and this key has used its share in this zone: SERVFAIL.
    ShareTaken,
    /// Too many transfers run: SERVFAIL.
    TransfersMax,
}

/// Why a request is refused.
#[derive(Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) rcode: Rcode,
    pub(crate) reason: Refusal,
}

impl Refusal {
    pub(crate) const ALL: [Self; 11] = [
        Self::ZoneUnknown,
        Self::Unsigned,
        Self::NotGranted,
        Self::Presigned,
        Self::NotServing,
        Self::Expired,
        Self::CutOff,
        Self::Prescan,
        Self::QueueFull,
        Self::ShareTaken,
        Self::TransfersMax,
    ];

    /// The extended error that goes with it (RFC 8914 4).
    pub(crate) const fn extended(self) -> Option<u16> {
        match self {
            Self::ZoneUnknown => Some(ede::NOT_AUTHORITATIVE),
            Self::Unsigned | Self::NotGranted | Self::Presigned => Some(ede::PROHIBITED),
            Self::NotServing | Self::CutOff => Some(ede::NOT_READY),
            Self::Expired => Some(ede::INVALID_DATA),
            Self::Prescan | Self::QueueFull | Self::ShareTaken | Self::TransfersMax => None,
        }
    }

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::ZoneUnknown => "zone_unknown",
            Self::Unsigned => "unsigned",
            Self::NotGranted => "not_granted",
            Self::Presigned => "presigned",
            Self::NotServing => "not_serving",
            Self::Expired => "expired",
            Self::CutOff => "cut_off",
            Self::Prescan => "prescan",
            Self::QueueFull => "queue_full",
            Self::ShareTaken => "share_taken",
            Self::TransfersMax => "transfers_max",
        }
    }
}

/// How an update ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UpdateEnd {
    /// Answered NOERROR.
    Done,
    /// Answered another RCODE that is as durable as a success.
    Failed,
    /// A replay from another address, or too late: BADTIME.
    BadTime,
    /// Certainly not executed: SERVFAIL.
    NotProposed,
    /// The outcome is unknown: no response.
    Unknown,
}

impl UpdateEnd {
    pub(crate) const ALL: [Self; 5] = [Self::Done, Self::Failed, Self::BadTime, Self::NotProposed, Self::Unknown];

    const fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::BadTime => "bad_time",
            Self::NotProposed => "not_proposed",
            Self::Unknown => "unknown",
        }
    }
}

/// What the server sent instead of a response over the rate limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LimitAction {
    /// A response with TC.
    Truncated,
    /// BADCOOKIE.
    BadCookie,
    /// The same error, without options.
    Shortened,
    /// Nothing.
    Dropped,
}

impl LimitAction {
    pub(crate) const ALL: [Self; 4] = [Self::Truncated, Self::BadCookie, Self::Shortened, Self::Dropped];

    const fn label(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::BadCookie => "badcookie",
            Self::Shortened => "shortened",
            Self::Dropped => "dropped",
        }
    }
}

/// One worker's counters; alone on its cache lines.
#[derive(Default, Debug)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    pub(crate) received: Counter,
    pub(crate) queued: Counter,
    pub(crate) truncated: Counter,
    drops: [Counter; DropReason::ALL.len()],
    rejects: [Counter; RejectReason::ALL.len()],
    tsig: [Counter; TsigReject::ALL.len()],
    refusals: [Counter; Refusal::ALL.len()],
    updates: [Counter; UpdateEnd::ALL.len()],
    rcodes: [Counter; RCODES.len()],
    kinds: [Counter; KINDS.len()],
    limited: [Counter; LimitAction::ALL.len()],
}

impl WorkerCounters {
    pub(crate) fn drop_for(&self, reason: DropReason) {
        self.drops[reason as usize].one();
    }

    pub(crate) fn reject_for(&self, reason: RejectReason) {
        self.rejects[reason as usize].one();
    }

    pub(crate) fn tsig_reject_for(&self, reason: TsigReject) {
        self.tsig[reason as usize].one();
    }

    pub(crate) fn refuse_for(&self, reason: Refusal) {
        self.refusals[reason as usize].one();
    }

    pub(crate) fn update_ended(&self, end: UpdateEnd) {
        self.updates[end as usize].one();
    }

    pub(crate) fn response(&self, rcode: Rcode) {
        let index = RCODES.iter().position(|(number, _)| *number == rcode.0).unwrap_or(RCODES.len() - 1);
        self.rcodes[index].one();
    }

    pub(crate) fn limited(&self, how: LimitAction) {
        self.limited[how as usize].one();
    }

    /// Counts an answer that is sent.
    pub(crate) fn answered(&self, answered: &ResponseInfo) {
        self.response(answered.rcode);
        self.answer(answered.kind);
        if answered.truncated {
            self.truncated.one();
        }
    }

    fn answer(&self, kind: AnswerKind) {
        if let Some(index) = KINDS.iter().position(|known| *known == kind) {
            self.kinds[index].one();
        }
    }
}

/// The counters of one update thread, for each transport of the requests.
#[derive(Clone, Default, Debug)]
pub(crate) struct UpdateCounters([Arc<WorkerCounters>; Transport::ALL.len()]);

impl UpdateCounters {
    pub(crate) const fn of(&self, transport: Transport) -> &Arc<WorkerCounters> {
        &self.0[transport as usize]
    }
}

/// The counters of all workers of one transport.
#[derive(Clone, Debug)]
pub(crate) struct TransportCounters {
    /// Its name.
    pub(crate) transport: &'static str,
    pub(crate) workers: Vec<Arc<WorkerCounters>>,
}

/// Writes the families of all workers.
pub(crate) fn write(page: &mut Page, transports: &[TransportCounters]) {
    let mut family = page.family("catamaran_requests_total", Kind::Counter, "Messages received.");
    for of in transports {
        family.series(&[("transport", of.transport)], of.sum(|w| &w.received));
    }
    let mut family =
        page.family("catamaran_update_queue_total", Kind::Counter, "Messages passed to the update threads.");
    for of in transports {
        family.series(&[("transport", of.transport)], of.sum(|w| &w.queued));
    }
    let mut family = page.family("catamaran_truncated_total", Kind::Counter, "Responses with TC.");
    for of in transports {
        family.series(&[("transport", of.transport)], of.sum(|w| &w.truncated));
    }
    let mut family = page.family("catamaran_responses_total", Kind::Counter, "Responses by RCODE.");
    for of in transports {
        for (index, (_, label)) in RCODES.iter().enumerate() {
            family.series(&[("transport", of.transport), ("rcode", label)], of.sum(|w| &w.rcodes[index]));
        }
    }
    let mut family = page.family("catamaran_answers_total", Kind::Counter, "Answers to queries by outcome.");
    for of in transports {
        for (index, kind) in KINDS.iter().enumerate() {
            family.series(&[("transport", of.transport), ("kind", kind.label())], of.sum(|w| &w.kinds[index]));
        }
    }
    write_reasons(page, transports);
}

fn write_reasons(page: &mut Page, transports: &[TransportCounters]) {
    let mut family = page.family("catamaran_drops_total", Kind::Counter, "Messages without a response, by reason.");
    for of in transports {
        for reason in DropReason::ALL {
            let count = of.sum(|w| &w.drops[*reason as usize]);
            family.series(&[("transport", of.transport), ("reason", reason.label())], count);
        }
    }
    let mut family =
        page.family("catamaran_rejects_total", Kind::Counter, "Messages refused with an error, by reason.");
    for of in transports {
        let wire = RejectReason::ALL.iter().map(|reason| (reason.label(), of.sum(|w| &w.rejects[*reason as usize])));
        let tsig = TsigReject::ALL.iter().map(|reason| (reason.label(), of.sum(|w| &w.tsig[*reason as usize])));
        let policy = Refusal::ALL.iter().map(|reason| (reason.label(), of.sum(|w| &w.refusals[*reason as usize])));
        // Two enums may have the same label, which is one series.
        let mut sums = std::collections::BTreeMap::new();
        for (label, count) in wire.chain(tsig).chain(policy) {
            *sums.entry(label).or_insert(0) += count;
        }
        for (label, count) in sums {
            family.series(&[("transport", of.transport), ("reason", label)], count);
        }
    }
    let mut family = page.family(
        "catamaran_rate_limited_total",
        Kind::Counter,
        "Responses over the rate limit, by what was sent instead.",
    );
    for of in transports {
        for how in LimitAction::ALL {
            family
                .series(&[("transport", of.transport), ("instead", how.label())], of.sum(|w| &w.limited[how as usize]));
        }
    }
    let mut family = page.family("catamaran_updates_total", Kind::Counter, "Updates by how they ended.");
    for end in UpdateEnd::ALL {
        let count: u64 = transports.iter().map(|of| of.sum(|w| &w.updates[end as usize])).sum();
        family.series(&[("end", end.label())], count);
    }
}

impl TransportCounters {
    fn sum(&self, counter: impl Fn(&WorkerCounters) -> &Counter) -> u64 {
        self.workers.iter().map(|worker| counter(worker).get()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_reason_has_its_own_counter() {
        let worker = Arc::new(WorkerCounters::default());
        KINDS.iter().for_each(|kind| worker.answer(*kind));
        DropReason::ALL.iter().for_each(|reason| worker.drop_for(*reason));
        RejectReason::ALL.iter().for_each(|reason| worker.reject_for(*reason));
        TsigReject::ALL.iter().for_each(|reason| worker.tsig_reject_for(*reason));
        Refusal::ALL.iter().for_each(|reason| worker.refuse_for(*reason));
        UpdateEnd::ALL.iter().for_each(|end| worker.update_ended(*end));
        LimitAction::ALL.iter().for_each(|how| worker.limited(*how));
        for rcode in 0..=24 {
            worker.response(Rcode(rcode));
        }
        let mut page = Page::default();
        write(&mut page, &[TransportCounters { transport: "udp", workers: vec![worker.clone(), worker] }]);
        let text = page.finish();
        assert!(text.contains("catamaran_responses_total{transport=\"udp\",rcode=\"badvers\"} 2\n"), "{text}");
        assert!(text.contains("rcode=\"other\"} 18\n"), "{text}");
        assert!(text.contains("catamaran_rejects_total{transport=\"udp\",reason=\"tsig_malformed\"} 4\n"), "{text}");
        let has_kinds = |line: &&str| ["reason=", "kind=", "end=", "instead="].iter().any(|key| line.contains(key));
        for line in text.lines().filter(has_kinds) {
            assert!(!line.ends_with(" 0"), "{line}");
        }
    }
}
