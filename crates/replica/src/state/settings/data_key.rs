//! Replacement of the data key that seals secrets. A node creates a new key, and the members get it outside the log.
//! Once every member has reported that it holds the key, the key is used, and all secrets are resealed with it.

use super::Settings;
use super::key_entry::{KeyEntry, secret_context};
use super::trust::{DataKeyNumbers, ca_context};
use crate::entry::{DataKeyChange, Resealed, SecretId};
use crate::io::{AdminError, CredentialProgress};
use crate::limits::RESEALED_MAX;
use crate::secrets::Sealed;
use wire::name::Name;

impl Settings {
    pub(crate) const fn data_key(&self) -> DataKeyNumbers {
        self.trust.data_key
    }

    /// A removed member knows the current key, so it must be replaced.
    pub(super) fn data_key_is_known_outside(&mut self) {
        // Below that level the key could not be replaced.
        if self.feature_level >= 2 {
            self.with_trust(|trust| trust.data_key.is_due = true);
        }
    }

    pub(super) fn apply_data_key(&mut self, change: &DataKeyChange) {
        match change {
            DataKeyChange::Begin { number, digest } => self.with_trust(|trust| {
                if *number == trust.data_key.next_number() {
                    trust.data_key.next = Some((*number, *digest));
                    trust.data_key.is_due = false;
                }
            }),
            DataKeyChange::Use { number } => self.with_trust(|trust| {
                if trust.data_key.next.is_some_and(|(next, _)| next == *number) {
                    trust.data_key.current = *number;
                    trust.data_key.next = None;
                }
            }),
            DataKeyChange::Reseal { secrets } => {
                for resealed in secrets {
                    self.reseal(resealed);
                }
            }
        }
    }

    pub(super) fn check_data_key(&self, change: &DataKeyChange) -> Result<bool, AdminError> {
        let numbers = self.trust.data_key;
        match change {
            DataKeyChange::Begin { number, .. } if *number <= numbers.current => Ok(false),
            DataKeyChange::Begin { number, digest } if numbers.next == Some((*number, *digest)) => Ok(false),
            DataKeyChange::Begin { number, .. } if *number != numbers.next_number() => Err(AdminError::RotationBusy),
            DataKeyChange::Begin { .. } => Ok(true),
            DataKeyChange::Use { number } if *number <= numbers.current => Ok(false),
            DataKeyChange::Use { number } if numbers.next.is_none_or(|(next, _)| next != *number) => {
                Err(AdminError::RotationBusy)
            }
            DataKeyChange::Use { number }
                if planted!(DataKeyUsedEarly)
                    || self.all_report(|progress: &CredentialProgress| progress.data_key >= *number) =>
            {
                Ok(true)
            }
            DataKeyChange::Use { .. } => Err(AdminError::MembersBehind),
            DataKeyChange::Reseal { secrets } if secrets.len() > RESEALED_MAX => Err(AdminError::TooLarge),
            DataKeyChange::Reseal { secrets } => Ok(secrets.iter().any(|resealed| self.fits(resealed))),
        }
    }

    /// A new secret must be sealed with the current key, because older keys will be dropped.
    pub(super) fn check_sealed(&self, sealed: &Sealed) -> Result<(), AdminError> {
        if sealed.data_key_number == self.trust.data_key.current { Ok(()) } else { Err(AdminError::DataKeyOld) }
    }

    fn secret_at(&self, id: &SecretId) -> Option<&Sealed> {
        match id {
            SecretId::Key(name) => self.keys.get(name).map(|key| &key.secret),
            SecretId::PreviousOfKey(name) => self.keys.get(name)?.previous.as_ref(),
            SecretId::Ca(number) => self.trust.cas().get(number).map(|ca| &ca.key),
        }
    }

    /// Whether the secret is still the one that was resealed, and the current key sealed it.
    fn fits(&self, resealed: &Resealed) -> bool {
        self.check_sealed(&resealed.secret).is_ok()
            && self.secret_at(&resealed.id).is_some_and(|secret| {
                (planted!(ResealOverwritesChange) || secret.nonce == resealed.was)
                    && secret.data_key_number != resealed.secret.data_key_number
            })
    }

    fn reseal(&mut self, resealed: &Resealed) {
        if !self.fits(resealed) {
            return;
        }
        let secret = resealed.secret.clone();
        let key_of = |name: &Name| self.keys.get(name).cloned();
        match &resealed.id {
            SecretId::Key(name) => {
                if let Some(key) = key_of(name) {
                    self.put_key(name, KeyEntry { secret, ..key });
                }
            }
            SecretId::PreviousOfKey(name) => {
                if let Some(key) = key_of(name) {
                    self.put_key(name, KeyEntry { previous: Some(secret), ..key });
                }
            }
            SecretId::Ca(number) => self.with_trust(|trust| trust.reseal_ca(*number, secret)),
        }
    }

