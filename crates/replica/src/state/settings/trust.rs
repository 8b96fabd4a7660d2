//! What members know each other by: the CAs that are accepted, who issues certificates, and how far each
//! member is with it.
//!
//! A CA is replaced in three steps, and no member is ever met by a certificate that it does not accept: the new
//! one is accepted by all, then all get certificates of it, then the old one is accepted no more. A step is taken when
//! every member has said that it is done with the one before.

use super::Settings;
use super::data_key::DataKeyNumbers;
use super::pins::Pins;
use crate::entry::{PinChange, TrustChange, decode_standing, encode_standing};
use crate::io::{AdminError, NodeId, Standing};
use crate::limits::{CA_KEY_BYTES_MAX, CAS_MAX, CERTIFICATE_BYTES_MAX};
use crate::secrets::Sealed;
use crate::state::hash::{Item, item_hash};
use std::collections::BTreeMap;
use zone::codec::{DecodeError, Decoder, Encoder};

/// A CA as the cluster holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ca {
    /// Its own certificate, DER.
    pub(crate) certificate: Vec<u8>,
    /// Its private key, sealed.
    pub(crate) key: Sealed,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    cas: BTreeMap<u32, Ca>,
    /// Who issues certificates; zero while there is no CA.
    issuer: u32,
    /// The last order to renew certificates.
    renewal: u32,
    standings: BTreeMap<NodeId, Standing>,
    /// The keys that members may show.
    pins: Pins,
    /// Which data key seals.
    pub(super) data_key: DataKeyNumbers,
}

impl Trust {
    pub(crate) const fn cas(&self) -> &BTreeMap<u32, Ca> {
        &self.cas
    }

    pub(crate) const fn issuer(&self) -> u32 {
        self.issuer
    }

    pub(crate) const fn renewal(&self) -> u32 {
        self.renewal
    }

    pub(crate) const fn standings(&self) -> &BTreeMap<NodeId, Standing> {
        &self.standings
    }

    pub(crate) const fn pins(&self) -> &Pins {
        &self.pins
    }

    fn next_number(&self) -> u32 {
        self.cas.keys().next_back().map_or(1, |last| last.saturating_add(1))
    }

    fn apply(&mut self, change: &TrustChange) {
        match change {
            TrustChange::CaAdd { number, certificate, key } => {
                if *number == self.next_number() && self.cas.len() < CAS_MAX {
                    let ca = Ca { certificate: certificate.clone(), key: key.clone() };
                    self.cas.insert(*number, ca);
                    if self.issuer == 0 {
                        self.issuer = *number;
                    }
                }
            }
            TrustChange::CaUse { number } => {
                if self.cas.contains_key(number) {
                    self.issuer = self.issuer.max(*number);
                }
            }
            TrustChange::CaRemove { number } => {
                if *number != self.issuer {
                    self.cas.remove(number);
                }
            }
            // Of the settings as a whole.
            TrustChange::DataKey(_) => {}
            TrustChange::Renew { number } => self.renewal = self.renewal.max(*number),
            TrustChange::Standing { id, standing } => {
                self.standings.insert(*id, *standing);
            }
            TrustChange::Pin { id, change } => self.pins.apply(*id, change),
        }
    }

    pub(super) fn reseal_ca(&mut self, number: u32, key: Sealed) {
        if let Some(ca) = self.cas.get_mut(&number) {
            ca.key = key;
        }
    }

    /// Items of a checkpoint: 30 the CAs, 31 the numbers, 32 the members, 33 the data keys, 34
    /// to 36 the pins of members.
    pub(super) fn encode_items(&self, mut each: impl FnMut(u8, &dyn Fn(&mut Encoder))) {
        for (&number, ca) in &self.cas {
            each(30, &|out| {
                out.u32(number);
                out.bytes(&ca.certificate);
                ca.key.encode(out);
            });
        }
        if (self.issuer, self.renewal) != (0, 0) {
            each(31, &|out| {
                out.u32(self.issuer);
                out.u32(self.renewal);
            });
        }
        if self.data_key != DataKeyNumbers::default() {
            let DataKeyNumbers { current, next, is_due } = self.data_key;
            each(33, &|out| {
                out.u32(current);
                out.bool(is_due);
                out.bool(next.is_some());
                if let Some((number, digest)) = next {
                    out.u32(number);
                    out.fixed(&digest);
                }
            });
        }
        for (&id, standing) in &self.standings {
            each(32, &|out| {
                out.u64(id);
                encode_standing(standing, out);
            });
        }
        self.pins.encode_items(each);
    }

