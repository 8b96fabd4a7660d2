//! The RRsets of a zone to sign.

use std::collections::BTreeMap;
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::Record;

/// RRsets by owner and type, in canonical order, without those that signing replaces.
pub(super) type Rrsets = BTreeMap<(Name, u16), Vec<Record>>;

/// The TTL of negative answers (RFC 9077 3.1): the lesser of the SOA's TTL and its last field.
pub(super) fn negative_ttl(rrsets: &Rrsets, apex: NameRef<'_>) -> u32 {
    let soa = rrsets.get(&(apex.to_name(), Rtype::SOA.0)).and_then(|records| records.first());
    soa.map_or(0, |soa| {
        let minimum = soa.rdata.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        minimum.min(soa.ttl)
    })
}
