//! A model of zones without Raft: plain maps, and the effects that RFC 2136 gives to the clients' updates. It checks
//! the contents of members record by record, so that the test does not depend on the state hash.
//!
//! Each name of the model's zone is written by one client, one update at a time. Every update adds a unique record (its
//! mark), so the marks on a member show which updates it has applied.

use crate::oracle::Oracle;
use crate::plan::{Rrsets, owner_name};
use crate::updates::{
    FIRST_SERIAL, Kind, REGISTERS, apex_records, churn_zone, counter_record, main_zone, register_record,
};
use replica::io::NodeId;
use std::collections::BTreeMap;
use wire::name::Name;
use zone::Zone;
use zone::set::SetVersion;

/// The contents of a whole zone.
type Contents = BTreeMap<(Name, u16, Vec<u8>), u32>;

impl Oracle {
    /// Compares all records of the zones that clients update with the model. The member's marks show which updates it
    /// has applied.
    pub(crate) fn compare(&self, id: NodeId, published: &SetVersion<'_>) -> Result<(), String> {
        if let Some(zone) = published.zone(&main_zone()) {
            compare(id, &zone, self.main_contents(published))?;
        }
        match published.zone(&churn_zone()) {
            Some(zone) => compare(id, &zone, self.churn_contents(published)),
            None => Ok(()),
        }
    }

    fn main_contents(&self, published: &SetVersion<'_>) -> Contents {
        let (mut registers, mut counter, mut marks) = (vec![0; REGISTERS], 0, Vec::new());
        for (number, update) in self.updates().filter(|(_, update)| update.is_in(published)) {
            match &update.kind {
                Kind::Churn { .. } => continue,
                Kind::Set { register } | Kind::Swap { register, .. } => registers[*register] = number,
                Kind::Count { .. } => counter += 1,
                _ => {}
            }
            marks.push(update.mark_record());
        }
        let serial = FIRST_SERIAL + marks.len() as u32;
        let registers = registers.iter().enumerate().map(|(register, number)| register_record(register, *number));
        let all = apex_records("example.test.", serial).into_iter().chain(registers);
        let all = all.chain([counter_record(counter)]).chain(marks);
        all.map(|record| ((record.owner, record.rtype.0, record.rdata.to_vec()), record.ttl)).collect()
    }

    fn churn_contents(&self, published: &SetVersion<'_>) -> Contents {
        let (mut names, mut marks): (BTreeMap<usize, Rrsets>, _) = (BTreeMap::new(), Vec::new());
        for (_, update) in self.updates() {
            if let Kind::Churn { plan, .. } = &update.kind
                && update.is_in(published)
            {
                plan.apply(names.entry(plan.owner).or_default());
                marks.push(update.mark_record());
            }
        }
        let fixed = apex_records("churn.test.", FIRST_SERIAL + marks.len() as u32).into_iter().chain(marks);
        let fixed = fixed.map(|record| ((record.owner, record.rtype.0, record.rdata.to_vec()), record.ttl));
        let drawn = names.into_iter().flat_map(|(owner, rrsets)| {
            let all = rrsets
                .into_iter()
                .flat_map(|(rtype, (ttl, records))| records.into_iter().map(move |rdata| (rtype, rdata, ttl)));
            all.map(move |(rtype, rdata, ttl)| ((owner_name(owner), rtype, rdata), ttl)).collect::<Vec<_>>()
        });
        fixed.chain(drawn).collect()
    }
}

fn compare(id: NodeId, zone: &Zone<'_>, expected: Contents) -> Result<(), String> {
    let apex = zone.id().apex;
    let found: Contents = zone
        .records()
        .map(|record| ((record.owner.to_name(), record.rtype.0, record.rdata.to_vec()), record.ttl))
        .collect();
    let differs = |(key, ttl): &(&(Name, u16, Vec<u8>), &u32), other: &Contents| other.get(*key) != Some(*ttl);
    let extra: Vec<_> = found.iter().filter(|item| differs(item, &expected)).take(3).collect();
    let missing: Vec<_> = expected.iter().filter(|item| differs(item, &found)).take(3).collect();
    if extra.is_empty() && missing.is_empty() {
        return Ok(());
    }
    Err(format!("{id}: {apex} has {extra:?}, but the model has {missing:?}"))
}
