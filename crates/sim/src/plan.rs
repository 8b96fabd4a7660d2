//! An update of one name of the model's zone, and the effect that RFC 2136 gives to it.

use crate::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use tsig::client::UpdateBuilder;
use wire::name::Name;
use wire::number::{Rcode, Rtype};

/// The contents of one name: the TTL and the records of each type.
pub(crate) type Rrsets = BTreeMap<u16, (u32, BTreeSet<Vec<u8>>)>;
/// Maximum number of changes in one update.
const CHANGES_MAX: u64 = 3;
/// Number of names that the model's zone can have.
pub(crate) const OWNERS: usize = 200;

/// The prerequisite of an update (RFC 2136 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requires {
    InUse,
    NotInUse,
    Rrset(Rtype),
    NoRrset(Rtype),
    Exactly(Rtype, Vec<u8>),
}

/// A change in an update (RFC 2136 3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add { rtype: Rtype, ttl: u32, rdata: Vec<u8> },
    DeleteRrset(Rtype),
    DeleteName,
    DeleteRecord { rtype: Rtype, rdata: Vec<u8> },
}

/// An update of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) owner: usize,
    requires: Option<Requires>,
    changes: Vec<Change>,
}

impl Plan {
    pub(crate) fn random(owner: usize, rng: &mut Rng) -> Self {
        let requires = match rng.below(10) {
            0 => Some(Requires::InUse),
            1 => Some(Requires::NotInUse),
            2 => Some(Requires::Rrset(rtype(rng))),
            3 => Some(Requires::NoRrset(rtype(rng))),
            4 => {
                let rtype = rtype(rng);
                Some(Requires::Exactly(rtype, rdata(rtype, rng)))
            }
            _ => None,
        };
        let changes = (0..=rng.below(CHANGES_MAX)).map(|_| change(rng)).collect();
        Self { owner, requires, changes }
    }

    /// The response code of a server whose name has these contents.
    pub(crate) fn rcode(&self, rrsets: &Rrsets) -> Rcode {
        let has = |rtype: &Rtype| rrsets.contains_key(&rtype.0);
        match &self.requires {
            Some(Requires::InUse) if rrsets.is_empty() => Rcode::NXDOMAIN,
            Some(Requires::NotInUse) if !rrsets.is_empty() => Rcode::YXDOMAIN,
            Some(Requires::Rrset(rtype)) if !has(rtype) => Rcode::NXRRSET,
            Some(Requires::NoRrset(rtype)) if has(rtype) => Rcode::YXRRSET,
            Some(Requires::Exactly(rtype, rdata)) => match rrsets.get(&rtype.0) {
                Some((_, records)) if records.iter().eq([rdata]) => Rcode::NOERROR,
                _ => Rcode::NXRRSET,
            },
            _ => Rcode::NOERROR,
        }
    }

    /// Applies the update.
    pub(crate) fn apply(&self, rrsets: &mut Rrsets) {
        for change in &self.changes {
            match change {
                Change::Add { rtype, ttl, rdata } => add(rrsets, *rtype, *ttl, rdata),
                Change::DeleteRrset(rtype) => _ = rrsets.remove(&rtype.0),
                Change::DeleteName => rrsets.clear(),
                Change::DeleteRecord { rtype, rdata } => {
                    if let Some((_, records)) = rrsets.get_mut(&rtype.0) {
                        records.remove(rdata);
                    }
                    rrsets.retain(|_, (_, records)| !records.is_empty());
                }
            }
        }
    }

    pub(crate) fn compose(&self, mut builder: UpdateBuilder) -> UpdateBuilder {
        let owner = owner_name(self.owner);
        let owner = owner.as_ref();
        builder = match &self.requires {
            Some(Requires::InUse) => builder.require_name(owner),
            Some(Requires::NotInUse) => builder.require_no_name(owner),
            Some(Requires::Rrset(rtype)) => builder.require_rrset(owner, *rtype),
            Some(Requires::NoRrset(rtype)) => builder.require_no_rrset(owner, *rtype),
            Some(Requires::Exactly(rtype, rdata)) => builder.require_record(owner, *rtype, rdata),
            None => builder,
        };
        self.changes.iter().fold(builder, |builder, change| match change {
            Change::Add { rtype, ttl, rdata } => builder.add(owner, *ttl, *rtype, rdata),
            Change::DeleteRrset(rtype) => builder.delete_rrset(owner, *rtype),
            Change::DeleteName => builder.delete_name(owner),
            Change::DeleteRecord { rtype, rdata } => builder.delete_record(owner, *rtype, rdata),
        })
    }
}