    /// Secrets sealed with another key than the current one, each with its context.
    pub(crate) fn sealed_before(&self) -> impl Iterator<Item = (SecretId, Vec<u8>, &Sealed)> {
        let of_keys = self.keys.iter().flat_map(|(name, key)| {
            let newest = Some((SecretId::Key(name.clone()), secret_context(name), &key.secret));
            let previous = key.previous.as_ref();
            [newest, previous.map(|of| (SecretId::PreviousOfKey(name.clone()), secret_context(name), of))]
        });
        let of_cas = self.trust.cas().iter();
        let of_cas = of_cas.map(|(&number, of)| Some((SecretId::Ca(number), ca_context(number), &of.key)));
        let current = self.trust.data_key.current;
        of_keys.chain(of_cas).flatten().filter(move |(_, _, sealed)| sealed.data_key_number != current)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{name, sealed};
    use super::*;
    use crate::entry::{SettingsChange, TrustChange};
    use crate::io::Member;
    use tsig::KeyAlgorithm;
    use zone::codec::Decoder;

    fn by(number: u32, secret: u8) -> Sealed {
        Sealed { data_key_number: number, nonce: [secret; 12], bytes: vec![secret; 20] }
    }

    fn apply(settings: &mut Settings, change: DataKeyChange) {
        assert_eq!(settings.check_data_key(&change), Ok(true), "{change:?}");
        settings.apply(&SettingsChange::Trust(TrustChange::DataKey(change)), 9, 0);
    }

    fn holds(settings: &mut Settings, id: u64, data_key: u32) {
        let progress = CredentialProgress { data_key, ..CredentialProgress::default() };
        settings.apply(&SettingsChange::Trust(TrustChange::Credentials { id, progress }), 9, 0);
    }

    fn sample() -> Settings {
        let member = |id| Member { id, address: format!("[::1]:{id}") };
        let mut settings = Settings::genesis([1; 16], &[member(1), member(2), member(3)], 2);
        let add = SettingsChange::KeyAdd { name: name("key."), algorithm: KeyAlgorithm::HmacSha256, secret: by(1, 1) };
        settings.apply(&add, 5, 0);
        settings.apply(&SettingsChange::KeyRoll { name: name("key."), secret: by(1, 2) }, 6, 0);
        let add = TrustChange::CaAdd { number: 1, certificate: vec![0x30], key: by(1, 3) };
        settings.apply(&SettingsChange::Trust(add), 7, 0);
        settings
    }

    #[test]
    fn data_key_is_used_once_all_members_have_it() {
        let mut settings = sample();
        let use_2 = DataKeyChange::Use { number: 2 };
        assert_eq!(settings.check_data_key(&use_2), Err(AdminError::RotationBusy));
        settings.apply(&SettingsChange::MemberRemove { id: 3 }, 8, 0);
        assert!(settings.data_key().is_due, "the removed member knows the key");
        apply(&mut settings, DataKeyChange::Begin { number: 2, digest: [2; 32] });
        assert!(!settings.data_key().is_due);
        let other = DataKeyChange::Begin { number: 2, digest: [3; 32] };
        assert_eq!(settings.check_data_key(&other), Err(AdminError::RotationBusy));
        holds(&mut settings, 1, 2);
        assert_eq!(settings.check_data_key(&use_2), Err(AdminError::MembersBehind));
        holds(&mut settings, 2, 2);
        let late = SettingsChange::KeyRoll { name: name("key."), secret: by(1, 9) };
        apply(&mut settings, use_2.clone());
        assert_eq!((settings.data_key().current, settings.check_data_key(&use_2)), (2, Ok(false)));
        settings.apply(&SettingsChange::KeyRetire { name: name("no.") }, 9, 0);
        assert_eq!(
            settings.check(
                &SettingsChange::KeyAdd { name: name("b."), algorithm: KeyAlgorithm::HmacSha256, secret: by(1, 9) },
                0
            ),
            Err(AdminError::DataKeyOld)
        );
        let _ = late;
        let before: Vec<_> = settings.sealed_before().map(|(id, _, sealed)| (id, sealed.nonce)).collect();
        assert_eq!(before.len(), 3);
        let mut secrets: Vec<Resealed> =
            before.into_iter().map(|(id, was)| Resealed { id, was, secret: by(2, 40 + was[0]) }).collect();
        let first = DataKeyChange::Reseal { secrets: secrets.split_off(2) };
        apply(&mut settings, first.clone());
        assert_eq!((settings.sealed_before().count(), settings.check_data_key(&first)), (2, Ok(false)));
        apply(&mut settings, DataKeyChange::Reseal { secrets });
        assert_eq!(settings.sealed_before().count(), 0);
        assert_eq!(settings.keys()[&name("key.")].previous, Some(by(2, 41)));
        let mut copy = Settings::empty([0; 16]);
        settings.encode_items(|item| copy.restore(&mut Decoder::new(&item.finish())).unwrap());
        assert_eq!((copy.hash(), copy.data_key()), (settings.hash(), settings.data_key()));
    }

    #[test]
    fn resealing_does_not_overwrite_changed_secrets() {
        let mut settings = sample();
        apply(&mut settings, DataKeyChange::Begin { number: 2, digest: [2; 32] });
        // The node that created key 2 is gone, so another key is begun.
        apply(&mut settings, DataKeyChange::Begin { number: 3, digest: [3; 32] });
        (1..=3).for_each(|id| holds(&mut settings, id, 3));
        apply(&mut settings, DataKeyChange::Use { number: 3 });
        let id = SecretId::Key(name("key."));
        let stale = Resealed { id: id.clone(), was: [7; 12], secret: by(3, 50) };
        assert_eq!(settings.check_data_key(&DataKeyChange::Reseal { secrets: vec![stale.clone()] }), Ok(false));
        let old = Resealed { id, was: [2; 12], secret: sealed(1) };
        let change = DataKeyChange::Reseal { secrets: vec![stale, old] };
        settings.apply(&SettingsChange::Trust(TrustChange::DataKey(change)), 9, 0);
        assert_eq!(settings.keys()[&name("key.")].secret, by(1, 2));
    }
}
