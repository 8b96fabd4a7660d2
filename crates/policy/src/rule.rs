//! What a rule says: who, where, which types. The rules are BIND's, and so is their text.

use crate::decide::is_never_written;
use crate::external::SocketPath;
use core::fmt;
use core::num::NonZeroU16;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// Whether a rule that matches lets a record pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It does.
    Grant,
    /// It does not.
    Deny,
}

/// Whom a rule concerns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identity {
    /// Who has this name, in lower case.
    Exact(Name),
    /// Who has a name below this one, in lower case: `*.example.` in text.
    Below(Name),
}

/// Which owners a rule concerns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// This name.
    Name(Name),
    /// This name and all below.
    Subdomain(Name),
    /// All names of the zone.
    ZoneSub,
    /// All names below this one: `*.example.` in text.
    Wildcard(Name),
    /// The name of the key.
    SelfName,
    /// The name of the key and all below.
    SelfSub,
    /// All names below that of the key.
    SelfWild,
    /// The name in `in-addr.arpa` or `ip6.arpa` of the address that the update comes from over TCP. The identity is
    /// held against that name too, not against that of the key.
    TcpSelf,
    /// As [`Self::TcpSelf`], of the 6to4 prefix (RFC 3056) of the address.
    SixToFourSelf,
    /// What a daemon says of each owner and type, whoever asks.
    External(SocketPath),
}

/// A type that a rule names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleType {
    /// The type; ANY stands for all.
    pub rtype: Rtype,
    /// Records of this type that an owner may have for one more to be added.
    pub records_max: Option<NonZeroU16>,
}

/// One rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What follows when it matches.
    pub effect: Effect,
    /// Whom it concerns.
    pub identity: Identity,
    /// Which owners.
    pub scope: Scope,
    /// Which types. None: all but SOA, NS and RRSIG, as in BIND.
    pub types: Vec<RuleType>,
}

/// What a key may do at most, whatever rules grant it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyLimits {
    /// Whom it concerns, by the name of the key.
    pub identity: Identity,
    /// Records in the update section of one update.
    pub update_records_max: Option<u32>,
    /// Bytes of one message.
    pub update_bytes_max: Option<u32>,
    /// Records that an owner may have after an update that adds to it.
    pub name_records_max: Option<u32>,
    /// Records that the zone may have after an update that makes it larger.
    pub zone_records_max: Option<u32>,
}

impl Identity {
    /// Whoever has a key.
    #[must_use]
    pub fn anybody() -> Self {
        Self::Below(Name::root())
    }

    /// Reads a name as an identity.
    #[must_use]
    pub fn of_name(name: NameRef<'_>) -> Self {
        match name.parent() {
            Some(parent) if name.is_wildcard() => Self::Below(parent.to_canonical()),
            _ => Self::Exact(name.to_canonical()),
        }
    }

    /// Whether `name` is whom this is about.
    #[must_use]
    pub fn matches(&self, name: NameRef<'_>) -> bool {
        match self {
            Self::Exact(exact) => exact.as_ref() == name,
            Self::Below(above) => is_below(name, above.as_ref()),
        }
    }
}

/// Whether a name is below another and not that name itself.
pub(crate) fn is_below(name: NameRef<'_>, above: NameRef<'_>) -> bool {
    name.as_bytes().len() > above.as_bytes().len() && name.is_at_or_below(above)
}

impl Scope {
    /// The word for it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Name(_) => "name",
            Self::Subdomain(_) => "subdomain",
            Self::ZoneSub => "zonesub",
            Self::Wildcard(_) => "wildcard",
            Self::SelfName => "self",
            Self::SelfSub => "selfsub",
            Self::SelfWild => "selfwild",
            Self::TcpSelf => "tcp-self",
            Self::SixToFourSelf => "6to4-self",
            Self::External(_) => "external",
        }
    }

    /// Whose word it takes, beside the rule.
    #[must_use]
    pub const fn socket(&self) -> Option<&SocketPath> {
        match self {
            Self::External(socket) => Some(socket),
            _ => None,
        }
    }

    /// Whether the identity is that of an address, not of a key.
    #[must_use]
    pub const fn is_of_address(&self) -> bool {
        matches!(self, Self::TcpSelf | Self::SixToFourSelf)
    }
}

