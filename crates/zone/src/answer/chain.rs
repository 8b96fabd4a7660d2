//! The answer section: follows the aliases of the queried name, as long as they stay in the zone.

use super::kind::{ALL_LABELS, AnswerKind};
use super::signed::Signed;
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
    /// The NSEC or NSEC3 records that prove the answer.
    pub(super) proofs: Option<Proofs<'a>>,
    /// The targets of aliases. `None` until the first alias.
    names: Option<Names<'a>>,
    /// See [`super::ResponseInfo::common_labels`].
    common_labels: usize,
}

/// The names of the chain after the queried name.
struct Names<'a> {
    count: usize,
    names: [NameBuf; CHAIN_MAX],
    /// DNAME RRsets in the answer. One DNAME may redirect several names of the chain, but is sent once.
    redirects: [Option<RrsetRef<'a>>; CHAIN_MAX],
}

/// How the chain ended.
pub(super) enum ChainEnd<'a> {
    /// The lookup of its last name gave this outcome.
    Outcome(Outcome<'a>),
    /// It left the zone, came back to an earlier name or reached [`CHAIN_MAX`], or the query was for the CNAME that a
    /// DNAME synthesizes.
    Alias,
    /// A DNAME gave a target that is too long (RFC 6672 2.2).
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

    /// Writes all sections. Returns the kind of answer, and [`super::ResponseInfo::common_labels`].
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
            ChainEnd::Outcome(outcome) => kind_of(outcome),
            ChainEnd::Alias => AnswerKind::Alias,
            ChainEnd::TooLong => AnswerKind::YxDomain,
        };
        match kind {
            // RFC 2308 2.1, RFC 6604 3: the RCODE is about the last name of a chain.
            AnswerKind::NxDomain => self.composer.set_rcode(Rcode::NXDOMAIN),
            // RFC 1035 4.1.1: AA is about the first name. In a referral, another zone is authoritative for it.
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

    /// Fills the answer section. `trail` is the trail of the queried name.
    fn follow(&mut self, qkey: &mut Key, trail: &Trail, path: &mut Path<'a>) -> Result<ChainEnd<'a>, Full> {
        let qtype = self.question.qtype;
        for step in 0..=CHAIN_MAX {
            let outcome = {
                let qname = current(&self.names, &self.question);
                if step == 0 {
                    lookup_key(&self.zone, qname, qkey, qtype, trail, path)
                } else {
                    key::write(qname, qkey);
                    let trail = self.zone.store().trail(self.zone.names(), qkey);
                    lookup_key(&self.zone, qname, qkey, qtype, &trail, path)
                }
            };
            if step == 0 {
                self.common_labels = common_labels(&outcome, &self.zone);
            }
            let continues = match outcome {
                Outcome::Positive { ref rrset, source } => {
                    self.push_positive(rrset, source)?;
                    return Ok(ChainEnd::Outcome(outcome));
                }
                Outcome::Alias { .. } | Outcome::Redirect { .. } if step == CHAIN_MAX => break,
                Outcome::Alias { ref rrset, source } => {
                    self.push_answer(rrset, source)?;
                    let target = rrset.first().and_then(|rdata| NameRef::from_bytes(rdata).ok());
                    target.is_some_and(|target| self.continue_with(NameBuf::from(target)))
                }
                Outcome::Redirect { ref vertex, ref rrset } => match self.redirect(vertex, rrset)? {
                    // The query was for the synthesized CNAME (RFC 1034 4.3.2, step 3a).
                    Some(_) if qtype == Rtype::CNAME => break,
                    Some(target) => self.continue_with(target),
                    None => return Ok(ChainEnd::TooLong),
                },
                _ => return Ok(ChainEnd::Outcome(outcome)),
            };
            if !continues {
                break;
            }
        }
        Ok(ChainEnd::Alias)
    }

    /// The current name of the chain.
    pub(super) fn qname(&self) -> NameRef<'_> {
        current(&self.names, &self.question)
    }

    /// Adds the queried RRset, or for QTYPE RRSIG the signatures of an RRset.
    fn push_positive(&mut self, rrset: &RrsetRef<'a>, source: Source) -> Result<(), Full> {
        // The queried DNAME may be in the answer already, because it redirected the name of the question.
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

    /// Adds an RRset of the current name, its own or synthesized from a wildcard.
    fn push_answer(&mut self, rrset: &RrsetRef<'a>, source: Source) -> Result<(), Full> {
        let qname = current(&self.names, &self.question);
        let signed = Signed { owner: qname, rrset, ttl_max: u32::MAX, dnssec_ok: self.dnssec_ok };
        signed.push(self.composer, Section::Answer)?;
        self.prove_synthesis(source);
        Ok(())
    }

    /// If the RRset comes from a wildcard, adds the proof that the current name does not exist.
    fn prove_synthesis(&mut self, source: Source) {
        let qname = current(&self.names, &self.question);
        if let Source::Wildcard { encloser_labels } = source
            && self.dnssec_ok
        {
            let proofs = self.proofs.get_or_insert_with(|| Proofs::new(&self.zone));
            proofs.wildcard_answer(&self.zone, qname, encloser_labels);
        }
    }

    /// Adds a DNAME, and the CNAME that it synthesizes for the current name (RFC 6672 3.1). Returns the target, or
    /// `None` if it is too long. Then the RCODE is YXDOMAIN, even if the DNAME does not fit.
    fn redirect(&mut self, vertex: &Vertex<'a>, rrset: &RrsetRef<'a>) -> Result<Option<NameBuf>, Full> {
        let target = rrset.first().and_then(|rdata| NameRef::from_bytes(rdata).ok());
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
        // RFC 6672 3.1: the CNAME has the TTL of the DNAME. It is not signed, because validators synthesize it
        // themselves.
        let rdatas = [target.as_bytes()];
        self.composer.push_rrset(Section::Answer, qname, Rtype::CNAME, Class::IN, rrset.ttl, rdatas)?;
        Ok(Some(target))
    }

    /// Continues with another name. Returns false if the chain ends there.
    fn continue_with(&mut self, target: NameBuf) -> bool {
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

/// Replaces the suffix `owner` of `name` by `target` (RFC 6672 2.2). `None` if the result is too long.
fn substitute(name: NameRef<'_>, owner: NameRef<'_>, target: NameRef<'_>) -> Option<NameBuf> {
    let prefix_bytes = name.as_bytes().len().checked_sub(owner.as_bytes().len())?;
    let mut bytes = [0; NAME_BYTES_MAX];
    let bytes = bytes.get_mut(..prefix_bytes + target.as_bytes().len())?;
    bytes[..prefix_bytes].copy_from_slice(&name.as_bytes()[..prefix_bytes]);
    bytes[prefix_bytes..].copy_from_slice(target.as_bytes());
    NameRef::from_bytes(bytes).ok().map(NameBuf::from)
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

/// See [`super::ResponseInfo::common_labels`].
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