/// Adds a record. A CNAME and other data exclude each other: the second of the two is ignored, and a second CNAME
/// replaces the first (RFC 2136 3.4.2.2). All records of a type have the TTL that was set last (RFC 2181 5.2).
fn add(rrsets: &mut Rrsets, rtype: Rtype, ttl: u32, rdata: &[u8]) {
    let is_alias = rtype == Rtype::CNAME;
    if rrsets.keys().any(|other| (*other == Rtype::CNAME.0) != is_alias) {
        return;
    }
    let (known_ttl, records) = rrsets.entry(rtype.0).or_default();
    *known_ttl = ttl;
    if is_alias {
        records.clear();
    }
    records.insert(rdata.to_vec());
}

fn rtype(rng: &mut Rng) -> Rtype {
    [Rtype::A, Rtype::A, Rtype::TXT, Rtype::CNAME][rng.below(4) as usize]
}

fn rdata(rtype: Rtype, rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(3) as u8 + 1;
    match rtype {
        Rtype::A => vec![192, 0, 2, number],
        Rtype::CNAME => name(&format!("target-{number}.invalid.")).as_bytes().to_vec(),
        _ => vec![1, b'0' + number],
    }
}

fn change(rng: &mut Rng) -> Change {
    let rtype = rtype(rng);
    let rdata = rdata(rtype, rng);
    match rng.below(10) {
        0 => Change::DeleteName,
        1 | 2 => Change::DeleteRrset(rtype),
        3 | 4 => Change::DeleteRecord { rtype, rdata },
        _ => Change::Add { rtype, ttl: [60, 300][rng.below(2) as usize], rdata },
    }
}

pub(crate) fn owner_name(owner: usize) -> Name {
    name(&format!("o{owner}.churn.test."))
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("the simulator's own names are names")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(requires: Option<Requires>, changes: &[Change]) -> Plan {
        Plan { owner: 0, requires, changes: changes.to_vec() }
    }

    fn text(ttl: u32, byte: u8) -> Change {
        Change::Add { rtype: Rtype::TXT, ttl, rdata: vec![1, byte] }
    }

    #[test]
    fn the_model_follows_rfc_2136() {
        let mut rrsets = Rrsets::new();
        let alias = Change::Add { rtype: Rtype::CNAME, ttl: 60, rdata: vec![0] };
        plan(None, &[text(60, 1), text(300, 2), alias.clone()]).apply(&mut rrsets);
        assert_eq!(rrsets, [(Rtype::TXT.0, (300, [vec![1, 1], vec![1, 2]].into()))].into());
        let rcode = |requires| plan(Some(requires), &[]).rcode(&rrsets);
        assert_eq!(rcode(Requires::NotInUse), Rcode::YXDOMAIN);
        assert_eq!(rcode(Requires::Rrset(Rtype::A)), Rcode::NXRRSET);
        assert_eq!(rcode(Requires::NoRrset(Rtype::TXT)), Rcode::YXRRSET);
        assert_eq!(rcode(Requires::Exactly(Rtype::TXT, vec![1, 1])), Rcode::NXRRSET);
        assert_eq!(rcode(Requires::InUse), Rcode::NOERROR);
        let delete = |byte| Change::DeleteRecord { rtype: Rtype::TXT, rdata: vec![1, byte] };
        plan(None, &[delete(1), delete(9)]).apply(&mut rrsets);
        assert_eq!(plan(Some(Requires::Exactly(Rtype::TXT, vec![1, 2])), &[]).rcode(&rrsets), Rcode::NOERROR);
        plan(None, &[delete(2), alias, text(60, 3)]).apply(&mut rrsets);
        assert_eq!(rrsets.keys().copied().collect::<Vec<_>>(), [Rtype::CNAME.0]);
        plan(None, &[Change::DeleteName]).apply(&mut rrsets);
        assert_eq!(plan(Some(Requires::InUse), &[]).rcode(&rrsets), Rcode::NXDOMAIN);
    }
}
