//! NSEC: the records of a signed zone's names, in canonical order (RFC 4034 4).

use super::Proof;
use crate::key;
use crate::lookup::ancestor;
use crate::set::Zone;
use crate::vertex::Vertex;
use store::{Key, Path};
use wire::name::NameRef;
use wire::number::Rtype;

/// The NSEC of a place.
pub(super) fn of<'a>(vertex: &Vertex<'a>) -> Option<Proof<'a>> {
    vertex.rrset(Rtype::NSEC).map(|rrset| Proof { owner: vertex.owner(), rrset })
}

/// The NSEC whose owner is the last before a name that has none.
pub(super) fn covering<'a>(zone: &Zone<'a>, name: NameRef<'_>) -> Option<Proof<'a>> {
    covering_key(zone, &key::of(name))
}

/// The NSEC that covers the wildcard under the ancestor of `name` that has `labels` labels.
pub(super) fn covering_wildcard<'a>(zone: &Zone<'a>, name: NameRef<'_>, labels: usize) -> Option<Proof<'a>> {
    let mut key = key::of(ancestor(name, labels));
    key::push_label(&mut key, b"*");
    covering_key(zone, &key)
}

fn covering_key<'a>(zone: &Zone<'a>, key: &Key) -> Option<Proof<'a>> {
    let leaf = zone.store().pred(zone.names(), key)?;
    let vertex = Vertex::from_leaf(leaf);
    // Glue and what else is occluded has no NSEC; the zone cut or DNAME above it has (RFC 4035 2.3), and nothing but
    // occluded names stands between.
    of(&vertex).or_else(|| {
        let mut path = Path::new();
        zone.store().locate(zone.names(), &key::of(vertex.owner()), &mut path);
        let mut above = path.prefixes().iter().map(|leaf| Vertex::from_leaf(leaf));
        let occluder = above.find(|above| above.is_zone_cut() || above.has_dname());
        occluder.as_ref().and_then(of)
    })
}
