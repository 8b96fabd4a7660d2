//! The encoding of a policy in log entries, in checkpoints and in the hash of the state.

use crate::external::decode_socket;
use crate::limits::{POLICY_LIMITS_MAX, POLICY_RULES_MAX, RULE_TYPES_MAX};
use crate::rule::{Effect, Identity, KeyLimits, Rule, RuleType, Scope};
use crate::table::Policy;
use core::num::NonZeroU16;
use wire::name::Name;
use wire::number::Rtype;
use zone::codec::{DecodeError, Decoder, Encoder};

/// The smallest rule: effect, identity with the root, scope, count of types.
const RULE_BYTES_MIN: usize = 1 + 2 + 1 + 1;
/// The smallest limit: identity with the root, bitmap of the numbers that follow.
const LIMIT_BYTES_MIN: usize = 2 + 1;

impl Policy {
    /// Appends the replicated form.
    pub fn encode(&self, out: &mut Encoder) {
        out.count(self.rules().len());
        for rule in self.rules() {
            encode_rule(rule, out);
        }
        out.count(self.limits().len());
        for limits in self.limits() {
            encode_limits(limits, out);
        }
    }

    /// Reads the replicated form.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not the encoding of a policy.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let count = from.count(POLICY_RULES_MAX, RULE_BYTES_MIN)?;
        let rules = (0..count).map(|_| decode_rule(from)).collect::<Result<_, _>>()?;
        let count = from.count(POLICY_LIMITS_MAX, LIMIT_BYTES_MIN)?;
        let limits = (0..count).map(|_| decode_limits(from)).collect::<Result<_, _>>()?;
        Self::new(rules, limits).map_err(|_| DecodeError::TooLarge)
    }

    /// Length of the encoding in bytes.
    #[must_use]
    pub fn bytes_count(&self) -> usize {
        let mut out = Encoder::new();
        self.encode(&mut out);
        out.finish().len()
    }
}

fn encode_rule(rule: &Rule, out: &mut Encoder) {
    out.u8(match rule.effect {
        Effect::Grant => 1,
        Effect::Deny => 2,
    });
    encode_identity(&rule.identity, out);
    let (kind, name) = match &rule.scope {
        Scope::Name(name) => (1, Some(name)),
        Scope::Subdomain(name) => (2, Some(name)),
        Scope::ZoneSub => (3, None),
        Scope::Wildcard(above) => (4, Some(above)),
        Scope::SelfName => (5, None),
        Scope::SelfSub => (6, None),
        Scope::SelfWild => (7, None),
        Scope::TcpSelf => (8, None),
        Scope::SixToFourSelf => (9, None),
        Scope::External(_) => (10, None),
    };
    out.u8(kind);
    if let Some(socket) = rule.scope.socket() {
        out.text(socket.path());
    }
    if let Some(name) = name {
        out.name(name);
    }
    out.u8(u8::try_from(rule.types.len()).expect("a rule names at most 64 types"));
    for RuleType { rtype, records_max } in &rule.types {
        out.u16(rtype.0);
        out.u16(records_max.map_or(0, NonZeroU16::get));
    }
}

fn decode_rule(from: &mut Decoder<'_>) -> Result<Rule, DecodeError> {
    let effect = match from.u8()? {
        1 => Effect::Grant,
        2 => Effect::Deny,
        _ => return Err(DecodeError::Unknown),
    };
    let identity = decode_identity(from)?;
    let scope = match from.u8()? {
        1 => Scope::Name(lower_name(from)?),
        2 => Scope::Subdomain(lower_name(from)?),
        3 => Scope::ZoneSub,
        4 => Scope::Wildcard(lower_name(from)?),
        5 => Scope::SelfName,
        6 => Scope::SelfSub,
        7 => Scope::SelfWild,
        8 => Scope::TcpSelf,
        9 => Scope::SixToFourSelf,
        // The text form of an external rule has no identity.
        10 if identity == Identity::any_key() => Scope::External(decode_socket(from)?),
        _ => return Err(DecodeError::Unknown),
    };
    let count = usize::from(from.u8()?);
    if count > RULE_TYPES_MAX {
        return Err(DecodeError::TooLarge);
    }
    let read = |_| Ok(RuleType { rtype: Rtype(from.u16()?), records_max: NonZeroU16::new(from.u16()?) });
    let types = (0..count).map(read).collect::<Result<_, _>>()?;
    Ok(Rule { effect, identity, scope, types })
}

fn encode_identity(identity: &Identity, out: &mut Encoder) {
    let (kind, name) = match identity {
        Identity::Exact(name) => (1, name),
        Identity::Below(above) => (2, above),
    };
    out.u8(kind);
    out.name(name);
}

fn decode_identity(from: &mut Decoder<'_>) -> Result<Identity, DecodeError> {
    match from.u8()? {
        1 => Ok(Identity::Exact(lower_name(from)?)),
        2 => Ok(Identity::Below(lower_name(from)?)),
        _ => Err(DecodeError::Unknown),
    }
}

/// Accepts lower case only: otherwise one state would have two encodings.
fn lower_name(from: &mut Decoder<'_>) -> Result<Name, DecodeError> {
    let name = from.name()?;
    if name.as_bytes().iter().any(u8::is_ascii_uppercase) { Err(DecodeError::Name) } else { Ok(name) }
}

fn encode_limits(limits: &KeyLimits, out: &mut Encoder) {
    encode_identity(&limits.identity, out);
    let numbers = limits.numbers();
    let present = (0..).zip(&numbers).filter(|(_, (_, number))| number.is_some());
    out.u8(present.fold(0, |bitmap, (bit, _)| bitmap | 1 << bit));
    for number in numbers.into_iter().filter_map(|(_, number)| number) {
        out.u32(number);
    }
}

fn decode_limits(from: &mut Decoder<'_>) -> Result<KeyLimits, DecodeError> {
    let mut limits = KeyLimits::none(decode_identity(from)?);
    let bitmap = from.u8()?;
    if bitmap >> 4 != 0 {
        return Err(DecodeError::Unknown);
    }
    for (bit, number) in limits.numbers_mut().into_iter().enumerate() {
        if bitmap >> bit & 1 == 1 {
            *number = Some(from.u32()?);
        }
    }
    Ok(limits)
}
