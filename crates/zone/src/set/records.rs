//! All records of a zone in order.

use crate::record::RecordRef;
use crate::vertex::{LeafNames, Rdatas, RrsetRef, Rrsets, Vertex};
use core::cmp::Ordering;
use core::iter::Peekable;
use store::{Key, Tree, View};
use wire::name::NameRef;
use wire::number::Rtype;

/// Iterator over the records of a zone: owners in canonical order (RFC 4034 6.1), types in ascending order, rdatas in
/// canonical order, the RRSIGs of an RRset behind it.
pub struct Records<'a> {
    names: Peekable<store::Leaves<'a, LeafNames>>,
    hashed: Peekable<store::Leaves<'a, LeafNames>>,
    owner: NameRef<'a>,
    rrsets: Rrsets<'a>,
    rrset: Option<RrsetRef<'a>>,
    rdatas: Rdatas<'a>,
    rrsigs: Rdatas<'a>,
}

impl<'a> Records<'a> {
    pub(super) fn new(store: View<'a, LeafNames>, names: Tree, hashed: Tree) -> Self {
        Self {
            names: store.iter(names).peekable(),
            hashed: store.iter(hashed).peekable(),
            owner: NameRef::ROOT,
            rrsets: Rrsets::default(),
            rrset: None,
            rdatas: Rdatas::default(),
            rrsigs: Rdatas::default(),
        }
    }

    /// Starts at the records of `first`, or at the next owner if `first` has none.
    pub(super) fn from(store: View<'a, LeafNames>, names: Tree, hashed: Tree, first: &Key) -> Self {
        Self {
            names: store.iter_from(names, first).peekable(),
            hashed: store.iter_from(hashed, first).peekable(),
            ..Self::new(store, Tree::EMPTY, Tree::EMPTY)
        }
    }

    /// The next leaf of both trees in the order of owners.
    fn next_vertex(&mut self) -> Option<Vertex<'a>> {
        let names = self.names.peek().map(|leaf| Vertex::from_leaf(leaf).owner());
        let hashed = self.hashed.peek().map(|leaf| Vertex::from_leaf(leaf).owner());
        let first = match (names, hashed) {
            (Some(name), Some(hashed)) if name.cmp(&hashed) == Ordering::Greater => &mut self.hashed,
            (None, _) => &mut self.hashed,
            _ => &mut self.names,
        };
        first.next().map(Vertex::from_leaf)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordRef<'a>;

    fn next(&mut self) -> Option<RecordRef<'a>> {
        loop {
            if let Some(rrset) = self.rrset {
                if let Some(rdata) = self.rdatas.next() {
                    return Some(RecordRef { owner: self.owner, rtype: rrset.rtype, ttl: rrset.ttl, rdata });
                }
                if let Some(rdata) = self.rrsigs.next() {
                    let (rtype, ttl) = (Rtype::RRSIG, rrset.rrsig_ttl);
                    return Some(RecordRef { owner: self.owner, rtype, ttl, rdata });
                }
            }
            self.rrset = self.rrsets.next();
            match self.rrset {
                Some(rrset) => (self.rdatas, self.rrsigs) = (rrset.rdatas(), rrset.rrsigs()),
                None => {
                    let vertex = self.next_vertex()?;
                    (self.owner, self.rrsets) = (vertex.owner(), vertex.entries());
                }
            }
        }
    }
}