impl Rule {
    /// What the rule says of the number of records of a type; `None`: it is not about the type.
    #[must_use]
    pub fn of_type(&self, rtype: Rtype) -> Option<Option<NonZeroU16>> {
        if self.types.is_empty() {
            return (!matches!(rtype, Rtype::SOA | Rtype::NS | Rtype::RRSIG)).then_some(None);
        }
        let named = |wanted: Rtype| self.types.iter().find(|named| named.rtype == wanted);
        // A type that is named beside ANY has its own maximum.
        named(rtype).or_else(|| named(Rtype::ANY)).map(|named| named.records_max)
    }

    /// A type that the rule grants although no rule can ([`is_never_written`]).
    #[must_use]
    pub fn grants_in_vain(&self) -> Option<RuleType> {
        let mut types = self.types.iter().copied();
        if self.effect == Effect::Grant { types.find(|named| is_never_written(named.rtype)) } else { None }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grant => "grant",
            Self::Deny => "deny",
        })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => quoted(f, name),
            Self::Below(above) => wildcard(f, above),
        }
    }
}

/// Names go in quotes: they may hold what would end a word.
fn quoted(f: &mut fmt::Formatter<'_>, name: &Name) -> fmt::Result {
    write!(f, "\"{}\"", Escaped(name))
}

fn wildcard(f: &mut fmt::Formatter<'_>, above: &Name) -> fmt::Result {
    let rest = if above.as_ref().is_root() { String::new() } else { Escaped(above).to_string() };
    write!(f, "\"*.{rest}\"")
}

/// A name whose quotes and backslashes survive a quoted string of `named.conf`, where a backslash stands before either.
struct Escaped<'a>(&'a Name);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name's own form has a backslash before each quote; a quote by its number needs none.
        f.write_str(&self.0.to_string().replace("\\\"", "\\034"))
    }
}

impl fmt::Display for RuleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rtype.mnemonic() {
            Some(mnemonic) => f.write_str(mnemonic)?,
            None => write!(f, "TYPE{}", self.rtype.0)?,
        }
        self.records_max.map_or(Ok(()), |max| write!(f, "({max})"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            // BIND has the socket in the place of the identity.
            Scope::External(socket) => write!(f, "{} \"{socket}\" external *", self.effect)?,
            scope => write!(f, "{} {} {}", self.effect, self.identity, scope.word())?,
        }
        match &self.scope {
            Scope::Name(name) | Scope::Subdomain(name) => {
                f.write_str(" ")?;
                quoted(f, name)?;
            }
            Scope::Wildcard(above) => {
                f.write_str(" ")?;
                wildcard(f, above)?;
            }
            Scope::ZoneSub | Scope::External(_) => {}
            // BIND wants a name here and makes no use of it.
            Scope::SelfName | Scope::SelfSub | Scope::SelfWild | Scope::TcpSelf | Scope::SixToFourSelf => {
                f.write_str(" .")?;
            }
        }
        for rtype in &self.types {
            write!(f, " {rtype}")?;
        }
        f.write_str(";")
    }
}

impl fmt::Display for KeyLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}", self.identity)?;
        for (word, max) in self.numbers() {
            if let Some(max) = max {
                write!(f, " {word} {max}")?;
            }
        }
        f.write_str(";")
    }
}

impl KeyLimits {
    /// Nothing is limited.
    #[must_use]
    pub const fn none(identity: Identity) -> Self {
        Self {
            identity,
            update_records_max: None,
            update_bytes_max: None,
            name_records_max: None,
            zone_records_max: None,
        }
    }

    /// Each number with its word in text.
    #[must_use]
    pub const fn numbers(&self) -> [(&'static str, Option<u32>); 4] {
        [
            ("update-records", self.update_records_max),
            ("update-bytes", self.update_bytes_max),
            ("name-records", self.name_records_max),
            ("zone-records", self.zone_records_max),
        ]
    }

    /// The places of the numbers, in the same order.
    pub(crate) const fn numbers_mut(&mut self) -> [&mut Option<u32>; 4] {
        [
            &mut self.update_records_max,
            &mut self.update_bytes_max,
            &mut self.name_records_max,
            &mut self.zone_records_max,
        ]
    }
}
