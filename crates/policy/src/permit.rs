//! What the rules say of a whole update.

use crate::decide::{Decision, Judge};
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

/// What an update that may be made may bring about at most.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Permit {
    records_max: BTreeMap<(Name, Rtype), NonZeroU16>,
    name_records_max: Option<u32>,
    zone_records_max: Option<u32>,
    /// The zone's own limits, independent of the key.
    zone: ZoneLimits,
}

/// Why an update may not be made. One record that is denied is enough.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denied {
    /// No rule grants this requestor anything in this zone.
    NothingGranted,
    /// More records than the limit of the requestor.
    UpdateRecords,
    /// More bytes than the limit of the requestor.
    UpdateBytes,
    /// A record may not be written.
    Record {
        /// Its owner.
        owner: Name,
        /// Its type.
        rtype: Rtype,
        /// What was decided.
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
    /// Nothing is limited.
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

impl Judge<'_> {
    /// Holds each step of an update against the rules, in their order, before any prerequisite is looked at: who may
    /// not write is told nothing of what the zone holds (RFC 2136 3.3 stands behind 3.2; BIND does as here). `bytes`
    /// is the length of the message.
    ///
    /// Without a zone only what is certain is denied: what goes with "delete all of this name" depends on what the
    /// name has.
    ///
    /// # Errors
    /// [`Denied`] says why.
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
        let (mut emptied, mut looked_at) = (BTreeSet::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Add { owner, rtype, .. } => {
                    if let Some(max) = self.granted(owner, *rtype)? {
                        permit.records_max.insert((owner.clone(), *rtype), max);
                    }
                }
                // `named` 9.18 judges these by the records that are there: where there is none nothing is denied.
                Step::DeleteRrset(owner, rtype @ (Rtype::PTR | Rtype::SRV)) => {
                    let is_new = looked_at.insert((owner, *rtype, None));
                    if is_new && zone.is_some_and(|zone| is_there(zone, owner, *rtype, None)) {
                        self.granted(owner, *rtype)?;
                    }
                }
                Step::DeleteRecord(owner, rtype @ (Rtype::PTR | Rtype::SRV), rdata) => {
                    let is_new = looked_at.insert((owner, *rtype, Some(rdata)));
                    if is_new && zone.is_some_and(|zone| is_there(zone, owner, *rtype, Some(rdata))) {
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

    /// What daemons have to be asked before it is known whether the update may be made, as far as what they said
    /// already leads: the next rules are asked when these have been.
    pub fn questions<Z: ZoneRead>(&self, steps: &[Step], zone: &Z) -> BTreeSet<Question> {
        let mut questions = BTreeSet::new();
        let mut note = |owner: &Name, rtype, decision| {
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
                | Step::DeleteRecord(owner, rtype, _) => note(owner, *rtype, self.decide(owner.as_ref(), *rtype)),
                Step::DeleteName(owner) => {
                    for rtype in deletable_types(zone, owner) {
                        note(owner, rtype, self.decide_by_rules(owner.as_ref(), rtype));
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

    /// "Delete all of this name" needs a grant of each type that the name has now, as in BIND; but for what signs the
    /// rest, which goes with it.
    fn name_granted<Z: ZoneRead>(&self, owner: &Name, zone: &Z) -> Result<(), Denied> {
        for rtype in deletable_types(zone, owner) {
            match self.decide_by_rules(owner.as_ref(), rtype) {
                Decision::Granted { .. } => {}
                // RFC 2136 3.4.2.3: the SOA and the NS of the apex stay whatever is deleted there.
                Decision::Protected if owner.as_ref() == self.apex() => {}
                decision => return Err(Denied::Record { owner: owner.clone(), rtype, decision }),
            }
        }
        Ok(())
    }
}

/// The types that a name has, but for what signs the rest.
fn deletable_types<Z: ZoneRead>(zone: &Z, owner: &Name) -> BTreeSet<Rtype> {
    let mut rtypes = BTreeSet::new();
    look_at(zone, owner, |record| {
        if !matches!(record.rtype, Rtype::RRSIG | Rtype::NSEC) {
            rtypes.insert(record.rtype);
        }
        false
    });
    rtypes
}

/// Whether the zone has a record of this owner and type, and of this rdata where there is one.
fn is_there<Z: ZoneRead>(zone: &Z, owner: &Name, rtype: Rtype, rdata: Option<&[u8]>) -> bool {
    look_at(zone, owner, |record| {
        record.rtype == rtype && rdata.is_none_or(|rdata| rdata_eq(rtype, record.rdata, rdata))
    })
}

/// Shows the records of a name until one is `wanted`; true when one was.
fn look_at<Z: ZoneRead>(zone: &Z, owner: &Name, mut wanted: impl FnMut(RecordRef<'_>) -> bool) -> bool {
    let (mut touched, mut found) = (0, false);
    zone.records_at(owner.as_ref(), &mut |record| {
        found = wanted(record);
        touched += 1;
        // An owner with more is refused when it is evaluated.
        if found || touched > UPDATE_TOUCHED_RECORDS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found
}
