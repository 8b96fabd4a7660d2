//! Steps of the trust between members: which change is due, and its effect on the settings.

use super::Settings;
use super::trust::{DataKeyNumbers, Trust};
use crate::entry::{PinChange, TrustChange};
use crate::io::{AdminError, CredentialProgress, NodeId};
use crate::limits::CAS_MAX;
use zone::codec::{DecodeError, Decoder};

impl Settings {
    pub(crate) const fn trust(&self) -> &Trust {
        &self.trust
    }

    pub(super) fn with_trust<T>(&mut self, change: impl FnOnce(&mut Trust) -> T) -> T {
        self.sub(self.trust.hash());
        let result = change(&mut self.trust);
        self.add(self.trust.hash());
        result
    }

    pub(super) fn apply_trust(&mut self, change: &TrustChange) {
        if let TrustChange::DataKey(change) = change {
            return self.apply_data_key(change);
        }
        if let TrustChange::Credentials { id, .. } | TrustChange::Pin { id, .. } = change
            && !self.is_member(*id)
        {
            return;
        }
        self.with_trust(|trust| trust.apply(change));
    }

    /// Forgets the report and the pins of a removed member.
    pub(super) fn forget_credentials(&mut self, id: NodeId) {
        self.with_trust(|trust| {
            trust.credentials.remove(&id);
            trust.pins.forget(id);
        });
    }

    /// Clears the trust for a new cluster, which creates its own. The data key with this number seals its secrets.
    pub(super) fn forget_trust(&mut self, data_key: u32) {
        let data_key = DataKeyNumbers { current: data_key, ..DataKeyNumbers::default() };
        self.with_trust(|trust| *trust = Trust { data_key, ..Trust::default() });
    }

    pub(super) fn restore_trust(&mut self, kind: u8, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        self.with_trust(|trust| trust.restore(kind, from))
    }

    /// Whether every member's report satisfies a condition.
    pub(super) fn all_report(&self, is_so: impl Fn(&CredentialProgress) -> bool) -> bool {
        self.members.keys().all(|id| self.trust.credentials.get(id).is_some_and(&is_so))
    }

