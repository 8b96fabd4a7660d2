//! Decides whether a requestor may write one owner and type.

use crate::address::{reverse_name, six_to_four_name};
use crate::external::{DaemonAnswers, SocketPath};
use crate::rule::{Effect, Identity, KeyLimits, Rule, Scope, is_below, is_never_written};
use crate::table::Policy;
use core::fmt;
use core::net::IpAddr;
use core::num::NonZeroU16;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// The sender of an update.
#[derive(Clone, Copy, Debug)]
pub struct Requestor<'a> {
    /// The key that signed.
    pub key: NameRef<'a>,
    /// The address; an IPv4 one may be mapped into IPv6 (RFC 4291 2.5.5.2).
    pub source: IpAddr,
    /// Whether the update came over a connection. The source address of a datagram can be forged.
    pub is_connected: bool,
}

/// The list that a rule belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleList {
    /// The policy of the zone.
    Zone,
    /// The policy for all zones, evaluated after the zone's own.
    AllZones,
    /// The grant of `key add --update`, evaluated last.
    Grants,
}

/// Identifies a rule by its list and number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleRef {
    /// The list.
    pub list: RuleList,
    /// The number in the list, from one.
    pub number: usize,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list {
            RuleList::Zone => write!(f, "rule {} of the zone", self.number),
            RuleList::AllZones => write!(f, "rule {} for all zones", self.number),
            RuleList::Grants => f.write_str("the grant of updates to the key"),
        }
    }
}

/// The decision on one owner and type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It may be written.
    Granted {
        /// The rule that grants it.
        by: RuleRef,
        /// Records of this type that the owner may have.
        records_max: Option<NonZeroU16>,
    },
    /// It may not be written.
    Denied {
        /// The rule that denies it.
        by: RuleRef,
    },
    /// It may not be written: the daemon of a rule decides, and was not asked or did not answer.
    Unanswered {
        /// The rule with the daemon.
        by: RuleRef,
    },
    /// It may not be written: no rule matches.
    Unmatched,
    /// It may not be written: a grant of updates does not include SOA and NS at the apex. A rule must name them.
    Protected,
    /// It may not be written, whatever the rules: only the signer of the zone writes this type.
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
                "depends on the daemon of {by}, which the node that receives the update asks: denied without an answer"
            ),
            Self::Unmatched => f.write_str("denied: no rule grants it"),
            Self::Protected => f.write_str(
                "denied: the grant of updates to the key does not include SOA and NS at the apex; a rule must name \
                 them",
            ),
            Self::Never => {
                f.write_str("denied: only the signer of the zone writes this DNSSEC type, whatever the rules")
            }
        }
    }
}

impl Decision {
    /// Whether the record may be written.
    #[must_use]
    pub const fn is_granted(self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

/// Everything that decides about updates of one zone, in order of evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'p> {
    /// The apex of the zone.
    pub apex: NameRef<'p>,
    /// The policy of the zone.
    pub zone: Option<&'p Policy>,
    /// The policy for all zones.
    pub all_zones: Option<&'p Policy>,
    /// The grant of updates to the key.
    pub grant: UpdateGrant,
}

/// A grant of updates to a key, independent of rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateGrant {
    /// Nothing.
    None,
    /// Everything but the SOA and the NS of the apex.
    BelowApex,
    /// Those too.
    Whole,
}

/// Evaluates the rules of one zone for one requestor.
#[derive(Debug)]
pub struct PolicyEvaluator<'p> {
    rules: Rules<'p>,
    key: NameRef<'p>,
    /// The rules that apply to the requestor, in order.
    matching: Vec<(RuleRef, &'p Rule)>,
    /// The names of the requestor's address and of its 6to4 prefix, if a rule needs them.
    reverse: Option<Name>,
    prefix: Option<Name>,
    external: Option<&'p DaemonAnswers>,
}

