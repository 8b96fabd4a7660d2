//! Where servers may differ: each predicate names one difference and the rule that settles it for ours.

use super::response::Got;
use crate::trace::Recorded;
use std::fmt;
use wire::name::NameRef;
use wire::number::Rtype;

/// One judged message.
pub struct Case<'a> {
    /// As it was sent.
    pub message: &'a Recorded,
    /// What ours did.
    pub ours: &'a Got,
    /// What NSD, Knot and BIND did.
    pub peers: [Option<&'a Got>; 3],
}

impl fmt::Display for Case<'_> {
    /// The octets, what ours answered, and in what each peer differs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.message.transport)?;
        self.message.octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))?;
        if let Some((qname, qtype)) = self.question() {
            write!(f, "\n  question {qname} {qtype:?}")?;
        }
        write!(f, "\n  ours {}", Summary(self.ours))?;
        for (name, peer) in ["nsd ", "knot", "bind"].iter().zip(self.peers) {
            let Some(peer) = peer else { continue };
            if peer == self.ours {
                write!(f, "\n  {name} equal")?;
                continue;
            }
            write!(f, "\n  {name} {}", Summary(peer))?;
            let (Got::Response(ours), Got::Response(theirs)) = (self.ours, peer) else { continue };
            let sections = [
                ("answer", &ours.answer, &theirs.answer),
                ("authority", &ours.authority, &theirs.authority),
                ("additional", &ours.additional, &theirs.additional),
            ];
            for (section, ours, theirs) in sections {
                ours.difference(theirs).try_for_each(|rr| write!(f, "\n    only ours  {section} {rr:?}"))?;
                theirs.difference(ours).try_for_each(|rr| write!(f, "\n    only theirs {section} {rr:?}"))?;
            }
        }
        writeln!(f)
    }
}

/// One line about what came back.
struct Summary<'a>(&'a Got);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let response = match self.0 {
            Got::Response(response) => response,
            Got::Silence => return f.write_str("silence"),
            Got::Garbage(octets) => return write!(f, "garbage of {} octets", octets.len()),
        };
        write!(f, "{:?}", response.rcode)?;
        for (name, set) in ["aa", "tc", "rd", "ra", "ad", "cd"].iter().zip(response.flags) {
            if set {
                write!(f, " {name}")?;
            }
        }
        let counts = [response.answer.len(), response.authority.len(), response.additional.len()];
        write!(f, " {counts:?} edns {:?} question {}", response.edns, response.question.len())
    }
}

impl Case<'_> {
    /// QNAME and QTYPE, where the message has a plain question.
    #[must_use]
    pub fn question(&self) -> Option<(NameRef<'_>, Rtype)> {
        let (qname, rest) = NameRef::split_from(self.message.octets.get(12..)?).ok()?;
        Some((qname, Rtype(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]))))
    }
}

/// A difference that is allowed, and why ours is right.
struct Predicate {
    name: &'static str,
    holds: fn(&Case<'_>) -> bool,
}

/// In order; the first that holds names the difference.
const PREDICATES: &[Predicate] = &[];

/// The first predicate that covers the difference.
#[must_use]
pub fn explain(case: &Case<'_>) -> Option<&'static str> {
    PREDICATES.iter().find(|predicate| (predicate.holds)(case)).map(|predicate| predicate.name)
}
