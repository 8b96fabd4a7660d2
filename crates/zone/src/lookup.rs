//! What a zone has to say about a name and a type: the algorithm of RFC 1034 4.3.2, step 3, for one name.
//!
//! ```text
//!   locate the name: itself, its ancestors, its neighbours in canonical order
//!     an ancestor is a zone cut      -> Referral        (what is below is occluded)
//!     an ancestor has a DNAME        -> Redirect
//!     the name itself                -> Referral | Positive | Alias | NoData
//!     a name below it                -> NoData          (empty non-terminal)
//!     *.closest_encloser             -> Positive | Alias | NoData, synthesised (RFC 4592)
//!     none of these                  -> NxDomain
//! ```
//!
//! Which section what goes into is for [`crate::answer`] to say.

use crate::key;
use crate::set::Zone;
use crate::vertex::{RrsetRef, Vertex};
use store::{Key, Path, Trail};
use wire::limits::NAME_LABELS_MAX;
use wire::name::NameRef;
use wire::number::Rtype;

/// What a zone has to say. Closed: every caller handles all of it.
#[derive(Clone, Copy)]
pub enum Outcome<'a> {
    /// There is what was asked for.
    Positive {
        /// The RRset; for QTYPE ANY one of them (RFC 8482 4.1); for QTYPE RRSIG the first that has RRSIGs, which are
        /// the answer.
        rrset: RrsetRef<'a>,
        /// Whose it is.
        source: Source,
    },
    /// The name exists and has nothing of the type.
    NoData {
        /// The place of the name, or that of the source of synthesis; `None` when that is an empty non-terminal.
        vertex: Option<Vertex<'a>>,
        /// Whose it would be.
        source: Source,
    },
    /// The name does not exist.
    NxDomain {
        /// Labels of the closest encloser.
        encloser_labels: usize,
    },
    /// The name is at or below a zone cut.
    Referral {
        /// The place of the zone cut.
        cut: Vertex<'a>,
    },
    /// The name has a CNAME, and something else was asked for.
    Alias {
        /// The CNAME RRset.
        rrset: RrsetRef<'a>,
        /// Whose it is.
        source: Source,
    },
    /// The name is below one that has a DNAME (RFC 6672).
    Redirect {
        /// The place of the DNAME.
        vertex: Vertex<'a>,
        /// The DNAME RRset.
        rrset: RrsetRef<'a>,
    },
}

/// Where RRsets come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The name itself.
    Exact,
    /// The wildcard of its closest encloser, the source of synthesis (RFC 4592 3.3.1).
    Wildcard {
        /// Labels of the closest encloser.
        encloser_labels: usize,
    },
}

/// Looks a name up that is at or below the apex of the zone.
#[must_use]
pub fn lookup<'a>(zone: &Zone<'a>, qname: NameRef<'_>, qtype: Rtype) -> Outcome<'a> {
    let mut key = key::of(qname);
    let trail = zone.store().trail(zone.names(), &key);
    lookup_key(zone, qname, &mut key, qtype, &trail, &mut Path::new())
}

/// [`lookup`] with a key that is at hand and is spent, its trail in the names of the zone, and a path to be reused.
pub(crate) fn lookup_key<'a>(
    zone: &Zone<'a>,
    qname: NameRef<'_>,
    qkey: &mut Key,
    qtype: Rtype,
    trail: &Trail,
    path: &mut Path<'a>,
) -> Outcome<'a> {
    locate(zone, qname, qkey, trail, path);
    if let Some(outcome) = above(path) {
        return outcome;
    }
    if let Some(vertex) = exact(path) {
        // RFC 4035 3.1.4.1: DS belongs to the parent's side of the cut.
        if qtype != Rtype::DS {
            if vertex.is_zone_cut() {
                return Outcome::Referral { cut: vertex };
            }
        } else if qname.as_bytes().len() == zone.apex().as_bytes().len() {
            // The same holds at the apex, whose DS belongs to the zone above: "no data" (RFC 4035 3.1.4.1).
            return Outcome::NoData { vertex: Some(vertex), source: Source::Exact };
        }
        return at_vertex(vertex, qtype, Source::Exact);
    }
    let label_count = qname.label_count();
    let encloser_labels = existing_labels(qname, path);
    if encloser_labels == label_count {
        // RFC 8020 2, RFC 4592 2.2.2: an empty non-terminal exists, so no wildcard stands for it.
        return Outcome::NoData { vertex: None, source: Source::Exact };
    }
    // RFC 4592 3.3.1: only the wildcard of the closest encloser may be the source of synthesis.
    if wildcard_of(qname, encloser_labels, qkey).is_none() {
        return Outcome::NxDomain { encloser_labels };
    }
    let source = Source::Wildcard { encloser_labels };
    match zone.vertex(qkey) {
        Some(vertex) => at_vertex(vertex, qtype, source),
        // RFC 4592 4.7: a source of synthesis that is an empty non-terminal makes no data.
        None if zone.has_descendant(qkey) => Outcome::NoData { vertex: None, source },
        None => Outcome::NxDomain { encloser_labels },
    }
}

