//! Decides whether a requestor may make a whole update.

use crate::decide::{Decision, PolicyEvaluator};
use crate::external::Question;
use crate::limits::{EXTERNAL_QUESTIONS_MAX, UPDATE_TOUCHED_RECORDS_MAX};
use crate::update::{Step, ZoneLimits, ZoneRead};
use core::fmt;
use core::num::NonZeroU16;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use wire::name::Name;
use wire::number::Rtype;
use wire::rdata::rdata_eq;
use zone::RecordRef;

/// The limits that a permitted update must keep.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Permit {
    records_max: BTreeMap<(Name, Rtype), NonZeroU16>,
    name_records_max: Option<u32>,
    zone_records_max: Option<u32>,
    /// The zone's own limits, independent of the key.
    zone: ZoneLimits,
}

/// Why an update is denied. One denied record is enough.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denied {
    /// No rule grants this requestor anything in this zone.
    NothingGranted,
    /// The update has more records than the limit of the key.
    UpdateRecords,
    /// The message has more bytes than the limit of the key.
    UpdateBytes,
    /// A record may not be written.
    Record {
        /// Its owner.
        owner: Name,
        /// Its type.
        rtype: Rtype,
        /// The decision.
        decision: Decision,
    },
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingGranted => f.write_str("the key is granted nothing in this zone"),
            Self::UpdateRecords => f.write_str("more records than the key may send in one update"),
            Self::UpdateBytes => f.write_str("more bytes than the key may send in one update"),
            Self::Record { owner, rtype, decision } => match rtype.mnemonic() {
                Some(mnemonic) => write!(f, "{owner} {mnemonic}: {decision}"),
                None => write!(f, "{owner} TYPE{}: {decision}", rtype.0),
            },
        }
    }
}

impl Permit {
    /// Limits nothing.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { records_max: BTreeMap::new(), name_records_max: None, zone_records_max: None, zone: ZoneLimits::NONE }
    }

    /// Adds the zone's own limits.
    #[must_use]
    pub fn within(self, zone: ZoneLimits) -> Self {
        Self { zone, ..self }
    }

    /// The zone's own limits.
    #[must_use]
    pub const fn zone_limits(&self) -> ZoneLimits {
        self.zone
    }

    /// Records that an RRset may have.
    #[must_use]
    pub fn rrset_records_max(&self, owner: &Name, rtype: Rtype) -> Option<usize> {
        if self.records_max.is_empty() {
            return None;
        }
        self.records_max.get(&(owner.clone(), rtype)).map(|max| usize::from(max.get()))
    }

    /// Records that an owner may have.
    #[must_use]
    pub fn name_records_max(&self) -> Option<usize> {
        self.name_records_max.map(|max| max as usize)
    }

    /// Records that the zone may have.
    #[must_use]
    pub fn zone_records_max(&self) -> Option<u64> {
        self.zone_records_max.map(u64::from)
    }
}

