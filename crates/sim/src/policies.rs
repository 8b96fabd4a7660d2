//! Which update policy may be in force, as far as outsiders can tell: what updates that only a policy grants may hear.

use wire::number::Rcode;

/// Policies of the zone that updates are sent to, by number; zero is none.
pub(crate) const POLICIES: u64 = 4;
const ALL: u8 = (1 << POLICIES) - 1;

/// A set of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PossiblePolicies(u8);

/// What may be in force now.
#[derive(Debug)]
pub(crate) struct Policies {
    now: PossiblePolicies,
    /// What it was when the command that is under way was given.
    before: PossiblePolicies,
    /// A command of which nobody knows what became of it may come true at any time.
    is_uncertain: bool,
    /// The one that was asked for last.
    newest: u64,
}

impl Default for Policies {
    fn default() -> Self {
        Self { now: PossiblePolicies::only(0), before: PossiblePolicies::only(0), is_uncertain: false, newest: 0 }
    }
}

impl PossiblePolicies {
    const fn only(policy: u64) -> Self {
        Self(1 << policy)
    }

    /// And those.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether an update for which only `policy` grants anything may hear this, if it met one of these.
    pub(crate) fn may_get(self, policy: u64, rcode: Rcode) -> bool {
        match rcode {
            Rcode::NOERROR => self.0 & 1 << policy != 0,
            Rcode::REFUSED => self.0 & !(1 << policy) != 0,
            _ => false,
        }
    }
}

impl Policies {
    /// What may be in force.
    pub(crate) const fn now(&self) -> PossiblePolicies {
        self.now
    }

    /// The one that was asked for last.
    pub(crate) const fn newest(&self) -> u64 {
        self.newest
    }

    /// The administrator asks for a policy; gives what may come into force by it.
    pub(crate) const fn requested(&mut self, policy: u64) -> PossiblePolicies {
        (self.before, self.newest) = (self.now, policy);
        self.now = self.now.or(PossiblePolicies::only(policy));
        PossiblePolicies::only(policy)
    }

    /// It was told that the policy is in force.
    pub(crate) const fn done(&mut self, policy: u64) {
        if !self.is_uncertain {
            self.now = PossiblePolicies::only(policy);
        }
    }

    /// It was told that nothing was done.
    pub(crate) const fn undone(&mut self) {
        if !self.is_uncertain {
            self.now = self.before;
        }
    }

    /// It was told nothing, and gives it up; gives what may come into force from now on.
    pub(crate) const fn unknown(&mut self) -> PossiblePolicies {
        (self.is_uncertain, self.now) = (true, PossiblePolicies(ALL));
        PossiblePolicies(ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_rcodes_follow_the_possible_policies() {
        let mut policies = Policies::default();
        assert!(policies.now().may_get(1, Rcode::REFUSED) && !policies.now().may_get(1, Rcode::NOERROR));
        let met = policies.now().or(policies.requested(1));
        assert!(met.may_get(1, Rcode::NOERROR) && met.may_get(1, Rcode::REFUSED) && !met.may_get(2, Rcode::NOERROR));
        policies.done(1);
        assert!(policies.now().may_get(1, Rcode::NOERROR) && !policies.now().may_get(1, Rcode::REFUSED));
        assert!(!policies.now().may_get(1, Rcode::SERVFAIL));
        policies.requested(2);
        policies.undone();
        assert!(!policies.now().may_get(2, Rcode::NOERROR));
        policies.requested(3);
        policies.unknown();
        policies.requested(2);
        policies.done(2);
        assert!((1..POLICIES).all(|policy| policies.now().may_get(policy, Rcode::NOERROR)));
    }
}
