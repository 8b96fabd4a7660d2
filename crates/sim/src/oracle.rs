//! The requests and responses of clients. Invariants use only these.

use crate::plan::{Plan, Rrsets};
use crate::policies::{Policies, PossiblePolicies};
use crate::updates::{Kind, main_zone, mark_of, mark_record};
use replica::io::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use zone::set::SetVersion;
use zone::{Record, Zone};

/// An update that a client sent, once or several times.
pub(crate) struct Update {
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
    /// The address of its sender.
    pub(crate) source: SocketAddr,
    /// The RCODE of the first response.
    pub(crate) first_rcode: Option<Rcode>,
    /// The applied index of the member that sent the first response.
    pub(crate) first_rcode_index: u64,
    /// The number of copies that members received.
    pub(crate) attempts: u32,
    /// The number of copies that were certainly not proposed (docs/internals/decisions/0014).
    pub(crate) undone: u32,
    /// Policies that may have been in force between its first copy and its response, or until now.
    pub(crate) met: PossiblePolicies,
    /// The secret that the clients' key signed it with.
    pub(crate) secret: &'static [u8],
    /// The number of the request for `ack = all-live` that was certainly in force when the update was made.
    pub(crate) all_live: Option<u64>,
    number: u64,
    mark: Name,
}

/// The known state of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownOutcome {
    /// The update must be in the zone forever.
    Done,
    /// The update must never be in the zone.
    Undone,
    /// The update may or may not be in the zone.
    Unknown,
}

impl Update {
    pub(crate) fn known_outcome(&self) -> KnownOutcome {
        match self.first_rcode {
            Some(Rcode::NOERROR) if self.kind.has_effect() => KnownOutcome::Done,
            Some(_) => KnownOutcome::Undone,
            None if self.attempts == self.undone || !self.kind.has_effect() => KnownOutcome::Undone,
            None => KnownOutcome::Unknown,
        }
    }

    /// Whether a client got its acknowledgement from a member that had applied at most this index.
    pub(crate) fn is_done_by(&self, index: u64) -> bool {
        self.known_outcome() == KnownOutcome::Done && self.first_rcode_index <= index
    }

    /// Whether the policies that may have been in force allow this RCODE.
    pub(crate) fn allows_rcode(&self, rcode: Rcode) -> bool {
        if let Kind::Ruled { policy } = self.kind { self.met.may_get(policy, rcode) } else { true }
    }

    /// Whether the zone contains the update's mark.
    pub(crate) fn is_in(&self, published: &SetVersion<'_>) -> bool {
        let zone = published.zone(&self.kind.zone());
        zone.is_some_and(|zone| zone.rrset(self.mark.as_ref(), Rtype::A).is_some())
    }

    /// The update's mark.
    pub(crate) fn mark_record(&self) -> Record {
        mark_record(self.mark.clone(), self.number)
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, first_rcode, first_rcode_index, attempts, undone, met, .. } = self;
        write!(
            f,
            "{kind:?}, answered {first_rcode:?} at {first_rcode_index}, {attempts} attempts, {undone} not proposed, \
             policies {met:?}"
        )
    }
}

/// Everything that was sent.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// By number. Numbers are assigned in order.
    updates: Vec<Update>,
    /// Possible numbers of records of each imported zone, by apex, and whether the zone may be absent.
    imported: BTreeMap<Name, Imported>,
    /// Policies that may be in force.
    policies: Policies,
    /// The members that must show an update before it is acknowledged.
    ack: Ack,
    /// Expected contents of the names in the model's zone, by the responses that their writers got.
    names: BTreeMap<usize, Rrsets>,
}

/// Whether updates of the clients' zone are certainly acknowledged only after all members show them.
#[derive(Debug, Default)]
pub(crate) struct Ack {
    /// The value in force. `None` while it is unknown.
    now: Option<bool>,
    before: Option<bool>,
    /// Number of requests for a change.
    requested: u64,
    /// A command with an unknown outcome may still take effect at any time.
    is_uncertain: bool,
}

impl Ack {
    /// Sets the known value at the start.
    pub(crate) const fn begin(&mut self, is_all_live: bool) {
        self.now = Some(is_all_live);
    }

    /// The administrator requests a change.
    pub(crate) const fn requested(&mut self, _is_all_live: bool) {
        (self.before, self.now) = (self.now, None);
        self.requested += 1;
    }

    /// Records the outcome of a request: in force, not in force, or unknown.
    pub(crate) fn settled(&mut self, is_all_live: bool, is_done: Option<bool>) {
        self.is_uncertain |= is_done.is_none();
        self.now = match is_done {
            Some(true) => Some(is_all_live),
            Some(false) => self.before,
            None => None,
        };
        self.now = self.now.filter(|_| !self.is_uncertain);
    }

    /// The number of the request that is certainly in force, if updates wait for all members.
    pub(crate) fn all_live(&self) -> Option<u64> {
        (self.now == Some(true)).then_some(self.requested)
    }
}

/// The possible states of an imported zone.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    /// The record counts of all its imports. A zone is imported as a whole or not at all.
    pub(crate) ever: BTreeSet<u64>,
    /// Its possible record counts now. `None` if it may be absent.
    pub(crate) now: BTreeSet<Option<u64>>,
}