/// The place of a name, from its trail in the names of the zone. A name that has records is found without going down
/// again; its neighbours are then not known.
pub(crate) fn locate<'a>(zone: &Zone<'a>, name: NameRef<'_>, key: &Key, trail: &Trail, path: &mut Path<'a>) {
    let store = zone.store();
    let reached = store.reached(trail).map(Vertex::from_leaf);
    if reached.is_none_or(|vertex| vertex.owner() != name) || !store.retrace(trail, path) {
        store.locate_along(zone.names(), key, trail, path);
    }
}

/// The wildcard that matches a name without records (RFC 4592 3.3.1). `path` is the position of the name, and nothing
/// above it is occluded. `key` is overwritten.
pub(crate) fn source_of_synthesis<'a>(
    zone: &Zone<'a>,
    name: NameRef<'_>,
    path: &Path<'a>,
    key: &mut Key,
) -> Option<Vertex<'a>> {
    let encloser_labels = existing_labels(name, path);
    // RFC 4592 2.2.2: an empty non-terminal exists.
    if encloser_labels == name.label_count() {
        return None;
    }
    wildcard_of(name, encloser_labels, key)?;
    zone.vertex(key)
}

/// The ancestor of `name` that has `labels` labels, the root label not counted; `name` itself when it has no more.
#[must_use]
pub fn ancestor(name: NameRef<'_>, labels: usize) -> NameRef<'_> {
    name.strip(name.label_count().saturating_sub(labels)).unwrap_or(name)
}

/// Writes the key of the wildcard under the ancestor of `name` that has `labels` labels.
fn wildcard_of(name: NameRef<'_>, labels: usize, key: &mut Key) -> Option<()> {
    let encloser = ancestor(name, labels);
    // RFC 1035 2.3.4: no name has more than 255 bytes, so there is no such wildcard.
    if encloser.as_bytes().len() + 2 > wire::limits::NAME_BYTES_MAX {
        return None;
    }
    key::write(encloser, key);
    key::push_label(key, b"*");
    Some(())
}

/// What a zone cut or a DNAME above the name says; that nearest the apex counts, what is below it is occluded.
fn above<'a>(path: &Path<'a>) -> Option<Outcome<'a>> {
    let occluding = path.prefixes().iter().filter(|leaf| Vertex::is_occluding(leaf));
    occluding.map(|leaf| Vertex::from_leaf(leaf)).find_map(|vertex| {
        if vertex.is_zone_cut() {
            return Some(Outcome::Referral { cut: vertex });
        }
        if vertex.has_dname() {
            return vertex.rrset(Rtype::DNAME).map(|rrset| Outcome::Redirect { vertex, rrset });
        }
        None
    })
}

fn exact<'a>(path: &Path<'a>) -> Option<Vertex<'a>> {
    path.exact().map(Vertex::from_leaf)
}

/// What one place has of a type.
fn at_vertex(vertex: Vertex<'_>, qtype: Rtype, source: Source) -> Outcome<'_> {
    let found = match qtype {
        // RFC 8482 4.1: one RRset is enough of an answer.
        Rtype::ANY => vertex.rrsets().next(),
        // All signatures of a name together would be as good an amplifier as ANY; RRsets have theirs beside them.
        Rtype::RRSIG => vertex.entries().find(RrsetRef::is_signed),
        _ => vertex.rrset(qtype),
    };
    if let Some(rrset) = found {
        return Outcome::Positive { rrset, source };
    }
    // RFC 1034 3.6.2; RFC 4035 2.5 has what may stand beside a CNAME, and was found above.
    let alias = if vertex.has_cname() { vertex.rrset(Rtype::CNAME) } else { None };
    match alias {
        Some(rrset) => Outcome::Alias { rrset, source },
        None => Outcome::NoData { vertex: Some(vertex), source },
    }
}

/// How many of the rightmost labels of a name that has no records make a name that exists.
///
/// In canonical order the names below an ancestor stand together, so whatever shares most labels with a name is one of
/// its neighbours.
fn existing_labels(name: NameRef<'_>, path: &Path<'_>) -> usize {
    let shared = |leaf: Option<&[u8]>| leaf.map_or(0, |leaf| shared_labels(name, Vertex::from_leaf(leaf).owner()));
    shared(path.pred()).max(shared(path.succ()))
}

/// How many labels from the right two names share.
fn shared_labels(a: NameRef<'_>, b: NameRef<'_>) -> usize {
    let ((a_starts, a_count), (b_starts, b_count)) = (label_starts(a), label_starts(b));
    let label = |name: NameRef<'_>, start: u8| {
        let start = usize::from(start);
        start..start + 1 + usize::from(name.as_bytes()[start])
    };
    let pairs = a_starts[..a_count].iter().rev().zip(b_starts[..b_count].iter().rev());
    pairs
        .take_while(|&(&a_start, &b_start)| {
            a.as_bytes()[label(a, a_start)].eq_ignore_ascii_case(&b.as_bytes()[label(b, b_start)])
        })
        .count()
}

/// Where the labels of a name start, and how many there are.
fn label_starts(name: NameRef<'_>) -> ([u8; NAME_LABELS_MAX], usize) {
    let mut starts = [0; NAME_LABELS_MAX];
    let (mut count, mut at) = (0, 0usize);
    for label in name.labels() {
        starts[count] = at as u8;
        count += 1;
        at += 1 + label.len();
    }
    (starts, count)
}
