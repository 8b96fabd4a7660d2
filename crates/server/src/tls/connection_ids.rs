//! QUIC connection IDs with check bytes, so that an endpoint can detect forged ones.

use quinn::ConnectionId;
use quinn_proto::{ConnectionIdGenerator, InvalidCid};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::time::Duration;

/// Random bytes. An ID sent with RETRY is in no table. If another connection gets the same ID before the client
/// returns, the client's handshake fails. quinn's own checked IDs have three random bytes, so among a thousand
/// connections this happened to one in a few thousand.
const RANDOM_BYTES: usize = 6;
/// Check bytes, made from the random bytes and the key.
const CHECK_BYTES: usize = 2;
const BYTES: usize = RANDOM_BYTES + CHECK_BYTES;

/// Makes IDs that only the owner of the key can make and check.
#[derive(Clone)]
pub(super) struct ConnectionIds {
    key: hmac::Key,
    random: SystemRandom,
}

impl ConnectionIds {
    pub(super) fn new(key: hmac::Key) -> Self {
        Self { key, random: SystemRandom::new() }
    }

    fn check(&self, random: &[u8]) -> [u8; CHECK_BYTES] {
        *hmac::sign(&self.key, random).as_ref().first_chunk().expect("two of 32 bytes")
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; BYTES];
        let (random, check) = bytes.split_at_mut(RANDOM_BYTES);
        self.random.fill(random).expect("the system gives random bytes");
        check.copy_from_slice(&self.check(random));
        ConnectionId::new(&bytes)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let (random, check) = id.split_at_checked(RANDOM_BYTES).ok_or(InvalidCid)?;
        if check == self.check(random) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn ids(secret: &[u8]) -> ConnectionIds {
        ConnectionIds::new(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    #[test]
    fn connection_ids_are_unique() {
        let mut ids = ids(b"key");
        // With 24 random bits there would be some three hundred duplicates.
        let mut seen = HashSet::new();
        let twice = (0..100_000).filter(|_| !seen.insert(ids.generate_cid())).count();
        assert_eq!(twice, 0);
    }

    #[test]
    fn ids_of_another_key_are_rejected() {
        let (mut ours, others) = (ids(b"ours"), ids(b"theirs"));
        let made: Vec<_> = (0..100).map(|_| ours.generate_cid()).collect();
        assert!(made.iter().all(|id| ids(b"ours").validate(id).is_ok()));
        // One in 65,536 passes the check by chance.
        assert!(made.iter().filter(|id| others.validate(id).is_ok()).count() < 3);
        assert!(ours.validate(&ConnectionId::new(&[1; 5])).is_err() && ours.validate(&ConnectionId::new(&[])).is_err());
    }
}