    pub(super) fn check_trust(&self, change: &TrustChange) -> Result<bool, AdminError> {
        let trust = &self.trust;
        let when_ready = |ready: bool| if ready { Ok(true) } else { Err(AdminError::MembersBehind) };
        match change {
            TrustChange::DataKey(change) => self.check_data_key(change),
            TrustChange::CaAdd { number, certificate, key } => match trust.cas.get(number) {
                Some(there) if there.certificate == *certificate => Ok(false),
                _ if trust.cas.len() >= CAS_MAX => Err(AdminError::RotationBusy),
                _ if *number != trust.next_number() => Err(AdminError::RotationBusy),
                _ => self.check_sealed(key).map(|()| true),
            },
            TrustChange::CaUse { number } if *number <= trust.issuer => Ok(false),
            TrustChange::CaUse { number } if !trust.cas.contains_key(number) => Err(AdminError::RotationBusy),
            TrustChange::CaUse { number } => {
                when_ready(planted!(CaUsedEarly) || self.all_report(|of| of.accepts >= *number))
            }
            TrustChange::CaRemove { number } if !trust.cas.contains_key(number) => Ok(false),
            TrustChange::CaRemove { number } if *number >= trust.issuer => Err(AdminError::RotationBusy),
            TrustChange::CaRemove { .. } => when_ready(self.all_report(|of| of.issued_by == trust.issuer)),
            TrustChange::Renew { number } => Ok(*number > trust.renewal),
            TrustChange::Credentials { id, .. } | TrustChange::Pin { id, .. } if !self.is_member(*id) => {
                Err(AdminError::NodeUnknown)
            }
            TrustChange::Pin { id, change } if !trust.pins.is_news(*id, change) => Ok(false),
            TrustChange::Pin { id, change: PinChange::Only(_) } => {
                when_ready(trust.pins.is_next_seen(*id, self.members.keys().copied()))
            }
            TrustChange::Pin { .. } => Ok(true),
            TrustChange::Credentials { id, progress } => Ok(trust.credentials.get(id) != Some(progress)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ca_add as add, reports};
    use super::*;
    use crate::entry::SettingsChange;
    use crate::io::Member;

    fn two() -> Settings {
        let member = |id| Member { id, address: format!("[::1]:{id}") };
        Settings::genesis([1; 16], &[member(1), member(2)], 2)
    }

    fn done(settings: &mut Settings, change: TrustChange) {
        assert_eq!(settings.check_trust(&change), Ok(true), "{change:?}");
        settings.apply(&SettingsChange::Trust(change), 9, 0);
    }

    #[test]
    fn a_ca_is_replaced_in_steps_that_wait_for_all_members() {
        let (mut settings, use_2, remove_1) =
            (two(), TrustChange::CaUse { number: 2 }, TrustChange::CaRemove { number: 1 });
        assert_eq!(settings.check_trust(&add(2)), Err(AdminError::RotationBusy));
        done(&mut settings, add(1));
        assert_eq!((settings.trust().issuer(), settings.check_trust(&add(1))), (1, Ok(false)));
        done(&mut settings, add(2));
        assert_eq!((settings.trust().issuer(), settings.check_trust(&add(3))), (1, Err(AdminError::RotationBusy)));
        assert_eq!(settings.check_trust(&use_2), Err(AdminError::MembersBehind));
        done(&mut settings, reports(1, 2, 1));
        assert_eq!(settings.check_trust(&use_2), Err(AdminError::MembersBehind));
        assert_eq!(settings.check_trust(&reports(3, 2, 1)), Err(AdminError::NodeUnknown));
        done(&mut settings, reports(2, 2, 1));
        assert_eq!(settings.check_trust(&remove_1), Err(AdminError::RotationBusy), "it issues");
        done(&mut settings, use_2.clone());
        assert_eq!((settings.trust().issuer(), settings.check_trust(&use_2)), (2, Ok(false)));
        assert_eq!(settings.check_trust(&remove_1), Err(AdminError::MembersBehind));
        done(&mut settings, reports(1, 2, 2));
        // A removed member is not waited for.
        settings.apply(&SettingsChange::MemberRemove { id: 2 }, 10, 0);
        assert_eq!(settings.trust().credentials().len(), 1);
        done(&mut settings, remove_1.clone());
        assert_eq!((settings.trust().cas().len(), settings.check_trust(&remove_1)), (1, Ok(false)));
        assert_eq!(
            settings.check_trust(&TrustChange::CaUse { number: 1 }),
            Ok(false),
            "a replaced CA cannot be used again"
        );
        done(&mut settings, add(3));
    }

    #[test]
    fn exactly_one_ca_issues_after_any_entry() {
        let mut settings = two();
        let all = [TrustChange::CaUse { number: 1 }, add(1), TrustChange::CaRemove { number: 1 }, add(3)];
        all.into_iter().for_each(|change| settings.apply(&SettingsChange::Trust(change), 9, 0));
        assert_eq!((settings.trust().issuer(), settings.trust().cas().len()), (1, 1));
        settings.apply(&SettingsChange::Trust(reports(7, 1, 1)), 9, 0);
        assert!(settings.trust().credentials().is_empty(), "of no member");
    }

    #[test]
    fn trust_is_cleared_for_a_new_cluster() {
        let (mut settings, mut plain) = (two(), two());
        [add(1), reports(1, 1, 1)].into_iter().for_each(|change| done(&mut settings, change));
        let founder = || Member { id: 1, address: "x".to_owned() };
        for of in [&mut settings, &mut plain] {
            of.move_to([2; 16], 1, founder(), |_, _| None).unwrap();
        }
        assert_eq!(settings.trust(), &Trust::default());
        // Their epochs differ by the two changes.
        plain.with_scalars(|plain| plain.epoch = settings.epoch);
        assert_eq!(settings.hash(), plain.hash());
    }
}
