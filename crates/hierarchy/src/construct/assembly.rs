//! The second pass over the traffic: assigns every record to a zone.

use super::Dnssec;
use super::behavior_votes::BehaviorVotes;
use super::contradiction::Contradiction;
use super::draft::{Draft, Rank, bytes_of, wildcard};
use super::map::Map;
use super::report::Report;
use super::response::{Response, ResponseKind, SkipReason, is_below};
use super::rrset::{Kind, Rrset};
use crate::limits::{DENIED_NAMES_MAX, REBUILT_BYTES_MAX, SURVEYED_NAMES_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::Section;

/// Assigns records to zones. It must see the same messages as the survey, in the same order.
pub struct Assembly {
    pub(super) map: Map,
    pub(super) dnssec: Dnssec,
    pub(super) drafts: BTreeMap<Name, Draft>,
    pub(super) report: Report,
    /// RRsets that were also sent with other contents: zone, owner, type.
    pub(super) conflicts: BTreeMap<(Name, Name, Kind), Contradiction>,
    pub(super) behaviors: BehaviorVotes,
    /// Memory of all drafts, in bytes.
    bytes: usize,
    /// Names in all drafts that were denied, as a whole or for a type.
    denied_count: usize,
}

impl Assembly {
    /// For the zones that a survey found.
    #[must_use]
    pub fn new(map: Map, dnssec: Dnssec) -> Self {
        let report = Report { over_bound: map.over_bound, ..Report::default() };
        let (drafts, conflicts, behaviors) = (BTreeMap::new(), BTreeMap::new(), BehaviorVotes::default());
        Self { map, dnssec, drafts, report, conflicts, behaviors, bytes: 0, denied_count: 0 }
    }

    /// Takes the contents of a message that `server` sent.
    pub fn add(&mut self, server: IpAddr, bytes: &[u8]) {
        self.report.messages += 1;
        let has_room = self.behaviors.add(server, bytes);
        self.report.over_bound += u64::from(!has_room);
        let result = Response::read(bytes).and_then(|response| {
            self.report.malformed_records += response.malformed_count;
            self.take(server, &response)
        });
        match result {
            Ok(()) => self.report.used += 1,
            Err(reason) => *self.report.left_out.entry(reason).or_default() += 1,
        }
    }

    fn take(&mut self, server: IpAddr, response: &Response) -> Result<(), SkipReason> {
        let cap = if response.truncated { Rank::Partial } else { Rank::Answer };
        let home = match &response.kind {
            ResponseKind::Referral(cut) => self.take_referral(server, response, cut, cap)?,
            ResponseKind::Authoritative | ResponseKind::Plain => self.take_answer(response, cap),
        };
        self.report.truncated += u64::from(response.truncated);
        for rrset in response.rrsets(Section::Additional) {
            self.put_additional(home.as_ref(), response, rrset, cap);
        }
        Ok(())
    }

    /// Takes a referral. It belongs to the zone above the cut, which is returned.
    fn take_referral(
        &mut self,
        server: IpAddr,
        response: &Response,
        cut: &Name,
        cap: Rank,
    ) -> Result<Option<Name>, SkipReason> {
        let is_of_zone = response.authoritative && self.map.has_answered(cut, server);
        if !is_of_zone && self.map.is_upward(cut, server) {
            return Err(SkipReason::UpwardReferral);
        }
        let home = if is_of_zone { Some(cut.clone()) } else { self.map.above(cut).cloned() };
        let apex = home.clone().ok_or(SkipReason::Empty)?;
        for rrset in response.rrsets(Section::Authority) {
            self.put(&apex, &rrset.owner, rrset, Rank::Authority.min(cap));
        }
        Ok(home)
    }

    /// Takes an answer or a denial. Returns its zone.
    fn take_answer(&mut self, response: &Response, cap: Rank) -> Option<Name> {
        let answer = response.rrsets(Section::Answer);
        let chain = response.chain();
        let rank = if response.kind == ResponseKind::Authoritative { Rank::Answer } else { Rank::Authority };
        let mut home = None;
        for rrset in answer {
            if is_synthesised(rrset, answer) {
                continue;
            }
            let Some(apex) = self.zone_of(response, Section::Answer, rrset) else { continue };
            if rrset.kind.covered == Rtype(0) && Some(&&rrset.owner) == chain.last() || home.is_none() {
                home = Some(apex.clone());
            }
            let owner = self.source_of(response, rrset);
            self.put(&apex, &owner, rrset, rank.min(cap));
        }
        let soa = response.find(Section::Authority, Rtype::SOA).map(|soa| soa.owner.clone());
        let rank = Rank::Authority;
        for rrset in response.rrsets(Section::Authority) {
            let apex = match (&soa, rrset.kind.rtype) {
                (Some(soa), _) => Some(soa.clone()),
                (None, Rtype::NS) if response.is_own_zone(&rrset.owner) => Some(rrset.owner.clone()),
                (None, Rtype::NS) => self.map.above(&rrset.owner).cloned(),
                (None, _) => self.zone_of(response, Section::Authority, rrset).or_else(|| home.clone()),
            };
            if let Some(apex) = apex {
                self.put(&apex, &rrset.owner, rrset, rank.min(cap));
            }
        }
        if let (Some(soa), Some(last)) = (&soa, chain.last()) {
            let has_answer = answer.iter().any(|rrset| rrset.owner == **last);
            if is_below(last, soa) && !has_answer && !response.truncated {
                let rtype = (response.rcode != Rcode::NXDOMAIN).then_some(response.qtype);
                self.deny(soa, last, rtype);
            }
        }
        soa.or(home)
    }

    fn deny(&mut self, apex: &Name, name: &Name, rtype: Option<Rtype>) {
        if self.denied_count >= DENIED_NAMES_MAX {
            self.report.over_bound += 1;
            return;
        }
        let is_new = self.drafts.entry(apex.clone()).or_default().deny(name, rtype);
        self.denied_count += usize::from(is_new);
    }

    /// Takes the additional section: glue of the response's zone, and possibly records of other zones.
    fn put_additional(&mut self, home: Option<&Name>, response: &Response, rrset: &Rrset, cap: Rank) {
        let own_zone = self.zone_of(response, Section::Additional, rrset);
        let is_glue = matches!(rrset.kind.rtype, Rtype::A | Rtype::AAAA);
        let may_stay = |home: &&Name| is_below(&rrset.owner, home) && (is_glue || own_zone.as_ref() == Some(*home));
        if let Some(home) = home.filter(may_stay) {
            self.put(home, &rrset.owner, rrset, Rank::Additional.min(cap));
        }
        if let Some(own_zone) = own_zone.filter(|own_zone| Some(own_zone) != home) {
            self.put(&own_zone, &rrset.owner, rrset, Rank::Elsewhere.min(cap));
        }
    }

    /// The zone of an RRset: that of its signer; above the cut for DS and similar; otherwise the nearest zone.
    fn zone_of(&self, response: &Response, section: Section, rrset: &Rrset) -> Option<Name> {
        let signer = response.signer(section, rrset).map(|signer| signer.to_canonical());
        let is_zone = |signer: &Name| is_below(&rrset.owner, signer) && self.map.zones.contains_key(signer);
        if let Some(signer) = signer.filter(is_zone) {
            return Some(signer);
        }
        let is_above = rrset.kind.rtype == Rtype::DS || rrset.kind.covered == Rtype::DS;
        let above = || self.map.above(&rrset.owner);
        if is_above { above().cloned() } else { self.map.at_or_above(&rrset.owner).cloned() }
    }

    /// The owner that an RRset of an answer has in its zone. If its signatures say so, that is a wildcard (RFC 4034
    /// 3.1.3).
    fn source_of(&self, response: &Response, rrset: &Rrset) -> Name {
        let wanted = if rrset.kind.rtype == Rtype::RRSIG { rrset.kind } else { Kind::signatures(rrset.kind.rtype) };
        let answer = response.rrsets(Section::Answer);
        let signatures = answer.iter().find(|other| other.kind == wanted && other.owner == rrset.owner);
        let labels = rrset.owner.as_ref().label_count();
        let signed = signatures.and_then(Rrset::signed_labels).filter(|signed| *signed < labels);
        let source = signed.filter(|_| !rrset.owner.as_ref().is_wildcard()).and_then(|signed| {
            let encloser = rrset.owner.as_ref().strip(labels - signed)?;
            wildcard(&encloser.to_name())
        });
        source.unwrap_or_else(|| rrset.owner.clone())
    }

    pub(super) fn put(&mut self, apex: &Name, owner: &Name, rrset: &Rrset, rank: Rank) {
        if !is_below(owner, apex) || self.dnssec == Dnssec::Off && is_dnssec(rrset.kind.rtype) {
            return;
        }
        if self.is_full() {
            self.report.over_bound += 1;
            return;
        }
        let draft = self.drafts.entry(apex.clone()).or_default();
        let before = draft.bytes();
        let differs = draft.put(owner, rrset, rank);
        self.bytes = self.bytes + draft.bytes() - before;
        let Some((differs, other)) = differs else { return };
        if self.conflicts.len() >= SURVEYED_NAMES_MAX {
            self.report.over_bound += 1;
            return;
        }
        let bytes = bytes_of(owner, &other);
        let contradiction = self.conflicts.entry((apex.clone(), owner.clone(), rrset.kind)).or_default();
        if contradiction.add(rrset.kind.rtype, differs, other) {
            self.bytes += bytes;
        }
    }

    const fn is_full(&self) -> bool {
        self.bytes >= REBUILT_BYTES_MAX
    }
}

/// Whether a CNAME was synthesized from a DNAME above it (RFC 6672 3.1).
fn is_synthesised(rrset: &Rrset, answer: &[Rrset]) -> bool {
    let is_above = |other: &&Rrset| {
        other.kind.rtype == Rtype::DNAME && other.owner != rrset.owner && is_below(&rrset.owner, &other.owner)
    };
    rrset.kind.rtype == Rtype::CNAME && answer.iter().any(|other| is_above(&other))
}

/// Whether only signed zones have this type.
pub(super) const fn is_dnssec(rtype: Rtype) -> bool {
    matches!(
        rtype,
        Rtype::RRSIG
            | Rtype::NSEC
            | Rtype::NSEC3
            | Rtype::NSEC3PARAM
            | Rtype::DNSKEY
            | Rtype::DS
            | Rtype::CDS
            | Rtype::CDNSKEY
            | Rtype::DLV
    )
}
