//! Rotates the data key: creates a new key, distributes it to every member, seals with it, reseals all secrets, and
//! removes the old key.
//!
//! The leader starts each step once all members have reported the previous one.

use crate::peer::admission::Admission;
use crate::peer::data_keys::ask;
use crate::replica_host::data_key::to_replica;
use crate::replica_host::event::{Event, WithZones};
use crate::replica_host::handle::ReplicaHandle;
use crate::tls::client_secrets::ClientSecrets;
use crate::tls::session::CurrentTls;
use config::files::data_key::{self, DataKeyFile, DataKeys, Key};
use config::files::token::fill_random;
use replica::Trust;
use replica::io::{Input, NodeId, Role, TrustCommand};
use replica::limits::RESEALED_MAX;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Consecutive rounds without the next data key after which the leader creates another one.
const DATA_KEY_MISSING_ROUNDS: u32 = 30;

/// Manages the data keys of one node.
pub(crate) struct DataKeyManager {
    own: NodeId,
    file: DataKeyFile,
    /// The keys that the replica has.
    given: BTreeMap<u32, Key>,
    /// Secrets for clients, which are derived from the keys.
    clients: Arc<ClientSecrets>,
    /// Number of rounds in a row in which no node had the next key.
    missing_rounds: u32,
    admission: Admission,
}

impl DataKeyManager {
    pub(crate) const fn new(
        own: NodeId,
        file: DataKeyFile,
        given: BTreeMap<u32, Key>,
        clients: Arc<ClientSecrets>,
        admission: Admission,
    ) -> Self {
        Self { own, file, given, clients, missing_rounds: 0, admission }
    }

    /// Fetches the required keys, and removes keys that are no longer used. Returns the number up to which the keys are
    /// on disk here.
    pub(crate) async fn follow(&mut self, trust: &Trust, tls: &CurrentTls, handle: &ReplicaHandle) -> io::Result<u32> {
        let mut keys = self.file.load()?;
        let before = keys.clone();
        if let Some((number, digest)) = trust.next_data_key
            && keys.keys.get(&number).is_none_or(|key| data_key::digest(key) != digest)
        {
            let found = self.find(trust, tls, number, |key| data_key::digest(key) == digest).await;
            self.missing_rounds = if found.is_some() { 0 } else { self.missing_rounds.saturating_add(1) };
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
            // The keys in between were never used.
            keys.keys.retain(|number, _| *number <= trust.data_key || *number >= next);
        }
        if keys != before {
            self.file.save(&keys)?;
        }
        if keys.keys != self.given
            && let Some(ring) = to_replica(&keys)
        {
            tracing::info!(numbers = ?keys.keys.keys(), "the data keys of this node have changed");
            handle.send(Event::Input(Input::DataKeys { keys: ring }));
            self.given = keys.keys.clone();
        }
        self.clients.set(&keys.keys, trust.data_key);
        Ok(newest_available(trust, &keys))
    }

    /// Finds a key: in the memory of the replica, if another node that shares the file replaced it there, or on a
    /// member.
    async fn find(&self, trust: &Trust, tls: &CurrentTls, number: u32, is_it: impl Fn(&Key) -> bool) -> Option<Key> {
        if let Some(key) = self.given.get(&number).filter(|key| is_it(key)) {
            return Some(*key);
        }
        for member in trust.members.iter().filter(|member| member.id != self.own) {
            match ask(tls, &self.admission, self.own, member, number).await {
                Ok(key) if is_it(&key) => return Some(key),
                Ok(_) => {}
                Err(why) => tracing::debug!(member = member.id, number, why, "cannot get a data key from a member"),
            }
        }
        None
    }

    /// The next step that the leader must take.
    pub(crate) async fn lead(&mut self, trust: &Trust, handle: &ReplicaHandle) -> io::Result<Option<TrustCommand>> {
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
                let has_key = |id| trust.credentials.get(&id).is_some_and(|progress| progress.data_key >= number);
                if trust.members.iter().all(|member| has_key(member.id)) {
                    return Ok(Some(TrustCommand::UseDataKey { number }));
                }
                // The node that created the key is gone, and no other node has it.
                if self.missing_rounds < DATA_KEY_MISSING_ROUNDS {
                    return Ok(None);
                }
                self.missing_rounds = 0;
                begin(trust, &self.file).map(Some)
            }
            None if trust.data_key_is_due => begin(trust, &self.file).map(Some),
            None => Ok(None),
        }
    }
}

/// The number up to which the keys are on this node.
fn newest_available(trust: &Trust, keys: &DataKeys) -> u32 {
    let is_next = |(number, digest): (u32, [u8; 32])| {
        keys.keys.get(&number).is_some_and(|key| data_key::digest(key) == digest).then_some(number)
    };
    let current = keys.keys.contains_key(&trust.data_key).then_some(trust.data_key);
    trust.next_data_key.and_then(is_next).or(current).unwrap_or(0)
}

/// Creates a new key, and stores it on disk before any other node learns of it. A stored key that the cluster does not
/// know yet is used again, because an earlier proposal of it may still arrive.
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