    fn restore(&mut self, kind: u8, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        match kind {
            30 => {
                let (number, certificate) = (from.u32()?, from.bytes(CERTIFICATE_BYTES_MAX)?.to_vec());
                let key = Sealed::decode(from, CA_KEY_BYTES_MAX)?;
                self.cas.insert(number, Ca { certificate, key });
            }
            31 => (self.issuer, self.renewal) = (from.u32()?, from.u32()?),
            32 => {
                let (id, standing) = (from.u64()?, decode_standing(from)?);
                self.standings.insert(id, standing);
            }
            33 => {
                let (current, is_due) = (from.u32()?, from.bool()?);
                let next = if from.bool()? { Some((from.u32()?, from.array()?)) } else { None };
                self.data_key = DataKeyNumbers { current, next, is_due };
            }
            34..=36 => self.pins.restore(kind, from)?,
            _ => return Err(DecodeError::Unknown),
        }
        Ok(())
    }

    /// Of the same bytes as the items.
    fn hash(&self) -> u128 {
        let mut hash = 0u128;
        self.encode_items(|kind, write| {
            let mut out = Encoder::new();
            out.u8(kind);
            write(&mut out);
            hash = hash.wrapping_add(item_hash(Item::Trust, &[&out.finish()]));
        });
        hash
    }
}

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
        if let TrustChange::Standing { id, .. } | TrustChange::Pin { id, .. } = change
            && !self.is_member(*id)
        {
            return;
        }
        self.with_trust(|trust| trust.apply(change));
    }

    /// What a member said of itself and the keys that it may show, when it is none any more.
    pub(super) fn forget_standing(&mut self, id: NodeId) {
        self.with_trust(|trust| {
            trust.standings.remove(&id);
            trust.pins.forget(id);
        });
    }

    /// Of another cluster from now on, which makes its own; this data key of it seals.
    pub(super) fn forget_trust(&mut self, data_key: u32) {
        let data_key = DataKeyNumbers { current: data_key, ..DataKeyNumbers::default() };
        self.with_trust(|trust| *trust = Trust { data_key, ..Trust::default() });
    }

    pub(super) fn restore_trust(&mut self, kind: u8, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        self.with_trust(|trust| trust.restore(kind, from))
    }

    /// Whether every member has said something of itself that satisfies.
    pub(super) fn all_stand(&self, is_so: impl Fn(&Standing) -> bool) -> bool {
        self.members.keys().all(|id| self.trust.standings.get(id).is_some_and(&is_so))
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
            TrustChange::CaUse { number } => when_ready(self.all_stand(|of| of.accepts >= *number)),
            TrustChange::CaRemove { number } if !trust.cas.contains_key(number) => Ok(false),
            TrustChange::CaRemove { number } if *number >= trust.issuer => Err(AdminError::RotationBusy),
            TrustChange::CaRemove { .. } => when_ready(self.all_stand(|of| of.issued_by == trust.issuer)),
            TrustChange::Renew { number } => Ok(*number > trust.renewal),
            TrustChange::Standing { id, .. } | TrustChange::Pin { id, .. } if !self.is_member(*id) => {
                Err(AdminError::NodeUnknown)
            }
            TrustChange::Pin { id, change } if !trust.pins.is_news(*id, change) => Ok(false),
            TrustChange::Pin { id, change: PinChange::Only(_) } => {
                when_ready(trust.pins.is_next_seen(*id, self.members.keys().copied()))
            }
            TrustChange::Pin { .. } => Ok(true),
            TrustChange::Standing { id, standing } => Ok(trust.standings.get(id) != Some(standing)),
        }
    }
}

