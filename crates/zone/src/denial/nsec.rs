//! NSEC records of a signed zone, in canonical order (RFC 4034 4).

use super::proof::Proof;
use crate::key;
use crate::lookup::ancestor;
use crate::set::Zone;
use crate::vertex::Vertex;
use store::{Key, Path};
use wire::name::NameRef;
use wire::number::Rtype;

/// The NSEC at a position.
pub(super) fn of<'a>(vertex: &Vertex<'a>) -> Option<Proof<'a>> {
    vertex.rrset(Rtype::NSEC).map(|rrset| Proof { owner: vertex.owner(), rrset })
}

/// The last NSEC whose owner sorts before a name without one.
pub(super) fn covering<'a>(zone: &Zone<'a>, name: NameRef<'_>) -> Option<Proof<'a>> {
    covering_key(zone, &key::of(name))
}

/// The NSEC that covers the wildcard below the ancestor of `name` with `labels` labels.
pub(super) fn covering_wildcard<'a>(zone: &Zone<'a>, name: NameRef<'_>, labels: usize) -> Option<Proof<'a>> {
    let mut key = key::of(ancestor(name, labels));
    key::push_label(&mut key, b"*");
    covering_key(zone, &key)
}

fn covering_key<'a>(zone: &Zone<'a>, key: &Key) -> Option<Proof<'a>> {
    let leaf = zone.store().pred(zone.names(), key)?;
    let vertex = Vertex::from_leaf(leaf);
    // Occluded names, such as glue, have no NSEC. The zone cut or DNAME above has one (RFC 4035 2.3), and only occluded
    // names are in between.
    of(&vertex).or_else(|| {
        let mut path = Path::new();
        zone.store().locate(zone.names(), &key::of(vertex.owner()), &mut path);
        let mut above = path.prefixes().iter().map(|leaf| Vertex::from_leaf(leaf));
        let occluder = above.find(|above| above.is_zone_cut() || above.has_dname());
        occluder.as_ref().and_then(of)
    })
}
