//! Looks up a name and type in a zone: step 3 of the algorithm in RFC 1034 4.3.2, for one name.
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
//! [`crate::answer`] decides on the sections of the response.

use crate::key;
use crate::set::Zone;
use crate::vertex::{RrsetRef, Vertex};
use store::{Key, Path, Trail};
use wire::limits::NAME_LABELS_MAX;
use wire::name::NameRef;
use wire::number::Rtype;

/// The outcome of a lookup. Callers must handle all variants.
#[derive(Clone, Copy)]
pub enum Outcome<'a> {
    /// There is an RRset of the type.
    Positive {
        /// The RRset. For QTYPE ANY one RRset of the name (RFC 8482 4.1); for QTYPE RRSIG the first one with RRSIGs,
        /// which are the answer.
        rrset: RrsetRef<'a>,
        /// The owner of the RRset.
        source: Source,
    },
    /// The name exists, but has no RRset of the type.
    NoData {
        /// The position of the name or of the source of synthesis; `None` if that is an empty non-terminal.
        vertex: Option<Vertex<'a>>,
        /// The owner that has no such RRset.
        source: Source,
    },
    /// The name does not exist.
    NxDomain {
        /// Number of labels of the closest encloser.
        encloser_labels: usize,
    },
    /// The name is at or below a zone cut.
    Referral {
        /// The position of the zone cut.
        cut: Vertex<'a>,
    },
    /// The name has a CNAME, and the query is for another type.
    Alias {
        /// The CNAME RRset.
        rrset: RrsetRef<'a>,
        /// The owner of the CNAME.
        source: Source,
    },
    /// The name is below a name with a DNAME (RFC 6672).
    Redirect {
        /// The position of the DNAME.
        vertex: Vertex<'a>,
        /// The DNAME RRset.
        rrset: RrsetRef<'a>,
    },
}

/// The owner of RRsets in an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The name itself.
    Exact,
    /// The wildcard of its closest encloser, the source of synthesis (RFC 4592 3.3.1).
    Wildcard {
        /// Number of labels of the closest encloser.
        encloser_labels: usize,
    },
}

/// Looks up a name at or below the apex of the zone.
#[must_use]
pub fn lookup<'a>(zone: &Zone<'a>, qname: NameRef<'_>, qtype: Rtype) -> Outcome<'a> {
    let mut key = key::of(qname);
    let trail = zone.store().trail(zone.names(), &key);
    lookup_key(zone, qname, &mut key, qtype, &trail, &mut Path::new())
}

/// Like [`lookup`], with a key that is overwritten, the trail of the name in the zone, and a reusable path.
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
        // RFC 4035 3.1.4.1: DS belongs to the parent side of the cut.
        if qtype != Rtype::DS {
            if vertex.is_zone_cut() {
                return Outcome::Referral { cut: vertex };
            }
        } else if qname.as_bytes().len() == zone.apex().as_bytes().len() {
            // RFC 4035 3.1.4.1: DS of the apex belongs to the zone above, so here it is "no data".
            return Outcome::NoData { vertex: Some(vertex), source: Source::Exact };
        }
        return at_vertex(vertex, qtype, Source::Exact);
    }
    let label_count = qname.label_count();
    let encloser_labels = existing_labels(qname, path);
    if encloser_labels == label_count {
        // RFC 8020 2, RFC 4592 2.2.2: an empty non-terminal exists, so no wildcard applies to it.
        return Outcome::NoData { vertex: None, source: Source::Exact };
    }
    // RFC 4592 3.3.1: only the wildcard of the closest encloser may be the source of synthesis.
    if wildcard_of(qname, encloser_labels, qkey).is_none() {
        return Outcome::NxDomain { encloser_labels };
    }
    let source = Source::Wildcard { encloser_labels };
    match zone.vertex(qkey) {
        Some(vertex) => at_vertex(vertex, qtype, source),
        // RFC 4592 4.7: a source of synthesis that is an empty non-terminal gives NoData.
        None if zone.has_descendant(qkey) => Outcome::NoData { vertex: None, source },
        None => Outcome::NxDomain { encloser_labels },
    }
}

/// The position of a name, from its trail in the zone. A name with records needs no second descent, but then its
/// neighbors are unknown.
pub(crate) fn locate<'a>(zone: &Zone<'a>, name: NameRef<'_>, key: &Key, trail: &Trail, path: &mut Path<'a>) {
    let store = zone.store();
    let leaf = store.trail_leaf(trail).map(Vertex::from_leaf);
    if leaf.is_none_or(|vertex| vertex.owner() != name) || !store.path_of_trail(trail, path) {
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

/// The ancestor of `name` with this number of labels, not counting the root label; `name` itself if it has fewer.
#[must_use]
pub fn ancestor(name: NameRef<'_>, labels: usize) -> NameRef<'_> {
    name.strip(name.label_count().saturating_sub(labels)).unwrap_or(name)
}

/// Writes the key of the wildcard below the ancestor of `name` with `labels` labels.
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

/// The outcome at a zone cut or DNAME above the name. The one nearest to the apex decides; the names below it are
/// occluded.
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

/// The outcome at one owner for a type.
fn at_vertex(vertex: Vertex<'_>, qtype: Rtype, source: Source) -> Outcome<'_> {
    let found = match qtype {
        // RFC 8482 4.1: one RRset is a sufficient answer.
        Rtype::ANY => vertex.rrsets().next(),
        // All signatures of a name would amplify as much as ANY. RRsets are sent with their own signatures anyway.
        Rtype::RRSIG => vertex.entries().find(RrsetRef::is_signed),
        _ => vertex.rrset(qtype),
    };
    if let Some(rrset) = found {
        return Outcome::Positive { rrset, source };
    }
    // RFC 1034 3.6.2. The types that RFC 4035 2.5 allows next to a CNAME were found above.
    let alias = if vertex.has_cname() { vertex.rrset(Rtype::CNAME) } else { None };
    match alias {
        Some(rrset) => Outcome::Alias { rrset, source },
        None => Outcome::NoData { vertex: Some(vertex), source },
    }
}

/// The number of labels of the closest encloser of a name without records. In canonical order, the names below an
/// ancestor are consecutive, so a neighbor of the name shares the most labels with it.
fn existing_labels(name: NameRef<'_>, path: &Path<'_>) -> usize {
    let shared = |leaf: Option<&[u8]>| leaf.map_or(0, |leaf| shared_labels(name, Vertex::from_leaf(leaf).owner()));
    shared(path.pred()).max(shared(path.succ()))
}

/// The number of labels from the right that two names share.
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

/// The offsets of a name's labels, and their number.
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