impl PolicyEvaluator<'_> {
    /// Checks each step of an update, in order. Callers do so before they evaluate prerequisites, so that a client
    /// without permission learns nothing about the zone (RFC 2136 checks permissions in 3.3, after prerequisites in
    /// 3.2; BIND deviates in the same way). `bytes` is the length of the message.
    ///
    /// Without a zone, steps whose outcome depends on the zone pass, such as "delete all RRsets of a name".
    ///
    /// # Errors
    /// [`Denied`] with the reason.
    pub fn permit<Z: ZoneRead>(&self, steps: &[Step], bytes: usize, zone: Option<&Z>) -> Result<Permit, Denied> {
        if !self.may_grant() {
            return Err(Denied::NothingGranted);
        }
        let limits = self.limits();
        if limits.update_records_max.is_some_and(|max| steps.len() > max as usize) {
            return Err(Denied::UpdateRecords);
        }
        if limits.update_bytes_max.is_some_and(|max| bytes > max as usize) {
            return Err(Denied::UpdateBytes);
        }
        let mut permit = Permit {
            name_records_max: limits.name_records_max,
            zone_records_max: limits.zone_records_max,
            ..Permit::unlimited()
        };
        let (mut emptied, mut checked) = (BTreeSet::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Add { owner, rtype, .. } => {
                    if let Some(max) = self.granted(owner, *rtype)? {
                        permit.records_max.insert((owner.clone(), *rtype), max);
                    }
                }
                // `named` 9.18 checks deletions of PTR and SRV against the existing records. Without any, it
                // denies nothing.
                Step::DeleteRrset(owner, rtype @ (Rtype::PTR | Rtype::SRV)) => {
                    let is_new = checked.insert((owner, *rtype, None));
                    if is_new && zone.is_some_and(|zone| has_record(zone, owner, *rtype, None)) {
                        self.granted(owner, *rtype)?;
                    }
                }
                Step::DeleteRecord(owner, rtype @ (Rtype::PTR | Rtype::SRV), rdata) => {
                    let is_new = checked.insert((owner, *rtype, Some(rdata)));
                    if is_new && zone.is_some_and(|zone| has_record(zone, owner, *rtype, Some(rdata))) {
                        self.granted(owner, *rtype)?;
                    }
                }
                Step::DeleteRrset(owner, rtype) | Step::DeleteRecord(owner, rtype, _) => {
                    self.granted(owner, *rtype)?;
                }
                Step::DeleteName(owner) => {
                    if emptied.insert(owner) {
                        zone.map_or(Ok(()), |zone| self.name_granted(owner, zone))?;
                    }
                }
            }
        }
        Ok(permit)
    }

    /// The questions to ask daemons next. Answers can lead to further questions about later rules, so callers repeat
    /// this until it returns none.
    pub fn questions<Z: ZoneRead>(&self, steps: &[Step], zone: &Z) -> BTreeSet<Question> {
        let mut questions = BTreeSet::new();
        let mut add = |owner: &Name, rtype, decision| {
            if let Decision::Unanswered { by } = decision
                && let Some(socket) = self.socket(by)
                && questions.len() < EXTERNAL_QUESTIONS_MAX
            {
                let (socket, owner) = (socket.clone(), owner.as_ref().to_canonical());
                questions.insert(Question { socket, owner, rtype });
            }
        };
        for step in steps {
            match step {
                Step::Add { owner, rtype, .. }
                | Step::DeleteRrset(owner, rtype)
                | Step::DeleteRecord(owner, rtype, _) => add(owner, *rtype, self.decide(owner.as_ref(), *rtype)),
                Step::DeleteName(owner) => {
                    for rtype in deletable_types(zone, owner) {
                        add(owner, rtype, self.decide_by_rules(owner.as_ref(), rtype));
                    }
                }
            }
        }
        questions
    }

    fn granted(&self, owner: &Name, rtype: Rtype) -> Result<Option<NonZeroU16>, Denied> {
        match self.decide(owner.as_ref(), rtype) {
            Decision::Granted { records_max, .. } => Ok(records_max),
            decision => Err(Denied::Record { owner: owner.clone(), rtype, decision }),
        }
    }

    /// "Delete all RRsets of a name" needs a grant for each type at the name, as in BIND, except for RRSIG and NSEC.
    fn name_granted<Z: ZoneRead>(&self, owner: &Name, zone: &Z) -> Result<(), Denied> {
        for rtype in deletable_types(zone, owner) {
            match self.decide_by_rules(owner.as_ref(), rtype) {
                Decision::Granted { .. } => {}
                // RFC 2136 3.4.2.3: this step does not delete SOA and NS at the apex.
                Decision::Protected if owner.as_ref() == self.apex() => {}
                decision => return Err(Denied::Record { owner: owner.clone(), rtype, decision }),
            }
        }
        Ok(())
    }
}

/// The types at a name, except RRSIG and NSEC.
fn deletable_types<Z: ZoneRead>(zone: &Z, owner: &Name) -> BTreeSet<Rtype> {
    let mut rtypes = BTreeSet::new();
    any_record(zone, owner, |record| {
        if !matches!(record.rtype, Rtype::RRSIG | Rtype::NSEC) {
            rtypes.insert(record.rtype);
        }
        false
    });
    rtypes
}

/// Whether the zone has a record of this owner and type, and with this rdata if it is given.
fn has_record<Z: ZoneRead>(zone: &Z, owner: &Name, rtype: Rtype, rdata: Option<&[u8]>) -> bool {
    any_record(zone, owner, |record| {
        record.rtype == rtype && rdata.is_none_or(|rdata| rdata_eq(rtype, record.rdata, rdata))
    })
}

/// Whether a record of the name is `wanted`. Stops at the first.
fn any_record<Z: ZoneRead>(zone: &Z, owner: &Name, mut wanted: impl FnMut(RecordRef<'_>) -> bool) -> bool {
    let (mut touched, mut found) = (0, false);
    zone.records_at(owner.as_ref(), &mut |record| {
        found = wanted(record);
        touched += 1;
        // An owner with more is refused when it is evaluated.
        if found || touched > UPDATE_TOUCHED_RECORDS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found
}