impl<'p> Rules<'p> {
    /// Selects the rules that apply to this requestor.
    #[must_use]
    pub fn evaluator(self, requestor: Requestor<'p>) -> PolicyEvaluator<'p> {
        let (matching, key) = (Vec::new(), requestor.key);
        let mut evaluator = PolicyEvaluator { rules: self, key, matching, reverse: None, prefix: None, external: None };
        let source = requestor.source.to_canonical();
        for (list, policy) in [(RuleList::Zone, self.zone), (RuleList::AllZones, self.all_zones)] {
            for (index, rule) in policy.into_iter().flat_map(|policy| policy.rules_of(requestor.key)) {
                let applies = match rule.scope {
                    Scope::TcpSelf | Scope::SixToFourSelf if !requestor.is_connected => false,
                    Scope::TcpSelf => {
                        rule.identity.matches(evaluator.reverse.get_or_insert_with(|| reverse_name(source)).as_ref())
                    }
                    Scope::SixToFourSelf => {
                        rule.identity.matches(evaluator.prefix.get_or_insert_with(|| six_to_four_name(source)).as_ref())
                    }
                    _ => rule.identity.matches(requestor.key),
                };
                if applies {
                    evaluator.matching.push((RuleRef { list, number: index + 1 }, rule));
                }
            }
        }
        evaluator
    }
}

impl<'p> PolicyEvaluator<'p> {
    /// Adds the answers of daemons about the update.
    #[must_use]
    pub fn with_external(mut self, external: &'p DaemonAnswers) -> Self {
        self.external = Some(external);
        self
    }

    /// The socket of the daemon of a rule.
    pub(crate) fn socket(&self, rule_ref: RuleRef) -> Option<&'p SocketPath> {
        self.matching.iter().find(|(found, _)| *found == rule_ref).and_then(|(_, rule)| rule.scope.socket())
    }
}

impl PolicyEvaluator<'_> {
    /// Decides by the first rule that matches, like BIND.
    #[must_use]
    pub fn decide(&self, owner: NameRef<'_>, rtype: Rtype) -> Decision {
        if is_never_written(rtype) { Decision::Never } else { self.decide_by_rules(owner, rtype) }
    }

    /// Like [`Self::decide`], for a record that is deleted together with everything else at its owner: types that are
    /// never written are not refused.
    pub(crate) fn decide_by_rules(&self, owner: NameRef<'_>, rtype: Rtype) -> Decision {
        for &(by, rule) in &self.matching {
            let Some(records_max) = rule.of_type(rtype) else { continue };
            let is_in = match &rule.scope {
                // Without the daemon's answer, later rules must not decide: they might grant or deny more than it.
                Scope::External(socket) => match self.external.and_then(|answers| answers.get(socket, owner, rtype)) {
                    Some(is_granted) => is_granted,
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
            _ => Decision::Granted { by: RuleRef { list: RuleList::Grants, number: 1 }, records_max: None },
        }
    }

    /// Whether any rule could grant this requestor anything.
    #[must_use]
    pub fn may_grant(&self) -> bool {
        self.rules.grant != UpdateGrant::None || self.matching.iter().any(|(_, rule)| rule.effect == Effect::Grant)
    }

    /// The limits of the key: each number comes from the first limit that sets it.
    #[must_use]
    pub fn limits(&self) -> KeyLimits {
        let mut limits = KeyLimits::none(Identity::of_name(self.key));
        for policy in [self.rules.zone, self.rules.all_zones].into_iter().flatten() {
            for of_key in policy.limits().iter().filter(|limits| limits.identity.matches(self.key)) {
                for (limit, (_, number)) in limits.numbers_mut().into_iter().zip(of_key.numbers()) {
                    *limit = limit.or(number);
                }
            }
        }
        limits
    }

    /// The apex of the zone.
    pub(crate) const fn apex(&self) -> NameRef<'_> {
        self.rules.apex
    }

    /// The rule that `rule_ref` identifies.
    #[must_use]
    pub fn rule(&self, rule_ref: RuleRef) -> Option<&Rule> {
        self.matching.iter().find(|(found, _)| *found == rule_ref).map(|(_, rule)| *rule)
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
