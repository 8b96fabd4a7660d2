//! A policy: ordered rules, indexed by key.

use crate::limits::{KEY_RULES_MAX, POLICY_BYTES_MAX, POLICY_LIMITS_MAX, POLICY_RULES_MAX, RULE_TYPES_MAX};
use crate::rule::{Effect, Identity, KeyLimits, Rule};
use core::fmt;
use std::collections::BTreeMap;
use wire::name::{Name, NameRef};

/// Why rules cannot form a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyError {
    /// More than [`POLICY_RULES_MAX`] rules.
    Rules,
    /// More than [`KEY_RULES_MAX`] rules can apply to one key.
    KeyRules,
    /// A rule has more than [`RULE_TYPES_MAX`] types.
    Types,
    /// More than [`POLICY_LIMITS_MAX`] limits.
    Limits,
    /// More than [`POLICY_BYTES_MAX`] bytes.
    Bytes,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules => write!(f, "a policy has at most {POLICY_RULES_MAX} rules"),
            Self::KeyRules => write!(
                f,
                "at most {KEY_RULES_MAX} rules may apply to one key, including rules with `*` and rules for addresses"
            ),
            Self::Types => write!(f, "a rule names at most {RULE_TYPES_MAX} types"),
            Self::Limits => write!(f, "a policy has at most {POLICY_LIMITS_MAX} limits"),
            Self::Bytes => write!(f, "a policy has at most {POLICY_BYTES_MAX} bytes"),
        }
    }
}

/// Rules and limits, in order, for one zone or for all zones.
#[derive(Clone, Default, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    limits: Vec<KeyLimits>,
    /// Indices of the rules for each key that rules name.
    by_key: BTreeMap<Name, Vec<u32>>,
    /// Indices of all other rules.
    general: Vec<u32>,
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        (&self.rules, &self.limits) == (&other.rules, &other.limits)
    }
}

impl Eq for Policy {}

impl Policy {
    /// Builds a policy and its index.
    ///
    /// # Errors
    /// [`PolicyError`] when a limit is exceeded.
    pub fn new(rules: Vec<Rule>, limits: Vec<KeyLimits>) -> Result<Self, PolicyError> {
        if rules.len() > POLICY_RULES_MAX {
            return Err(PolicyError::Rules);
        }
        if limits.len() > POLICY_LIMITS_MAX {
            return Err(PolicyError::Limits);
        }
        if rules.iter().any(|rule| rule.types.len() > RULE_TYPES_MAX) {
            return Err(PolicyError::Types);
        }
        let (mut by_key, mut general) = (BTreeMap::<Name, Vec<u32>>::new(), Vec::new());
        for (index, rule) in (0..).zip(&rules) {
            match &rule.identity {
                Identity::Exact(key) if !rule.scope.is_of_address() => {
                    by_key.entry(key.clone()).or_default().push(index);
                }
                _ => general.push(index),
            }
        }
        let longest = by_key.values().map(Vec::len).max().unwrap_or(0);
        if longest + general.len() > KEY_RULES_MAX {
            return Err(PolicyError::KeyRules);
        }
        let policy = Self { rules, limits, by_key, general };
        if policy.bytes_count() > POLICY_BYTES_MAX { Err(PolicyError::Bytes) } else { Ok(policy) }
    }

    /// All rules in their order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// All limits in their order.
    #[must_use]
    pub fn limits(&self) -> &[KeyLimits] {
        &self.limits
    }

    /// Whether a rule asks a daemon.
    #[must_use]
    pub fn asks_daemons(&self) -> bool {
        self.rules.iter().any(|rule| rule.scope.socket().is_some())
    }

    /// Whether there are no rules and no limits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.limits.is_empty()
    }

    /// Whether a rule grants something to a key by the key's name.
    #[must_use]
    pub fn has_grant_for(&self, key: NameRef<'_>) -> bool {
        self.rules_of(key)
            .any(|(_, rule)| rule.effect == Effect::Grant && !rule.scope.is_of_address() && rule.identity.matches(key))
    }

    /// The rules that can apply to a key, in order, each with its index.
    pub(crate) fn rules_of(&self, key: NameRef<'_>) -> impl Iterator<Item = (usize, &Rule)> {
        let of_key = self.by_key.get(&key.to_canonical()).map_or(&[][..], Vec::as_slice);
        let mut both = Merge { left: of_key, right: &self.general };
        core::iter::from_fn(move || both.next()).map(|index| (index as usize, &self.rules[index as usize]))
    }
}

/// Merges two ascending lists.
struct Merge<'a> {
    left: &'a [u32],
    right: &'a [u32],
}

impl Merge<'_> {
    fn next(&mut self) -> Option<u32> {
        let from = match (self.left.first(), self.right.first()) {
            (Some(left), Some(right)) if left < right => &mut self.left,
            (Some(_), None) => &mut self.left,
            _ => &mut self.right,
        };
        let (&first, rest) = from.split_first()?;
        *from = rest;
        Some(first)
    }
}
