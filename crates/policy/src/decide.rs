//! What the rules say of one owner and type.

use crate::address::{reverse_name, six_to_four_name};
use crate::external::{External, SocketPath};
use crate::rule::{Effect, Identity, KeyLimits, Rule, Scope, is_below};
use crate::table::Policy;
use core::fmt;
use core::net::IpAddr;
use core::num::NonZeroU16;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Requestor<'a> {
    /// The key that signed.
    pub key: NameRef<'a>,
    /// The address; an IPv4 one may be mapped into IPv6 (RFC 4291 2.5.5.2).
    pub source: IpAddr,
    /// Whether it came over a connection: the address of a datagram is anybody's.
    pub is_connected: bool,
}

/// Where a rule stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// In the policy of the zone.
    Zone,
    /// In the policy for all zones, which is asked next.
    AllZones,
    /// It is what `key add --update` granted, which is asked last.
    Grants,
}

/// Which rule it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where it stands.
    pub list: List,
    /// Its number there, from one.
    pub number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list {
            List::Zone => write!(f, "rule {} of the zone", self.number),
            List::AllZones => write!(f, "rule {} of those for all zones", self.number),
            List::Grants => f.write_str("the grant of updates to the key"),
        }
    }
}

/// What is said of one owner and type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It may be written.
    Granted {
        /// By which rule.
        by: Place,
        /// Records of the type that the owner may have for one more to be added.
        records_max: Option<NonZeroU16>,
    },
    /// It may not.
    Denied {
        /// By which rule.
        by: Place,
    },
    /// The daemon of a rule has the word, and has not been asked or did not answer: it may not.
    Unanswered {
        /// Of which rule.
        by: Place,
    },
    /// No rule says anything: it may not.
    Unmatched,
    /// The key is granted updates, which does not take in the SOA and the NS of the apex: a rule has to name them.
    Protected,
    /// No rule can grant it: the type is for those who sign.
    Never,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted { by, records_max: None } => write!(f, "granted by {by}"),
            Self::Granted { by, records_max: Some(max) } => write!(f, "granted by {by}, up to {max} records"),
            Self::Denied { by } => write!(f, "denied by {by}"),
            Self::Unanswered { by } => write!(
                f,
                "depends on the daemon of {by}, which the node that takes the update asks: denied if it does not answer"
            ),
            Self::Unmatched => f.write_str("denied: no rule grants it"),
            Self::Protected => f.write_str(
                "denied: the grant of updates to the key does not take in the SOA and the NS of the apex; a rule has \
                 to name them",
            ),
            Self::Never => f.write_str("denied: records of DNSSEC are for who signs the zone, whatever rules say"),
        }
    }
}

impl Decision {
    /// Whether it may be written.
    #[must_use]
    pub const fn is_granted(self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

/// Types that a client may neither add nor delete.
///
/// - RRSIG, NSEC, NSEC3: who signs makes them; RFC 3007 3.1.1 forbids NSEC's predecessor in updates for that reason.
///   They cannot be right in a zone that is not signed. BIND lets RRSIGs in at the apex, for key signing keys that are
///   kept off line; there is no such use here until zones are signed.
/// - NSEC3PARAM says that a complete NSEC3 chain is there (RFC 5155 4): in a zone that is not signed there is none.
/// - DNSKEY at the apex makes the zone one that is signed elsewhere ("presigned"), and every later update of it would
///   be refused; and elsewhere it has no meaning (RFC 4034 2). Such a zone comes in whole, as a file or by transfer.
///
/// DS, CDS, CDNSKEY and ZONEMD may be updated like other data. The prescan refuses a DS at the apex.
#[must_use]
pub const fn is_never_written(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM | Rtype::DNSKEY)
}

/// All that decides about the updates of one zone, in the order in which it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'p> {
    /// The apex of the zone.
    pub apex: NameRef<'p>,
    /// The policy of the zone.
    pub zone: Option<&'p Policy>,
    /// The policy for all zones.
    pub all_zones: Option<&'p Policy>,
    /// Whether the key was granted updates as such, and how far that goes.
    pub grant: UpdateGrant,
}

/// What a key was granted beside all rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateGrant {
    /// Nothing.
    None,
    /// Everything but the SOA and the NS of the apex.
    BelowApex,
    /// Those too.
    Whole,
}

/// The rules of one zone, as far as they are about one requestor.
#[derive(Debug)]
pub struct Judge<'p> {
    rules: Rules<'p>,
    key: NameRef<'p>,
    about: Vec<(Place, &'p Rule)>,
    /// The names of the requestor's address and of its 6to4 prefix, where rules ask for them.
    reverse: Option<Name>,
    prefix: Option<Name>,
    external: Option<&'p External>,
}

