//! The update policies that may be in force according to the clients' responses, and the responses that they allow.

use wire::number::Rcode;

/// Number of policies of the zone for updates. Policy zero means none, and is counted.
pub(crate) const POLICIES: u64 = 4;

/// A set of policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PossiblePolicies(u8);

/// The policies that may be in force now.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// The policy of the last command that certainly took effect.
    done: u64,
    /// The policy of the command in progress.
    requested: Option<u64>,
    /// Policies of commands with an unknown outcome. Each may take effect at any later time.
    unknown: PossiblePolicies,
    /// The last requested policy.
    newest: u64,
}

impl PossiblePolicies {
    const fn only(policy: u64) -> Self {
        Self(1 << policy)
    }

    /// The union of two sets.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether an update that only `policy` grants may get this RCODE under one of these policies.
    pub(crate) fn may_get(self, policy: u64, rcode: Rcode) -> bool {
        match rcode {
            Rcode::NOERROR => self.0 & 1 << policy != 0,
            Rcode::REFUSED => self.0 & !(1 << policy) != 0,
            _ => false,
        }
    }
}

impl Policies {
    /// The policies that may be in force.
    pub(crate) const fn now(&self) -> PossiblePolicies {
        let certain = PossiblePolicies::only(self.done).or(self.unknown);
        match self.requested {
            Some(policy) => certain.or(PossiblePolicies::only(policy)),
            None => certain,
        }
    }

    /// The last requested policy.
    pub(crate) const fn newest(&self) -> u64 {
        self.newest
    }

    /// The administrator requests a policy. Returns the policies that may be in force from then on.
    pub(crate) const fn requested(&mut self, policy: u64) -> PossiblePolicies {
        (self.requested, self.newest) = (Some(policy), policy);
        PossiblePolicies::only(policy)
    }

    /// The request succeeded: the policy is in force.
    pub(crate) const fn done(&mut self, policy: u64) {
        (self.requested, self.done) = (None, policy);
    }

    /// The request certainly failed.
    pub(crate) const fn undone(&mut self) {
        self.requested = None;
    }

    /// The outcome is unknown: the policy may come into force at any later time.
    pub(crate) const fn unknown(&mut self, policy: u64) {
        (self.requested, self.unknown) = (None, self.unknown.or(PossiblePolicies::only(policy)));
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
        policies.unknown(3);
        policies.requested(2);
        policies.done(2);
        assert!(policies.now().may_get(2, Rcode::NOERROR) && policies.now().may_get(3, Rcode::NOERROR));
        assert!(!policies.now().may_get(1, Rcode::NOERROR));
    }
}