/// Binds a sealed key to its CA.
pub(crate) fn ca_context(number: u32) -> Vec<u8> {
    [b"authority ".as_slice(), &number.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::SettingsChange;
    use crate::io::Member;

    fn add(number: u32) -> TrustChange {
        let key = Sealed { data_key_number: 1, nonce: [0; 12], bytes: vec![number as u8; 20] };
        TrustChange::CaAdd { number, certificate: vec![number as u8; 9], key }
    }

    fn stands(id: NodeId, accepts: u32, issued_by: u32) -> TrustChange {
        TrustChange::Standing { id, standing: Standing { accepts, issued_by, renewal: 0, expires_s: 77, data_key: 1 } }
    }

    fn two() -> Settings {
        let member = |id| Member { id, address: format!("[::1]:{id}") };
        Settings::genesis([1; 16], &[member(1), member(2)], 2)
    }

    fn done(settings: &mut Settings, change: TrustChange) {
        assert_eq!(settings.check_trust(&change), Ok(true), "{change:?}");
        settings.apply(&SettingsChange::Trust(change), 9, 0);
    }

    /// The hash covers every field of the members' credentials. Code with a new field does not compile until it has a
    /// row here.
    #[test]
    fn a_change_of_any_field_changes_the_hash() {
        let mut trust = Trust::default();
        trust.apply(&add(1));
        trust.apply(&stands(1, 1, 1));
        for change in [PinChange::Add([1; 32]), PinChange::Only([1; 32]), PinChange::Seen(1)] {
            trust.pins.apply(1, &change);
        }
        trust.data_key.next = Some((2, [2; 32]));
        let Trust { cas, issuer: _, renewal: _, standings, pins: _, data_key } = &trust;
        let Ca { certificate: _, key: _ } = &cas[&1];
        let Standing { accepts: _, issued_by: _, renewal: _, expires_s: _, data_key: _ } = standings[&1];
        let DataKeyNumbers { current: _, next: _, is_due: _ } = data_key;
        fn ca(trust: &mut Trust) -> &mut Ca {
            trust.cas.get_mut(&1).unwrap()
        }
        fn standing(trust: &mut Trust) -> &mut Standing {
            trust.standings.get_mut(&1).unwrap()
        }
        let mutations: [fn(&mut Trust); 16] = [
            |it| it.apply(&add(2)),
            |it| ca(it).certificate[8] ^= 1,
            |it| ca(it).key.bytes[19] ^= 1,
            |it| it.issuer += 1,
            |it| it.renewal += 1,
            |it| standing(it).accepts += 1,
            |it| standing(it).issued_by += 1,
            |it| standing(it).renewal += 1,
            |it| standing(it).expires_s += 1,
            |it| standing(it).data_key += 1,
            |it| it.pins.apply(1, &PinChange::Add([2; 32])),
            |it| it.pins.apply(2, &PinChange::Seen(1)),
            |it| it.data_key.current += 1,
            |it| it.data_key.next = Some((3, [2; 32])),
            |it| it.data_key.next = Some((2, [3; 32])),
            |it| it.data_key.is_due = true,
        ];
        let mut hashes = std::collections::BTreeSet::from([trust.hash()]);
        for (nth, mutate) in mutations.iter().enumerate() {
            let mut mutated = trust.clone();
            mutate(&mut mutated);
            assert!(hashes.insert(mutated.hash()), "mutation {nth} leaves the hash as it is");
        }
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
        done(&mut settings, stands(1, 2, 1));
        assert_eq!(settings.check_trust(&use_2), Err(AdminError::MembersBehind));
        assert_eq!(settings.check_trust(&stands(3, 2, 1)), Err(AdminError::NodeUnknown));
        done(&mut settings, stands(2, 2, 1));
        assert_eq!(settings.check_trust(&remove_1), Err(AdminError::RotationBusy), "it issues");
        done(&mut settings, use_2.clone());
        assert_eq!((settings.trust().issuer(), settings.check_trust(&use_2)), (2, Ok(false)));
        assert_eq!(settings.check_trust(&remove_1), Err(AdminError::MembersBehind));
        done(&mut settings, stands(1, 2, 2));
        // A member that goes is waited for no longer.
        settings.apply(&SettingsChange::MemberRemove { id: 2 }, 10, 0);
        assert_eq!(settings.trust().standings().len(), 1);
        done(&mut settings, remove_1.clone());
        assert_eq!((settings.trust().cas().len(), settings.check_trust(&remove_1)), (1, Ok(false)));
        assert_eq!(settings.check_trust(&TrustChange::CaUse { number: 1 }), Ok(false), "it never comes back");
        done(&mut settings, add(3));
    }

    #[test]
    fn exactly_one_ca_issues_after_any_entry() {
        let mut settings = two();
        let all = [TrustChange::CaUse { number: 1 }, add(1), TrustChange::CaRemove { number: 1 }, add(3)];
        all.into_iter().for_each(|change| settings.apply(&SettingsChange::Trust(change), 9, 0));
        assert_eq!((settings.trust().issuer(), settings.trust().cas().len()), (1, 1));
        settings.apply(&SettingsChange::Trust(stands(7, 1, 1)), 9, 0);
        assert!(settings.trust().standings().is_empty(), "of no member");
    }

    #[test]
    fn trust_is_cleared_for_a_new_cluster() {
        let (mut settings, mut plain) = (two(), two());
        [add(1), stands(1, 1, 1)].into_iter().for_each(|change| done(&mut settings, change));
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