impl Oracle {
    /// Adds an update. Returns its number.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        source: SocketAddr,
        secret: &'static [u8],
        compose: impl FnOnce(u64, &Kind) -> Vec<u8>,
    ) -> u64 {
        let number = self.updates.len() as u64 + 1;
        let (bytes, mark, met) = (compose(number, &kind), mark_of(number, &kind), self.policies.now());
        let all_live = self.ack.all_live().filter(|_| kind.zone() == main_zone());
        let (first_rcode, first_rcode_index, attempts, undone) = (None, 0, 0, 0);
        let update = Update {
            kind,
            bytes,
            source,
            first_rcode,
            first_rcode_index,
            attempts,
            undone,
            met,
            secret,
            all_live,
            number,
            mark,
        };
        self.updates.push(update);
        number
    }

    pub(crate) fn update(&self, number: u64) -> &Update {
        &self.updates[number as usize - 1]
    }

    pub(crate) fn update_mut(&mut self, number: u64) -> &mut Update {
        &mut self.updates[number as usize - 1]
    }

    /// All updates with their numbers, in order.
    pub(crate) fn updates(&self) -> impl Iterator<Item = (u64, &Update)> {
        (1..).zip(&self.updates)
    }

    pub(crate) fn count(&self) -> u64 {
        self.updates.len() as u64
    }

    /// An update of a name, with the expected response.
    pub(crate) fn churn(&self, plan: Plan) -> Kind {
        let expected = plan.rcode(self.names.get(&plan.owner).unwrap_or(&Rrsets::new()));
        Kind::Churn { plan: plan.into(), expected }
    }

    /// Records that a writer got the acknowledgement for an update of its name.
    pub(crate) fn churned(&mut self, plan: &Plan) {
        plan.apply(self.names.entry(plan.owner).or_default());
    }

    /// The members that must show an update before it is acknowledged.
    pub(crate) const fn ack(&self) -> &Ack {
        &self.ack
    }

    /// The same, to record requests.
    pub(crate) const fn ack_mut(&mut self) -> &mut Ack {
        &mut self.ack
    }

    /// The policies that may be in force.
    pub(crate) const fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The administrator requests a policy.
    pub(crate) fn policy_asked(&mut self, policy: u64) {
        let possible = self.policies.requested(policy);
        self.meet(possible);
    }

    /// The outcome of that request: in force, not in force, or unknown.
    pub(crate) fn policy_settled(&mut self, policy: u64, is_done: Option<bool>) {
        match is_done {
            Some(true) => self.policies.done(policy),
            Some(false) => self.policies.undone(),
            None => self.policies.unknown(policy),
        }
    }

    /// These policies may also apply to updates in progress.
    fn meet(&mut self, possible: PossiblePolicies) {
        for update in self.updates.iter_mut().filter(|update| update.first_rcode.is_none()) {
            update.met = update.met.or(possible);
        }
    }

    pub(crate) fn imported_mut(&mut self, apex: &Name) -> &mut Imported {
        self.imported.entry(apex.clone()).or_insert_with(|| Imported { ever: BTreeSet::new(), now: [None].into() })
    }

    /// An imported zone has, at every index, a number of records from one of its imports.
    pub(crate) fn check_imported(&self, id: NodeId, zone: &Zone<'_>) -> Result<(), String> {
        let apex = zone.id().apex;
        match self.imported.get(&apex) {
            Some(imported) if !imported.ever.contains(&zone.record_count()) => {
                Err(format!("{id}: {apex} has {} records, never one of {:?}", zone.record_count(), imported.ever))
            }
            _ => Ok(()),
        }
    }

    /// At the end an imported zone has the contents of the last successful import.
    pub(crate) fn check_imported_at_end(
        &self,
        id: NodeId,
        count_of: impl Fn(&Name) -> Option<u64>,
    ) -> Result<(), String> {
        for (apex, imported) in &self.imported {
            let count = count_of(apex);
            if !imported.now.contains(&count) {
                return Err(format!("{id}: {apex} has {count:?} records, expected {:?}", imported.now));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_outcome_follows_the_first_rcode() {
        let source = "192.0.2.1:4000".parse().unwrap();
        let mut oracle = Oracle::default();
        let number = oracle.add(Kind::Set { register: 0 }, source, b"", |_, _| vec![]);
        assert_eq!((number, oracle.update(1).known_outcome()), (1, KnownOutcome::Undone));
        oracle.update_mut(1).attempts = 2;
        assert_eq!(oracle.update(1).known_outcome(), KnownOutcome::Unknown);
        oracle.update_mut(1).undone = 2;
        assert_eq!(oracle.update(1).known_outcome(), KnownOutcome::Undone);
        oracle.update_mut(1).first_rcode = Some(Rcode::NOERROR);
        assert_eq!(oracle.update(1).known_outcome(), KnownOutcome::Done);
        let refused = oracle.add(Kind::Outside, source, b"", |_, _| vec![]);
        oracle.update_mut(refused).first_rcode = Some(Rcode::NOTZONE);
        assert_eq!(oracle.update(refused).known_outcome(), KnownOutcome::Undone);
        assert_eq!(oracle.updates().map(|(number, _)| number).collect::<Vec<_>>(), [1, 2]);
    }
}
