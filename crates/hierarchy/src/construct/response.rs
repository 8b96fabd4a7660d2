//! A response, split into RRsets.

use super::rrset::{Kind, Rrset};
use crate::limits::ALIASES_MAX;
use serde::Serialize;
use wire::name::{Name, NameRef};
use wire::number::{Class, Opcode, Rcode, Rtype};
use wire::parse::{Header, Message, Section};

/// Why a message gives no records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It is a query.
    Query,
    /// Its opcode is not QUERY.
    OtherOpcode,
    /// It is malformed (RFC 1035).
    Malformed,
    /// It does not have exactly one question.
    QuestionCount,
    /// Its class is not IN.
    OtherClass,
    /// AXFR or IXFR.
    Transfer,
    /// REFUSED, SERVFAIL and other errors that say nothing about the zone.
    ErrorRcode,
    /// From a cache: RA is set and AA is not.
    Recursive,
    /// A referral to the zone that the server was asked for, or upwards: the server does not have the zone.
    UpwardReferral,
    /// Neither records nor the name of a zone.
    Empty,
}

/// Kind of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ResponseKind {
    /// AA is set.
    Authoritative,
    /// No answer, but the name servers of this zone, which contains the name.
    Referral(Name),
    /// Records without AA, from a server that offers no recursion.
    Plain,
}

/// A response to one question of class IN.
pub(super) struct Response {
    pub(super) qname: Name,
    pub(super) qtype: Rtype,
    pub(super) rcode: Rcode,
    pub(super) truncated: bool,
    pub(super) kind: ResponseKind,
    /// AA. Some servers also set it in referrals.
    pub(super) authoritative: bool,
    sections: [Vec<Rrset>; 3],
    /// Records whose rdata does not fit their type.
    pub(super) malformed_count: u64,
}

impl Response {
    /// Parses a response.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, SkipReason> {
        let header = Header::parse(bytes).ok_or(SkipReason::Malformed)?;
        if !header.qr {
            return Err(SkipReason::Query);
        }
        if header.opcode != Opcode::QUERY {
            return Err(SkipReason::OtherOpcode);
        }
        let message = Message::parse(bytes).map_err(|_| SkipReason::Malformed)?;
        let question = message.question().filter(|_| header.counts[0] == 1).ok_or(SkipReason::QuestionCount)?;
        if question.qclass != Class::IN {
            return Err(SkipReason::OtherClass);
        }
        if matches!(question.qtype, Rtype::AXFR | Rtype::IXFR) {
            return Err(SkipReason::Transfer);
        }
        let rcode = message.rcode();
        if !matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN) {
            return Err(SkipReason::ErrorRcode);
        }
        let mut malformed_count = 0;
        let sections = Section::ALL.map(|section| super::rrset::collect(&message, section, &mut malformed_count));
        let qname = question.qname.as_ref().to_canonical();
        let kind = kind_of(&header, rcode, &qname, &sections)?;
        let (qtype, truncated, authoritative) = (question.qtype, header.tc, header.aa);
        Ok(Self { qname, qtype, rcode, truncated, kind, authoritative, sections, malformed_count })
    }

    /// The RRsets of a section.
    pub(super) fn rrsets(&self, section: Section) -> &[Rrset] {
        &self.sections[section as usize - 1]
    }

    /// The first RRset of a type.
    pub(super) fn find(&self, section: Section, rtype: Rtype) -> Option<&Rrset> {
        self.rrsets(section).iter().find(|rrset| rrset.kind.rtype == rtype)
    }

    /// Signer of an RRset, from signatures in the same section.
    pub(super) fn signer(&self, section: Section, rrset: &Rrset) -> Option<NameRef<'_>> {
        let wanted = match rrset.kind.rtype {
            Rtype::RRSIG => rrset.kind,
            rtype => Kind::signatures(rtype),
        };
        let owner = &rrset.owner;
        let signatures = self.rrsets(section).iter().find(|other| other.kind == wanted && other.owner == *owner)?;
        signatures.signer()
    }

    /// The names from QNAME along the aliases. RCODE and denial are about the last one.
    pub(super) fn chain(&self) -> Vec<&Name> {
        let mut chain = vec![&self.qname];
        if self.qtype == Rtype::CNAME || self.qtype == Rtype::ANY {
            return chain;
        }
        while chain.len() <= ALIASES_MAX {
            let last = chain[chain.len() - 1];
            let is_alias = |rrset: &&Rrset| rrset.kind.rtype == Rtype::CNAME && rrset.owner == *last;
            let alias = self.rrsets(Section::Answer).iter().find(is_alias);
            match alias.and_then(|alias| alias.target.as_ref()) {
                Some(target) if !chain.contains(&target) => chain.push(target),
                _ => break,
            }
        }
        chain
    }

    /// Whether NS records in the authority section belong to the answer's own zone and are no referral.
    pub(super) fn is_own_zone(&self, ns_owner: &Name) -> bool {
        let owners = self.rrsets(Section::Answer).iter().map(|rrset| &rrset.owner);
        owners.chain([&self.qname].into_iter().filter(|_| self.has_soa())).any(|owner| is_below(owner, ns_owner))
    }

    /// Whether a denial names its zone.
    pub(super) fn has_soa(&self) -> bool {
        self.find(Section::Authority, Rtype::SOA).is_some()
    }
}

/// Whether a name equals another one or is below it.
pub(super) fn is_below(name: &Name, ancestor: &Name) -> bool {
    name.as_ref().is_at_or_below(ancestor.as_ref())
}

fn kind_of(
    header: &Header,
    rcode: Rcode,
    qname: &Name,
    sections: &[Vec<Rrset>; 3],
) -> Result<ResponseKind, SkipReason> {
    let [answer, authority, _] = sections;
    let has = |rtype| authority.iter().any(|rrset| rrset.kind.rtype == rtype);
    let may_refer = answer.is_empty() && rcode == Rcode::NOERROR && !has(Rtype::SOA);
    let ns = authority.iter().find(|rrset| rrset.kind.rtype == Rtype::NS && is_below(qname, &rrset.owner));
    if let Some(ns) = ns.filter(|_| may_refer) {
        return if ns.owner.as_ref().is_root() {
            Err(SkipReason::UpwardReferral)
        } else {
            Ok(ResponseKind::Referral(ns.owner.clone()))
        };
    }
    if header.aa {
        return if answer.is_empty() && authority.is_empty() {
            Err(SkipReason::Empty)
        } else {
            Ok(ResponseKind::Authoritative)
        };
    }
    if header.ra {
        return Err(SkipReason::Recursive);
    }
    if answer.is_empty() && !has(Rtype::SOA) { Err(SkipReason::Empty) } else { Ok(ResponseKind::Plain) }
}

impl SkipReason {
    /// The meaning, for display.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Query => "queries",
            Self::OtherOpcode => "of another opcode than QUERY",
            Self::Malformed => "that do not follow RFC 1035",
            Self::QuestionCount => "without one question",
            Self::OtherClass => "of another class than IN",
            Self::Transfer => "of zone transfers",
            Self::ErrorRcode => "with an error that says nothing of a zone",
            Self::Recursive => "from a cache: RA and no AA",
            Self::UpwardReferral => "that refer to the root or to a zone above: their servers do not have the zone",
            Self::Empty => "without records",
        }
    }
}
