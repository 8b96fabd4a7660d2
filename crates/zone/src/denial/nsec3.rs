//! NSEC3 records of a signed zone, in the order of their hashes (RFC 5155).

use super::proof::Proof;
use crate::key;
use crate::limits::NSEC3_STEPS_MAX;
use crate::lookup::ancestor;
use crate::nsec3::Nsec3Params;
use crate::set::Zone;
use crate::vertex::Vertex;
use store::Key;
use wire::limits::NAME_BYTES_MAX;
use wire::name::NameRef;
use wire::number::Rtype;

/// The chain of NSEC3 records in use.
pub(super) struct Chain<'z, 'a> {
    zone: &'z Zone<'a>,
    params: Nsec3Params<'a>,
}

impl<'z, 'a> Chain<'z, 'a> {
    pub(super) fn new(zone: &'z Zone<'a>) -> Option<Self> {
        zone.nsec3_params().map(|params| Self { zone, params })
    }

    /// The NSEC3 of a name.
    pub(super) fn matching(&self, name: NameRef<'_>) -> Option<Proof<'a>> {
        let vertex = self.zone.hashed_vertex(&self.hashed_key(name))?;
        self.proof(&vertex)
    }

    /// The NSEC3 that matches the wildcard below the ancestor of `name` with `labels` labels.
    pub(super) fn matching_wildcard(&self, name: NameRef<'_>, labels: usize) -> Option<Proof<'a>> {
        let mut bytes = [0; NAME_BYTES_MAX];
        self.matching(wildcard(name, labels, &mut bytes)?)
    }

    /// The NSEC3 that covers the wildcard below the ancestor of `name` with `labels` labels.
    pub(super) fn covering_wildcard(&self, name: NameRef<'_>, labels: usize) -> Option<Proof<'a>> {
        let mut bytes = [0; NAME_BYTES_MAX];
        self.covering(wildcard(name, labels, &mut bytes)?)
    }

    /// The NSEC3 that covers the next closer name, which has one label more than `labels`.
    pub(super) fn covering_next_closer(&self, name: NameRef<'_>, labels: usize) -> Option<Proof<'a>> {
        self.covering(ancestor(name, labels + 1))
    }

    /// The NSEC3 of the ancestor of `name` with `labels` labels, or of its nearest ancestor with one, and the number of
    /// labels of that name.
    ///
    /// An opt-out zone may lack NSEC3 for names that exist only because of unsigned delegations. If a name has one, its
    /// ancestors have one too (RFC 5155 7.1), so binary search finds the nearest with few hashes.
    pub(super) fn closest_provable(&self, name: NameRef<'_>, labels: usize) -> Option<(Proof<'a>, usize)> {
        if let Some(proof) = self.matching(ancestor(name, labels)) {
            return Some((proof, labels));
        }
        let (mut provable, mut unprovable) = (self.zone.apex().label_count(), labels);
        let mut found = self.matching(self.zone.apex())?;
        while unprovable > provable + 1 {
            let middle = provable + (unprovable - provable) / 2;
            match self.matching(ancestor(name, middle)) {
                Some(proof) => (found, provable) = (proof, middle),
                None => unprovable = middle,
            }
        }
        Some((found, provable))
    }

    /// The NSEC3 with the last hash before that of a name.
    fn covering(&self, name: NameRef<'_>) -> Option<Proof<'a>> {
        let (store, tree) = (self.zone.store(), self.zone.hashed());
        let mut key = self.hashed_key(name);
        let mut wrapped = false;
        for _ in 0..NSEC3_STEPS_MAX {
            let Some(leaf) = store.pred(tree, &key) else {
                // RFC 5155 3.1.7: the last of the chain covers the hashes before the first.
                if core::mem::replace(&mut wrapped, true) {
                    return None;
                }
                key::write(self.zone.apex(), &mut key);
                key::push_above_all(&mut key);
                continue;
            };
            let vertex = Vertex::from_leaf(leaf);
            if let Some(proof) = self.proof(&vertex) {
                return Some(proof);
            }
            key::write(vertex.owner(), &mut key);
        }
        None
    }

    /// The NSEC3 at a position, if it belongs to this chain.
    fn proof(&self, vertex: &Vertex<'a>) -> Option<Proof<'a>> {
        let rrset = vertex.rrset(Rtype::NSEC3)?;
        let is_of_chain = rrset.rdatas().any(|rdata| Nsec3Params::from_rdata(rdata) == Ok(self.params));
        is_of_chain.then_some(Proof { owner: vertex.owner(), rrset })
    }

    fn hashed_key(&self, name: NameRef<'_>) -> Key {
        let mut key = key::of(self.zone.apex());
        key::push_label(&mut key, &self.params.label(name));
        key
    }
}

/// Writes the wildcard below the ancestor of `name` with `labels` labels to `bytes`; `None` if it is too long.
fn wildcard<'o>(name: NameRef<'_>, labels: usize, bytes: &'o mut [u8; NAME_BYTES_MAX]) -> Option<NameRef<'o>> {
    let encloser = ancestor(name, labels).as_bytes();
    let bytes = bytes.get_mut(..2 + encloser.len())?;
    bytes[..2].copy_from_slice(b"\x01*");
    bytes[2..].copy_from_slice(encloser);
    NameRef::from_bytes(bytes).ok()
}
