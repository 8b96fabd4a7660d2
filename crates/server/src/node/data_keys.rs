//! Replaces the data key: brings another, gets it to every member, lets it seal, seals anew, and forgets the one
//! before.
//!
//! A step that all members share is taken by the leader, when each has said that it is done with the one before.

use super::handle::{Event, ReplicaHandle, WithZones};
use crate::files::data_key::{self, DataKeyFile, DataKeys, Key};
use crate::files::token::fill_random;
use crate::limits::DATA_KEY_LOST_LOOKS;
use crate::peer::admission::Admission;
use crate::peer::data_keys::ask;
use crate::tls::client_secrets::ClientSecrets;
use crate::tls::session::CurrentTls;
use replica::Trust;
use replica::io::{Input, NodeId, Role, TrustCommand};
use replica::limits::RESEALED_MAX;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// One node's.
pub(super) struct DataKeyKeeper {
    own: NodeId,
    file: DataKeyFile,
    /// Those that the replica has.
    given: BTreeMap<u32, Key>,
    /// What clients are given follows from them.
    clients: Arc<ClientSecrets>,
    /// Looks in a row at which the next key was nowhere to be had.
    lost_looks: u32,
    admission: Admission,
}

impl DataKeyKeeper {
    pub(super) const fn new(
        own: NodeId,
        file: DataKeyFile,
        given: BTreeMap<u32, Key>,
        clients: Arc<ClientSecrets>,
        admission: Admission,
    ) -> Self {
        Self { own, file, given, clients, lost_looks: 0, admission }
    }

    /// Gets the keys that are wanted, and forgets those that open nothing any more. Gives the number up to which they
    /// are here, on disk.
    pub(super) async fn follow(&mut self, trust: &Trust, tls: &CurrentTls, handle: &ReplicaHandle) -> io::Result<u32> {
        let mut keys = self.file.load()?;
        let before = keys.clone();
        if let Some((number, digest)) = trust.next_data_key
            && keys.keys.get(&number).is_none_or(|key| data_key::digest(key) != digest)
        {
            let found = self.find(trust, tls, number, |key| data_key::digest(key) == digest).await;
            self.lost_looks = if found.is_some() { 0 } else { self.lost_looks.saturating_add(1) };
            keys.keys.extend(found.map(|key| (number, key)));
        }
        if !keys.keys.contains_key(&trust.data_key) {
            let found = self.find(trust, tls, trust.data_key, |_| true).await;
            keys.keys.extend(found.map(|key| (trust.data_key, key)));
        }
        if !trust.is_sealed_before && keys.keys.contains_key(&trust.data_key) {
            keys.keys.retain(|number, _| *number >= trust.data_key);
        }
        if let Some((next, _)) = trust.next_data_key {
            // Those between were never used.
            keys.keys.retain(|number, _| *number <= trust.data_key || *number >= next);
        }
        if keys != before {
            self.file.save(&keys)?;
        }
        if keys.keys != self.given
            && let Some(ring) = keys.to_replica()
        {
            tracing::info!(numbers = ?keys.keys.keys(), "the data keys of this node have changed");
            handle.send(Event::Input(Input::DataKeys { keys: ring }));
            self.given = keys.keys.clone();
        }
        self.clients.set(&keys.keys, trust.data_key);
        Ok(held(trust, &keys))
    }

    /// From the replica's memory, where another node that shares the file wrote its own there, or from a member.
    async fn find(&self, trust: &Trust, tls: &CurrentTls, number: u32, is_it: impl Fn(&Key) -> bool) -> Option<Key> {
        if let Some(key) = self.given.get(&number).filter(|key| is_it(key)) {
            return Some(*key);
        }
        for member in trust.members.iter().filter(|member| member.id != self.own) {
            match ask(tls, &self.admission, self.own, member, number).await {
                Ok(key) if is_it(&key) => return Some(key),
                Ok(_) => {}
                Err(why) => tracing::debug!(member = member.id, number, why, "a data key is not to be had there"),
            }
        }
        None
    }

    /// What is to be done next by the leader.
    pub(super) async fn lead(&mut self, trust: &Trust, handle: &ReplicaHandle) -> io::Result<Option<TrustCommand>> {
        let is_wanted = trust.data_key_is_due || trust.next_data_key.is_some() || trust.is_sealed_before;
        if !is_wanted || !handle.status(WithZones::No).await.is_some_and(|status| status.role == Role::Leader) {
            return Ok(None);
        }
        if trust.is_sealed_before && self.given.contains_key(&trust.data_key) {
            let mut nonces = vec![[0; 12]; RESEALED_MAX];
            fill_random(nonces.as_flattened_mut())?;
            return Ok(Some(TrustCommand::Reseal { nonces }));
        }
        match trust.next_data_key {
            Some((number, _)) => {
                let holds = |id| trust.standings.get(&id).is_some_and(|standing| standing.data_key >= number);
                if trust.members.iter().all(|member| holds(member.id)) {
                    return Ok(Some(TrustCommand::UseDataKey { number }));
                }
                // Who brought it is gone, and nobody got it.
                if self.lost_looks < DATA_KEY_LOST_LOOKS {
                    return Ok(None);
                }
                self.lost_looks = 0;
                begin(trust, &self.file).map(Some)
            }
            None if trust.data_key_is_due => begin(trust, &self.file).map(Some),
            None => Ok(None),
        }
    }
}

/// The number up to which the keys are here.
fn held(trust: &Trust, keys: &DataKeys) -> u32 {
    let is_next = |(number, digest): (u32, [u8; 32])| {
        keys.keys.get(&number).is_some_and(|key| data_key::digest(key) == digest).then_some(number)
    };
    let current = keys.keys.contains_key(&trust.data_key).then_some(trust.data_key);
    trust.next_data_key.and_then(is_next).or(current).unwrap_or(0)
}

/// Makes another key, and keeps it: it is on this disk before anybody hears of it. One that was made and is not known
/// to the cluster yet is brought again: what was said of it may still arrive.
pub(crate) fn begin(trust: &Trust, file: &DataKeyFile) -> io::Result<TrustCommand> {
    let number = trust.next_data_key.map_or(trust.data_key, |(next, _)| next) + 1;
    let mut keys = file.load()?;
    let key = match keys.keys.get(&number) {
        Some(key) => *key,
        None => {
            let key = data_key::make()?;
            keys.keys.insert(number, key);
            file.save(&keys)?;
            key
        }
    };
    Ok(TrustCommand::BeginDataKey { number, digest: data_key::digest(&key) })
}
