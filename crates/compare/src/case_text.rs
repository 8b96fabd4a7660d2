//! Formats a difference for the report.

use super::case::Case;
use super::query::Query;
use super::response::{Reaction, Response, Section, flag};
use std::collections::BTreeSet;
use std::fmt;
use wire::name::NameRef;

/// Names of the flags, in the order of [`Response::flags`].
const FLAGS: [&str; 6] = ["aa", "tc", "rd", "ra", "ad", "cd"];
/// Maximum message size shown in full.
const BYTES_SHOWN_MAX: usize = 300;

/// A difference that no predicate explains.
#[derive(Clone, Debug)]
pub struct Unexplained {
    /// Its class: for each peer, the parts that it has (`+`) or lacks (`-`) compared with ours.
    pub class: String,
    /// The message, our response, and the differences of each peer.
    pub text: String,
}

impl Unexplained {
    /// Describes a case.
    #[must_use]
    pub fn new(case: &Case<'_>) -> Self {
        let peers =
            case.peers.iter().map(|(kind, reaction)| format!("{}: {}", kind.label(), class(case.ours, reaction)));
        Self { class: peers.collect::<Vec<_>>().join("  "), text: case.to_string() }
    }
}

/// Summarizes the difference between two servers.
fn class(ours: &Reaction, theirs: &Reaction) -> String {
    let (Reaction::Response(ours), Reaction::Response(theirs)) = (ours, theirs) else {
        return if ours == theirs { "=".into() } else { format!("{} for {}", reply_label(theirs), reply_label(ours)) };
    };
    let mut words = BTreeSet::new();
    if ours.rcode != theirs.rcode {
        words.insert(format!("{:?} for {:?}", theirs.rcode, ours.rcode));
    }
    for (name, (own, their)) in FLAGS.iter().zip(ours.flags.iter().zip(theirs.flags)) {
        if *own != their {
            words.insert(format!("{}{name}", if their { '+' } else { '-' }));
        }
    }
    if ours.question != theirs.question {
        words.insert("question".into());
    }
    if ours.edns != theirs.edns {
        words.insert("edns".into());
    }
    for (name, own, their) in sections(ours, theirs) {
        words.extend(own.difference(their).map(|rr| format!("-{name}:{:?}", rr.rtype)));
        words.extend(their.difference(own).map(|rr| format!("+{name}:{:?}", rr.rtype)));
    }
    if words.is_empty() { "=".into() } else { words.into_iter().collect::<Vec<_>>().join(" ") }
}

fn reply_label(reaction: &Reaction) -> String {
    match reaction {
        Reaction::Response(response) => format!("{:?}", response.rcode),
        Reaction::Silence => "silence".into(),
        Reaction::Garbage(_) => "garbage".into(),
    }
}

fn sections<'a>(ours: &'a Response, theirs: &'a Response) -> [(&'static str, &'a Section, &'a Section); 3] {
    [
        ("answer", &ours.answer, &theirs.answer),
        ("authority", &ours.authority, &theirs.authority),
        ("additional", &ours.additional, &theirs.additional),
    ]
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = &self.message.bytes;
        write!(f, "{:?} ", self.message.transport)?;
        bytes.iter().take(BYTES_SHOWN_MAX).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if bytes.len() > BYTES_SHOWN_MAX {
            write!(f, "... {} bytes", bytes.len())?;
        }
        if let Some(Query { qname, qclass, qtype, bytes_max, .. }) = Query::parse(self.message) {
            let qname = NameRef::from_bytes(&qname).map_err(|_| fmt::Error)?;
            write!(f, "\n  question {qname} {qclass:?} {qtype:?}, at most {bytes_max} bytes")?;
        }
        write!(f, "\n  ours {}, {} bytes", Summary(self.ours), self.ours_bytes)?;
        if self.whole.is_some() {
            write!(f, ", {} over TCP", self.whole_bytes)?;
        }
        for (kind, peer) in &self.peers {
            let name = kind.label();
            if *peer == self.ours {
                write!(f, "\n  {name:<4} equal")?;
                continue;
            }
            write!(f, "\n  {name:<4} {}", Summary(peer))?;
            let (Reaction::Response(ours), Reaction::Response(theirs)) = (self.ours, *peer) else { continue };
            for (section, ours, theirs) in sections(ours, theirs) {
                ours.difference(theirs).try_for_each(|rr| write!(f, "\n    only ours  {section} {rr:?}"))?;
                theirs.difference(ours).try_for_each(|rr| write!(f, "\n    only {name} {section} {rr:?}"))?;
            }
        }
        writeln!(f)
    }
}

/// A reply in one line.
struct Summary<'a>(&'a Reaction);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let response = match self.0 {
            Reaction::Response(response) => response,
            Reaction::Silence => return f.write_str("silence"),
            Reaction::Garbage(bytes) => return write!(f, "garbage of {} bytes", bytes.len()),
        };
        write!(f, "{:?}", response.rcode)?;
        for (name, set) in FLAGS.iter().zip(response.flags) {
            if set {
                write!(f, " {name}")?;
            }
        }
        let (answer, authority) = (response.answer.len(), response.authority.len());
        write!(f, ", {answer} answer, {authority} authority, {} additional", response.additional.len())?;
        f.write_str(match response.edns {
            None => ", no OPT",
            Some(false) => ", OPT",
            Some(true) => ", OPT with DO",
        })?;
        if response.question.is_empty() {
            f.write_str(", no question")?;
        }
        if response.duplicate_count > 0 {
            write!(f, ", {} twice", response.duplicate_count)?;
        }
        if response.flags[flag::TC] { f.write_str(", records of a truncated response are ignored") } else { Ok(()) }
    }
}
