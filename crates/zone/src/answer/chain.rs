//! The answer section: from the name that was asked for along its aliases, as long as they stay in the zone.

use super::sections::Signed;
use super::{ALL_LABELS, AnswerKind};
use crate::denial::Proofs;
use crate::key;
use crate::limits::CHAIN_MAX;
use crate::lookup::{Outcome, Source, lookup_key};
use crate::set::Zone;
use crate::vertex::{RrsetRef, Vertex};
use store::{Key, Path, Trail};
use wire::compose::{Composer, Full};
use wire::limits::NAME_BYTES_MAX;
use wire::name::NameRef;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{FirstQuestion, NameBuf, Section};

/// Writes the sections of one response.
pub(super) struct Responder<'r, 'b, 'a> {
    pub(super) composer: &'r mut Composer<'b>,
    pub(super) zone: Zone<'a>,
    pub(super) question: FirstQuestion<'r>,
    /// DO: signatures and proofs are wanted.
    pub(super) dnssec_ok: bool,
    /// What proves that the zone says no more than it does.
    pub(super) proofs: Option<Proofs<'a>>,
    /// The names behind aliases, once there is one.
    names: Option<Names<'a>>,
    /// See [`super::Answered::common_labels`].
    common_labels: usize,
}

/// The names that the chain has come to, after that of the question.
struct Names<'a> {
    count: usize,
    names: [NameBuf; CHAIN_MAX],
    /// DNAME RRsets that are in the answer: one may redirect more than once.
    redirects: [Option<RrsetRef<'a>>; CHAIN_MAX],
}

/// Where the chain ended.
pub(super) enum End<'a> {
    /// At what the zone says about its last name.
    Outcome(Outcome<'a>),
    /// Out of the zone, in a circle, at the bound, or at a CNAME that a DNAME made and that was asked for.
    Alias,
    /// At a DNAME whose target is too long (RFC 6672 2.2).
    TooLong,
}

impl<'r, 'b, 'a> Responder<'r, 'b, 'a> {
    pub(super) const fn new(
        composer: &'r mut Composer<'b>,
        zone: Zone<'a>,
        question: FirstQuestion<'r>,
        dnssec_ok: bool,
    ) -> Self {
        Self { composer, zone, question, dnssec_ok, proofs: None, names: None, common_labels: ALL_LABELS }
    }

    /// Writes all sections; gives what it was, and how many labels all names with this answer share.
    pub(super) fn respond(&mut self, qkey: &mut Key, trail: &Trail, path: &mut Path<'a>) -> (AnswerKind, usize) {
        let kind = self.write(qkey, trail, path);
        (kind, self.common_labels)
    }

    fn write(&mut self, qkey: &mut Key, trail: &Trail, path: &mut Path<'a>) -> AnswerKind {
        let Ok(end) = self.follow(qkey, trail, path) else {
            self.composer.truncate_all();
            return match self.composer.rcode() {
                Rcode::YXDOMAIN => AnswerKind::YxDomain,
                _ if self.names.is_some() => AnswerKind::Alias,
                _ => AnswerKind::Positive,
            };
        };
        let kind = match &end {
            End::Outcome(outcome) => kind_of(outcome),
            End::Alias => AnswerKind::Alias,
            End::TooLong => AnswerKind::YxDomain,
        };
        match kind {
            // RFC 2308 2.1, RFC 6604 3: the RCODE is about the last name of a chain.
            AnswerKind::NxDomain => self.composer.set_rcode(Rcode::NXDOMAIN),
            // RFC 1035 4.1.1: AA is about the first name; that of a mere referral is not ours.
            AnswerKind::Referral if self.names.is_none() => self.composer.set_aa(false),
            _ => {}
        }
        if self.close(&end).is_err() {
            self.composer.truncate_all();
            return kind;
        }
        self.extend(&end);
        kind
    }

