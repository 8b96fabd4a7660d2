//! A rule: which key, which owners, which types. Rules and their text are those of BIND.

use crate::external::SocketPath;
use core::fmt;
use core::num::NonZeroU16;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// Whether a matching rule allows the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Allows it.
    Grant,
    /// Denies it.
    Deny,
}

/// The keys that a rule applies to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identity {
    /// The key of this name, in lower case.
    Exact(Name),
    /// All keys below this name, in lower case: `*.example.` in text.
    Below(Name),
}

/// The owners that a rule applies to.
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
    /// The name in `in-addr.arpa` or `ip6.arpa` of the source address of an update over TCP. The identity is compared
    /// to that name too, not to the name of the key.
    TcpSelf,
    /// Like [`Self::TcpSelf`], with the name of the address's 6to4 prefix (RFC 3056).
    SixToFourSelf,
    /// The owners that a daemon grants. Applies to all keys.
    External(SocketPath),
}

/// A type in a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleType {
    /// The type; ANY stands for all.
    pub rtype: Rtype,
    /// Records of this type that an owner may have.
    pub records_max: Option<NonZeroU16>,
}

/// One rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The effect if the rule matches.
    pub effect: Effect,
    /// The keys it applies to.
    pub identity: Identity,
    /// The owners it applies to.
    pub scope: Scope,
    /// The types it applies to. If empty: all but SOA, NS and RRSIG, as in BIND.
    pub types: Vec<RuleType>,
}

/// Limits for keys, independent of rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyLimits {
    /// The keys they apply to.
    pub identity: Identity,
    /// Records in the update section of one update.
    pub update_records_max: Option<u32>,
    /// Bytes of one message.
    pub update_bytes_max: Option<u32>,
    /// Records that an owner may have after an update that adds records to it.
    pub name_records_max: Option<u32>,
    /// Records that the zone may have after an update that makes it larger.
    pub zone_records_max: Option<u32>,
}

impl Identity {
    /// Every key.
    #[must_use]
    pub fn any_key() -> Self {
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

    /// Whether `name` is among the keys.
    #[must_use]
    pub fn matches(&self, name: NameRef<'_>) -> bool {
        match self {
            Self::Exact(exact) => exact.as_ref() == name,
            Self::Below(above) => is_below(name, above.as_ref()),
        }
    }
}

/// Whether `name` is below `above` and not equal to it.
pub(crate) fn is_below(name: NameRef<'_>, above: NameRef<'_>) -> bool {
    name.as_bytes().len() > above.as_bytes().len() && name.is_at_or_below(above)
}

impl Scope {
    /// The keyword in text.
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

    /// The socket of the daemon of an external rule.
    #[must_use]
    pub const fn socket(&self) -> Option<&SocketPath> {
        match self {
            Self::External(socket) => Some(socket),
            _ => None,
        }
    }

    /// Whether the identity is compared to the name of an address, not of a key.
    #[must_use]
    pub const fn is_of_address(&self) -> bool {
        matches!(self, Self::TcpSelf | Self::SixToFourSelf)
    }
}

impl Rule {
    /// The maximum number of records of a type, if it has one. Outer `None`: the rule does not apply to the type.
    #[must_use]
    pub fn of_type(&self, rtype: Rtype) -> Option<Option<NonZeroU16>> {
        if self.types.is_empty() {
            return (!matches!(rtype, Rtype::SOA | Rtype::NS | Rtype::RRSIG)).then_some(None);
        }
        let named = |wanted: Rtype| self.types.iter().find(|named| named.rtype == wanted);
        // A type that is listed next to ANY has its own maximum.
        named(rtype).or_else(|| named(Rtype::ANY)).map(|named| named.records_max)
    }

    /// A type in a `grant` rule that no rule can grant ([`is_never_written`]).
    #[must_use]
    pub fn ineffective_grant(&self) -> Option<RuleType> {
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

/// Writes a name in quotes: it may contain characters that would end a word.
fn quoted(f: &mut fmt::Formatter<'_>, name: &Name) -> fmt::Result {
    write!(f, "\"{}\"", Escaped(name))
}

fn wildcard(f: &mut fmt::Formatter<'_>, above: &Name) -> fmt::Result {
    let rest = if above.as_ref().is_root() { String::new() } else { Escaped(above).to_string() };
    write!(f, "\"*.{rest}\"")
}

/// A name escaped for a quoted string of `named.conf`, in which a backslash escapes quotes.
struct Escaped<'a>(&'a Name);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text form of a name writes a quote as `\"`; `\034` needs no escaping in a quoted string.
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
            // BIND puts the socket in the place of the identity.
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
            // BIND requires a name here and ignores it.
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
    /// Limits nothing.
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

    /// Each number with its keyword in text.
    #[must_use]
    pub const fn numbers(&self) -> [(&'static str, Option<u32>); 4] {
        [
            ("update-records", self.update_records_max),
            ("update-bytes", self.update_bytes_max),
            ("name-records", self.name_records_max),
            ("zone-records", self.zone_records_max),
        ]
    }

    /// The numbers, in the order of [`Self::numbers`].
    pub(crate) const fn numbers_mut(&mut self) -> [&mut Option<u32>; 4] {
        [
            &mut self.update_records_max,
            &mut self.update_bytes_max,
            &mut self.name_records_max,
            &mut self.zone_records_max,
        ]
    }
}

/// Types that a client may neither add nor delete.
///
/// - RRSIG, NSEC, NSEC3: the signer makes them; RFC 3007 3.1.1 forbids NSEC's predecessor in updates for that reason.
///   They cannot be right in an unsigned zone. BIND accepts RRSIGs at the apex, made by key signing keys that are kept
///   offline; that is not supported here.
/// - NSEC3PARAM announces a complete NSEC3 chain (RFC 5155 4), which an unsigned zone does not have.
/// - DNSKEY at the apex marks the zone as signed elsewhere ("presigned"), so that every later update would be refused.
///   At other names it has no meaning (RFC 4034 2). A presigned zone is loaded whole, from a file or by transfer.
///
/// DS, CDS, CDNSKEY and ZONEMD may be updated like other data. The prescan refuses a DS at the apex.
#[must_use]
pub const fn is_never_written(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM | Rtype::DNSKEY)
}
