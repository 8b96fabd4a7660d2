//! The trust between members: the accepted CAs, the CA that issues certificates, and the progress of each member.
//!
//! A CA is replaced in three steps, so that no member meets a certificate that it does not accept. First all members
//! accept the new CA, then all get certificates from it, then the old one is no longer accepted. A step is taken when
//! every member has reported the one before as done.

use super::pins::Pins;
use crate::entry::{TrustChange, decode_credentials, encode_credentials};
use crate::io::{CredentialProgress, NodeId};
use crate::limits::{CA_KEY_BYTES_MAX, CAS_MAX, CERTIFICATE_BYTES_MAX};
use crate::secrets::Sealed;
use crate::state::hash::{Item, item_hash};
use std::collections::BTreeMap;
use zone::codec::{DecodeError, Decoder, Encoder};

/// A CA as stored in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ca {
    /// Its own certificate, DER.
    pub(crate) certificate: Vec<u8>,
    /// Its private key, sealed.
    pub(crate) key: Sealed,
}

/// Numbers of the data keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataKeyNumbers {
    /// The key that seals secrets.
    pub(crate) current: u32,
    /// The key that will replace it, with its digest.
    pub(crate) next: Option<(u32, [u8; 32])>,
    /// A member that had the current key was removed.
    pub(crate) is_due: bool,
}

impl Default for DataKeyNumbers {
    fn default() -> Self {
        Self { current: 1, next: None, is_due: false }
    }
}

impl DataKeyNumbers {
    /// The number of the next new key.
    pub(crate) fn next_number(self) -> u32 {
        self.next.map_or(self.current, |(number, _)| number).saturating_add(1)
    }
}

/// Binds a sealed key to its CA.
pub(crate) fn ca_context(number: u32) -> Vec<u8> {
    [b"authority ".as_slice(), &number.to_be_bytes()].concat()
}

/// The whole trust state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    pub(super) cas: BTreeMap<u32, Ca>,
    /// The CA that issues certificates; zero while there is none.
    pub(super) issuer: u32,
    /// The last order to renew certificates.
    pub(super) renewal: u32,
    pub(super) credentials: BTreeMap<NodeId, CredentialProgress>,
    /// The keys that members may use.
    pub(super) pins: Pins,
    /// The data key that seals secrets.
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

    pub(crate) const fn credentials(&self) -> &BTreeMap<NodeId, CredentialProgress> {
        &self.credentials
    }

    pub(crate) const fn pins(&self) -> &Pins {
        &self.pins
    }

    pub(super) fn next_number(&self) -> u32 {
        self.cas.keys().next_back().map_or(1, |last| last.saturating_add(1))
    }

    pub(super) fn apply(&mut self, change: &TrustChange) {
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
            // Handled by the settings as a whole.
            TrustChange::DataKey(_) => {}
            TrustChange::Renew { number } => self.renewal = self.renewal.max(*number),
            TrustChange::Credentials { id, progress } => {
                self.credentials.insert(*id, *progress);
            }
            TrustChange::Pin { id, change } => self.pins.apply(*id, change),
        }
    }

    pub(super) fn reseal_ca(&mut self, number: u32, key: Sealed) {
        if let Some(ca) = self.cas.get_mut(&number) {
            ca.key = key;
        }
    }

    /// Items of a checkpoint: 30 the CAs, 31 the numbers, 32 the members, 33 the data keys, 34 to 36 the pins of
    /// members.
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
        for (&id, progress) in &self.credentials {
            each(32, &|out| {
                out.u64(id);
                encode_credentials(progress, out);
            });
        }
        self.pins.encode_items(each);
    }

    pub(super) fn restore(&mut self, kind: u8, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        match kind {
            30 => {
                let (number, certificate) = (from.u32()?, from.bytes(CERTIFICATE_BYTES_MAX)?.to_vec());
                let key = Sealed::decode(from, CA_KEY_BYTES_MAX)?;
                self.cas.insert(number, Ca { certificate, key });
            }
            31 => (self.issuer, self.renewal) = (from.u32()?, from.u32()?),
            32 => {
                let (id, progress) = (from.u64()?, decode_credentials(from)?);
                self.credentials.insert(id, progress);
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

    /// A hash of the same bytes as the items.
    pub(super) fn hash(&self) -> u128 {
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

#[cfg(test)]
mod tests {
    use super::super::tests::{ca_add, reports};
    use super::*;
    use crate::entry::PinChange;

    /// The hash covers every field of the members' credentials. Code with a new field does not compile until it has a
    /// row here.
    #[test]
    fn a_change_of_any_field_changes_the_hash() {
        let mut trust = Trust::default();
        trust.apply(&ca_add(1));
        trust.apply(&reports(1, 1, 1));
        for change in [PinChange::Add([1; 32]), PinChange::Only([1; 32]), PinChange::Seen(1)] {
            trust.pins.apply(1, &change);
        }
        trust.data_key.next = Some((2, [2; 32]));
        let Trust { cas, issuer: _, renewal: _, credentials, pins: _, data_key } = &trust;
        let Ca { certificate: _, key: _ } = &cas[&1];
        let CredentialProgress { accepts: _, issued_by: _, renewal: _, expires_s: _, data_key: _ } = credentials[&1];
        let DataKeyNumbers { current: _, next: _, is_due: _ } = data_key;
        fn ca(trust: &mut Trust) -> &mut Ca {
            trust.cas.get_mut(&1).unwrap()
        }
        fn progress(trust: &mut Trust) -> &mut CredentialProgress {
            trust.credentials.get_mut(&1).unwrap()
        }
        let mutations: [fn(&mut Trust); 16] = [
            |it| it.apply(&ca_add(2)),
            |it| ca(it).certificate[8] ^= 1,
            |it| ca(it).key.bytes[19] ^= 1,
            |it| it.issuer += 1,
            |it| it.renewal += 1,
            |it| progress(it).accepts += 1,
            |it| progress(it).issued_by += 1,
            |it| progress(it).renewal += 1,
            |it| progress(it).expires_s += 1,
            |it| progress(it).data_key += 1,
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
}