    /// Fills the answer section; `trail` is that of the question's name.
    fn follow(&mut self, qkey: &mut Key, trail: &Trail, path: &mut Path<'a>) -> Result<End<'a>, Full> {
        let qtype = self.question.qtype;
        for place in 0..=CHAIN_MAX {
            let outcome = {
                let qname = current(&self.names, &self.question);
                if place == 0 {
                    lookup_key(&self.zone, qname, qkey, qtype, trail, path)
                } else {
                    key::write(qname, qkey);
                    let trail = self.zone.store().trail(self.zone.names(), qkey);
                    lookup_key(&self.zone, qname, qkey, qtype, &trail, path)
                }
            };
            if place == 0 {
                self.common_labels = common_labels(&outcome, &self.zone);
            }
            let goes_on = match outcome {
                Outcome::Positive { ref rrset, source } => {
                    self.push_positive(rrset, source)?;
                    return Ok(End::Outcome(outcome));
                }
                Outcome::Alias { .. } | Outcome::Redirect { .. } if place == CHAIN_MAX => break,
                Outcome::Alias { ref rrset, source } => {
                    self.push_answer(rrset, source)?;
                    let target = rrset.first().and_then(|rdata| NameRef::from_octets(rdata).ok());
                    target.is_some_and(|target| self.go_to(NameBuf::from(target)))
                }
                Outcome::Redirect { ref vertex, ref rrset } => match self.redirect(vertex, rrset)? {
                    // The CNAME that was made is what was asked for (RFC 1034 4.3.2, step 3a).
                    Some(_) if qtype == Rtype::CNAME => break,
                    Some(target) => self.go_to(target),
                    None => return Ok(End::TooLong),
                },
                _ => return Ok(End::Outcome(outcome)),
            };
            if !goes_on {
                break;
            }
        }
        Ok(End::Alias)
    }

    /// The name that the chain has come to.
    pub(super) fn qname(&self) -> NameRef<'_> {
        current(&self.names, &self.question)
    }

    /// Puts in what was asked for: an RRset, or for QTYPE RRSIG the signatures of one.
    fn push_positive(&mut self, rrset: &RrsetRef<'a>, source: Source) -> Result<(), Full> {
        // A DNAME that was asked for may be in the answer already, as what led to itself.
        if self.names.as_ref().is_some_and(|names| names.has_redirect(rrset)) {
            return Ok(());
        }
        if self.question.qtype != Rtype::RRSIG {
            return self.push_answer(rrset, source);
        }
        let (qname, ttl) = (current(&self.names, &self.question), rrset.rrsig_ttl);
        self.composer.push_rrset(Section::Answer, qname, Rtype::RRSIG, Class::IN, ttl, rrset.rrsigs())?;
        self.prove_synthesis(source);
        Ok(())
    }

    /// Puts the RRset of the current name in, which is its own or synthesised from a wildcard.
    fn push_answer(&mut self, rrset: &RrsetRef<'a>, source: Source) -> Result<(), Full> {
        let qname = current(&self.names, &self.question);
        let signed = Signed { owner: qname, rrset, ttl_max: u32::MAX, dnssec_ok: self.dnssec_ok };
        signed.push(self.composer, Section::Answer)?;
        self.prove_synthesis(source);
        Ok(())
    }

    /// Notes the proof that the current name does not exist, when what stands for it is a wildcard.
    fn prove_synthesis(&mut self, source: Source) {
        let qname = current(&self.names, &self.question);
        if let Source::Wildcard { encloser_labels } = source
            && self.dnssec_ok
        {
            let proofs = self.proofs.get_or_insert_with(|| Proofs::new(&self.zone));
            proofs.wildcard_answer(&self.zone, qname, encloser_labels);
        }
    }

