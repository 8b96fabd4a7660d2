//! The settings as items of a checkpoint.

use super::{KeyEntry, Retired, Settings};
use crate::entry::{
    decode_algorithm, decode_grant, decode_options, decode_policy, encode_algorithm, encode_grant, encode_options,
    encode_policy,
};
use crate::limits::ADDRESS_BYTES_MAX;
use crate::secrets::Sealed;
use std::sync::Arc;
use tsig::limits::SECRET_BYTES_MAX;
use wire::number::Serial;
use zone::codec::{DecodeError, Decoder, Encoder};

impl Settings {
    /// Writes all settings as items of a checkpoint.
    pub(crate) fn encode_items(&self, mut item: impl FnMut(Encoder)) {
        let mut each = |kind: u8, write: &dyn Fn(&mut Encoder)| {
            let mut out = Encoder::new();
            out.u8(kind);
            write(&mut out);
            item(out);
        };
        each(1, &|out| {
            out.fixed(&self.cluster_id);
            out.u64(self.epoch);
            out.u32(self.feature_level);
        });
        for (zone, options) in &self.zones {
            each(2, &|out| {
                out.zone_id(zone);
                encode_options(*options, out);
            });
        }
        for (zone, retired) in &self.retired {
            each(3, &|out| {
                out.zone_id(zone);
                out.u32(retired.serial.0);
                out.u64(retired.index);
            });
        }
        for (name, key) in &self.keys {
            each(4, &|out| {
                out.name(name);
                encode_algorithm(key.algorithm, out);
                key.secret.encode(out);
                out.u64(key.generation);
            });
            if let Some(previous) = &key.previous {
                each(10, &|out| {
                    out.name(name);
                    previous.encode(out);
                });
            }
        }
        for (key, zone, right) in &self.grants {
            each(5, &|out| encode_grant(key, zone.as_ref(), *right, out));
        }
        for (&id, address) in &self.members {
            each(6, &|out| {
                out.u64(id);
                out.text(address);
            });
        }
        for (&node, &next) in &self.incarnations {
            each(7, &|out| {
                out.u32(node);
                out.u32(next);
            });
        }
        self.encode_tokens_and_learners(&mut each);
        self.encode_rotation(&mut each);
        self.trust.encode_items(&mut each);
        for (zone, policy) in &self.policies {
            each(9, &|out| encode_policy(zone.as_ref(), policy, out));
        }
    }

    fn encode_tokens_and_learners(&self, mut each: impl FnMut(u8, &dyn Fn(&mut Encoder))) {
        for (digest, &expires) in &self.tokens {
            each(8, &|out| {
                out.fixed(digest);
                out.u64(expires);
            });
        }
        for &id in &self.learners {
            each(15, &|out| out.u64(id));
        }
        for digest in &self.learner_tokens {
            each(16, &|out| out.fixed(digest));
        }
    }

    /// Restores one item of a checkpoint.
    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        match from.u8()? {
            1 => {
                let (cluster_id, epoch, feature_level) = (from.array()?, from.u64()?, from.u32()?);
                self.with_scalars(|settings| {
                    settings.cluster_id = cluster_id;
                    settings.epoch = epoch;
                    settings.feature_level = feature_level;
                });
            }
            2 => {
                let (zone, options) = (from.zone_id()?, decode_options(from)?);
                self.put_zone(&zone, options);
            }
            3 => {
                let (zone, serial, index) = (from.zone_id()?, Serial(from.u32()?), from.u64()?);
                self.put_retired(&zone, Retired { serial, index });
            }
            4 => {
                let (name, algorithm) = (from.name()?, decode_algorithm(from)?);
                let (secret, generation) = (Sealed::decode(from, SECRET_BYTES_MAX)?, from.u64()?);
                self.put_key(&name, KeyEntry { algorithm, secret, previous: None, generation });
            }
            5 => {
                let grant = decode_grant(from)?;
                self.put_grant(grant);
            }
            6 => {
                let (id, address) = (from.u64()?, from.text(ADDRESS_BYTES_MAX)?);
                self.put_member(id, address);
            }
            7 => {
                let (node, next) = (from.u32()?, from.u32()?);
                self.put_incarnation(node, next);
            }
            8 => {
                let (digest, expires) = (from.array()?, from.u64()?);
                self.put_token(digest, expires);
            }
            15 => {
                let id = from.u64()?;
                self.set_learner(id, true);
            }
            16 => {
                let digest = from.array()?;
                self.put_learner_token(digest);
            }
            kind @ 17..=19 => self.restore_rotation(kind, from)?,
            9 => {
                let (zone, policy) = decode_policy(from)?;
                self.put_policy(zone, Arc::new(policy));
            }
            10 => {
                let (name, previous) = (from.name()?, Sealed::decode(from, SECRET_BYTES_MAX)?);
                let key = self.keys.get(&name).cloned().ok_or(DecodeError::Unknown)?;
                self.put_key(&name, KeyEntry { previous: Some(previous), ..key });
            }
            kind @ 30..=39 => self.restore_trust(kind, from)?,
            _ => return Err(DecodeError::Unknown),
        }
        Ok(())
    }
}