impl<'p> Rules<'p> {
    /// Picks what is about this requestor.
    #[must_use]
    pub fn judge(self, requestor: Requestor<'p>) -> Judge<'p> {
        let (about, key) = (Vec::new(), requestor.key);
        let mut judge = Judge { rules: self, key, about, reverse: None, prefix: None, external: None };
        let source = requestor.source.to_canonical();
        for (list, policy) in [(List::Zone, self.zone), (List::AllZones, self.all_zones)] {
            for (index, rule) in policy.into_iter().flat_map(|policy| policy.rules_of(requestor.key)) {
                let is_about = match rule.scope {
                    Scope::TcpSelf | Scope::SixToFourSelf if !requestor.is_connected => false,
                    Scope::TcpSelf => {
                        rule.identity.matches(judge.reverse.get_or_insert_with(|| reverse_name(source)).as_ref())
                    }
                    Scope::SixToFourSelf => {
                        rule.identity.matches(judge.prefix.get_or_insert_with(|| six_to_four_name(source)).as_ref())
                    }
                    _ => rule.identity.matches(requestor.key),
                };
                if is_about {
                    judge.about.push((Place { list, number: index + 1 }, rule));
                }
            }
        }
        judge
    }
}

impl<'p> Judge<'p> {
    /// With what daemons said about the update.
    #[must_use]
    pub fn with_external(mut self, external: &'p External) -> Self {
        self.external = Some(external);
        self
    }

    /// The daemon whose word a rule takes.
    pub(crate) fn socket(&self, place: Place) -> Option<&'p SocketPath> {
        self.about.iter().find(|(there, _)| *there == place).and_then(|(_, rule)| rule.scope.socket())
    }
}

impl Judge<'_> {
    /// The first rule that matches decides (as BIND has it).
    #[must_use]
    pub fn decide(&self, owner: NameRef<'_>, rtype: Rtype) -> Decision {
        if is_never_written(rtype) { Decision::Never } else { self.decide_by_rules(owner, rtype) }
    }

    /// As [`Self::decide`], of what goes with all else that an owner has.
    pub(crate) fn decide_by_rules(&self, owner: NameRef<'_>, rtype: Rtype) -> Decision {
        for &(by, rule) in &self.about {
            let Some(records_max) = rule.of_type(rtype) else { continue };
            let is_in = match &rule.scope {
                // Who has the word is not passed over: what comes behind may say more, or less, than he would.
                Scope::External(socket) => match self.external.and_then(|said| said.said(socket, owner, rtype)) {
                    Some(said) => said,
                    None => return Decision::Unanswered { by },
                },
                scope => self.is_in(scope, owner),
            };
            match rule.effect {
                _ if !is_in => {}
                Effect::Grant => return Decision::Granted { by, records_max },
                Effect::Deny => return Decision::Denied { by },
            }
        }
        match (self.rules.grant, rtype) {
            (UpdateGrant::None, _) => Decision::Unmatched,
            (UpdateGrant::BelowApex, Rtype::SOA | Rtype::NS) if owner == self.rules.apex => Decision::Protected,
            _ => Decision::Granted { by: Place { list: List::Grants, number: 1 }, records_max: None },
        }
    }

    /// Whether any rule could grant anything.
    #[must_use]
    pub fn may_grant(&self) -> bool {
        self.rules.grant != UpdateGrant::None || self.about.iter().any(|(_, rule)| rule.effect == Effect::Grant)
    }

    /// What may be done at most: each number from the first limit that has it.
    #[must_use]
    pub fn limits(&self) -> KeyLimits {
        let mut limits = KeyLimits::none(Identity::of_name(self.key));
        for policy in [self.rules.zone, self.rules.all_zones].into_iter().flatten() {
            for of_key in policy.limits().iter().filter(|limits| limits.identity.matches(self.key)) {
                for (place, (_, number)) in limits.numbers_mut().into_iter().zip(of_key.numbers()) {
                    *place = place.or(number);
                }
            }
        }
        limits
    }

    /// The apex of the zone.
    pub(crate) const fn apex(&self) -> NameRef<'_> {
        self.rules.apex
    }

    /// The rule of a place.
    #[must_use]
    pub fn rule(&self, place: Place) -> Option<&Rule> {
        self.about.iter().find(|(there, _)| *there == place).map(|(_, rule)| *rule)
    }

    fn is_in(&self, scope: &Scope, owner: NameRef<'_>) -> bool {
        let is_name = |name: &Option<Name>| name.as_ref().is_some_and(|name| name.as_ref() == owner);
        match scope {
            Scope::Name(name) => owner == name.as_ref(),
            Scope::Subdomain(name) => owner.is_at_or_below(name.as_ref()),
            Scope::ZoneSub => owner.is_at_or_below(self.rules.apex),
            Scope::Wildcard(above) => is_below(owner, above.as_ref()),
            Scope::SelfName => owner == self.key,
            Scope::SelfSub => owner.is_at_or_below(self.key),
            Scope::SelfWild => is_below(owner, self.key),
            Scope::TcpSelf => is_name(&self.reverse),
            Scope::SixToFourSelf => is_name(&self.prefix),
            Scope::External(_) => false,
        }
    }
}