    /// Puts a DNAME in and the CNAME that it makes for the current name (RFC 6672 3.1); `None` when its target is too
    /// long, which the RCODE says also when the DNAME does not fit.
    fn redirect(&mut self, vertex: &Vertex<'a>, rrset: &RrsetRef<'a>) -> Result<Option<NameBuf>, Full> {
        let target = rrset.first().and_then(|rdata| NameRef::from_octets(rdata).ok());
        let target = target.and_then(|target| substitute(current(&self.names, &self.question), vertex.owner(), target));
        if target.is_none() {
            self.composer.set_rcode(Rcode::YXDOMAIN);
        }
        let names = self.names.get_or_insert_with(Names::new);
        if !names.has_redirect(rrset) {
            names.redirects[names.count] = Some(*rrset);
            let signed = Signed { owner: vertex.owner(), rrset, ttl_max: u32::MAX, dnssec_ok: self.dnssec_ok };
            signed.push(self.composer, Section::Answer)?;
        }
        let Some(target) = target else { return Ok(None) };
        let qname = current(&self.names, &self.question);
        // RFC 6672 3.1: the CNAME has the TTL of the DNAME. It is not signed: whoever validates makes it again.
        let rdatas = [target.as_bytes()];
        self.composer.push_rrset(Section::Answer, qname, Rtype::CNAME, Class::IN, rrset.ttl, rdatas)?;
        Ok(Some(target))
    }

    /// Goes on with another name; false when the chain ends there.
    fn go_to(&mut self, target: NameBuf) -> bool {
        let names = self.names.get_or_insert_with(Names::new);
        let is_known = target.as_ref() == self.question.qname || names.names[..names.count].contains(&target);
        if is_known || names.count == CHAIN_MAX || !target.as_ref().is_at_or_below(self.zone.apex()) {
            return false;
        }
        names.names[names.count] = target;
        names.count += 1;
        true
    }
}

impl Names<'_> {
    /// Whether a DNAME RRset is in the answer.
    fn has_redirect(&self, rrset: &RrsetRef<'_>) -> bool {
        self.redirects.iter().flatten().any(|known| known.is_same(rrset))
    }

    const fn new() -> Self {
        Self { count: 0, names: [const { NameBuf::root() }; CHAIN_MAX], redirects: [None; CHAIN_MAX] }
    }
}

/// The last name of the chain.
fn current<'n>(names: &'n Option<Names<'_>>, question: &FirstQuestion<'n>) -> NameRef<'n> {
    match names {
        Some(Names { count: count @ 1.., names, .. }) => names[count - 1].as_ref(),
        _ => question.qname,
    }
}

/// `name` with its ending `owner` replaced by `target` (RFC 6672 2.2); `None` when that is too long.
fn substitute(name: NameRef<'_>, owner: NameRef<'_>, target: NameRef<'_>) -> Option<NameBuf> {
    let kept = name.as_bytes().len().checked_sub(owner.as_bytes().len())?;
    let mut bytes = [0; NAME_BYTES_MAX];
    let bytes = bytes.get_mut(..kept + target.as_bytes().len())?;
    bytes[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    bytes[kept..].copy_from_slice(target.as_bytes());
    NameRef::from_octets(bytes).ok().map(NameBuf::from)
}

const fn kind_of(outcome: &Outcome<'_>) -> AnswerKind {
    match outcome {
        Outcome::Positive { .. } => AnswerKind::Positive,
        Outcome::NoData { .. } => AnswerKind::NoData,
        Outcome::NxDomain { .. } => AnswerKind::NxDomain,
        Outcome::Referral { .. } => AnswerKind::Referral,
        Outcome::Alias { .. } | Outcome::Redirect { .. } => AnswerKind::Alias,
    }
}

/// How many labels all names share about which a zone says the same.
fn common_labels(outcome: &Outcome<'_>, zone: &Zone<'_>) -> usize {
    match outcome {
        Outcome::Positive { source, .. } | Outcome::NoData { source, .. } | Outcome::Alias { source, .. } => {
            match source {
                Source::Exact => ALL_LABELS,
                Source::Wildcard { encloser_labels } => *encloser_labels,
            }
        }
        Outcome::NxDomain { .. } => zone.apex().label_count(),
        Outcome::Referral { cut: vertex } | Outcome::Redirect { vertex, .. } => vertex.owner().label_count(),
    }
}
