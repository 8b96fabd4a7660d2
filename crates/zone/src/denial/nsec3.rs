//! NSEC3: the records of a signed zone's names in the order of their hashes (RFC 5155).

use super::Proof;
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

    /// The NSEC3 that matches the wildcard under the ancestor of `name` that has `labels` labels.
    pub(super) fn matching_wildcard(&self, name: NameRef<'_>, labels: usize) -> Option<Proof<'a>> {
        let mut bytes = [0; NAME_BYTES_MAX];
        self.matching(wildcard(name, labels, &mut bytes)?)
    }

    /// The NSEC3 that covers the wildcard under the ancestor of `name` that has `labels` labels.
    pub(super) fn covering_wildcard(&self, name: NameRef<'_>, labels: usize) -> Option<Proof<'a>> {
        let mut bytes = [0; NAME_BYTES_MAX];
        self.covering(wildcard(name, labels, &mut bytes)?)
    }

    /// The NSEC3 that covers the ancestor of `name` with one label more than `labels`: the next closer name.
    pub(super) fn covering_next_closer(&self, name: NameRef<'_>, labels: usize) -> Option<Proof<'a>> {
        self.covering(ancestor(name, labels + 1))
    }

    /// The NSEC3 of the ancestor of `name` that has `labels` labels, or of the nearest above it that has one; and how
    /// many labels that has.
    ///
    /// An opt-out zone need not have NSEC3 for names that are there only for unsigned delegations. Where a name has one
    /// its ancestors have (RFC 5155 7.1), so halving finds the nearest with few hashes.
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

    /// The NSEC3 whose hash is the last before that of a name.
    fn covering(&self, name: NameRef<'_>) -> Option<Proof<'a>> {
        let (store, tree) = (self.zone.store(), self.zone.hashed());
        let mut key = self.hashed_key(name);
        let mut wrapped = false;
        for _ in 0..NSEC3_STEPS_MAX {
            let Some(leaf) = store.pred(tree, &key) else {
                // RFC 5155 3.1.7: the last of the chain covers what is before the first.
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

    /// The NSEC3 of a place, if it is of this chain.
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

/// The wildcard under the ancestor of `name` that has `labels` labels, written to `bytes`; `None` when it is too long.
fn wildcard<'o>(name: NameRef<'_>, labels: usize, bytes: &'o mut [u8; NAME_BYTES_MAX]) -> Option<NameRef<'o>> {
    let encloser = ancestor(name, labels).as_bytes();
    let bytes = bytes.get_mut(..2 + encloser.len())?;
    bytes[..2].copy_from_slice(b"\x01*");
    bytes[2..].copy_from_slice(encloser);
    NameRef::from_octets(bytes).ok()
}
