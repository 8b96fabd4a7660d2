//! TLS session tickets (RFC 8446 4.6.1, RFC 5077) that are valid on all nodes of the cluster.
//!
//! The keys are derived from a secret of the cluster ([`super::client_secrets`]) and the time, so all nodes have the
//! same keys and never send them:
//!
//! ```text
//!   key of a period = HMAC-SHA256(secret, label, number of the period)
//!   ticket          = number of the period, nonce, ChaCha20-Poly1305 of the session
//! ```
//! A ticket is valid in its period and the next, unless its secret is retired before. Early data is never accepted, so
//! a replayed ticket has no effect (RFC 8446 8). In TLS 1.3 a resumed session has its own key exchange, so a leaked
//! secret does not decrypt recorded traffic.

use super::client_secrets::ClientSecrets;
use crate::limits::TICKET_BYTES_MAX;
use config::files::data_key::Key;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use rustls::server::ProducesTickets;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Time for which one key issues TLS session tickets. Tickets of the previous key stay valid.
const TICKET_PERIOD_S: u64 = 12 * 3_600;
/// Bytes of the number of a period.
const PERIOD_BYTES: usize = 4;

/// Makes tickets and opens them.
pub(crate) struct Tickets {
    secrets: Arc<ClientSecrets>,
    now_s: fn() -> u64,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets(..)")
    }
}

impl Tickets {
    /// The tickets of a cluster with these secrets.
    pub(crate) fn new(secrets: Arc<ClientSecrets>) -> Self {
        let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { secrets, now_s }
    }

    fn period(&self) -> u32 {
        // It wraps in the distant future, which only voids the tickets of one day.
        ((self.now_s)() / TICKET_PERIOD_S) as u32
    }

    fn key(secret: &Key, period: u32) -> Option<LessSafeKey> {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
        context.update(b"catamaran tls ticket key 1");
        context.update(&period.to_be_bytes());
        UnboundKey::new(&CHACHA20_POLY1305, context.sign().as_ref()).ok().map(LessSafeKey::new)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        TICKET_PERIOD_S as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let period = self.period().to_be_bytes();
        let mut nonce = [0; NONCE_LEN];
        config::files::token::fill_random(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        let key = Self::key(&self.secrets.first(), u32::from_be_bytes(period))?;
        key.seal_in_place_append_tag(unique, Aad::from(period), &mut sealed).ok()?;
        Some([&period[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if ticket.len() > TICKET_BYTES_MAX {
            return None;
        }
        let (period, rest) = ticket.split_first_chunk::<PERIOD_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let made_in = u32::from_be_bytes(*period);
        // A ticket one period ahead comes from a node whose clock is ahead.
        let age = self.period().wrapping_sub(made_in);
        if !matches!(age, 0 | 1 | u32::MAX) {
            return None;
        }
        self.secrets.get().iter().find_map(|secret| {
            let mut bytes = sealed.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let plain = Self::key(secret, made_in)?.open_in_place(nonce, Aad::from(*period), &mut bytes).ok()?;
            Some(plain.to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(data_key: u8, now_s: fn() -> u64) -> Tickets {
        Tickets { now_s, ..Tickets::new(ClientSecrets::of_key(&[data_key; 32])) }
    }

    #[test]
    fn a_ticket_is_good_until_its_data_key_is_retired() {
        let keys = |numbers: &[u32]| numbers.iter().map(|number| (*number, [*number as u8; 32])).collect();
        let secrets = ClientSecrets::new(&keys(&[1]));
        let tickets = Tickets::new(secrets.clone());
        let old = tickets.encrypt(b"a session").unwrap();
        let opens = |ticket: &[u8]| tickets.decrypt(ticket).is_some();
        secrets.set(&keys(&[1, 2]), 2);
        let new = tickets.encrypt(b"a session").unwrap();
        assert!(opens(&old) && opens(&new));
        secrets.set(&keys(&[2]), 2);
        assert!(!opens(&old) && opens(&new));
        // A starting node does not know yet which key is in use.
        assert!(Tickets::new(ClientSecrets::new(&keys(&[1, 2]))).decrypt(&new).is_some());
    }

    #[test]
    fn a_ticket_is_good_on_every_node_for_two_periods_and_nowhere_else() {
        let (maker, session) = (at(1, || 100 * TICKET_PERIOD_S), b"a session");
        let ticket = maker.encrypt(session).unwrap();
        assert_ne!(maker.encrypt(session).unwrap(), ticket, "each ticket has its own nonce");
        assert!(!ticket.windows(session.len()).any(|window| window == session));
        let opens = |tickets: Tickets| tickets.decrypt(&ticket).as_deref() == Some(session);
        assert!(opens(at(1, || 100 * TICKET_PERIOD_S)) && opens(at(1, || 102 * TICKET_PERIOD_S - 1)));
        assert!(opens(at(1, || 100 * TICKET_PERIOD_S - 1)), "a clock that is behind");
        assert!(!opens(at(1, || 102 * TICKET_PERIOD_S)) && !opens(at(1, || 98 * TICKET_PERIOD_S)));
        assert!(!opens(at(2, || 100 * TICKET_PERIOD_S)), "another cluster");
        assert!(maker.decrypt(&[]).is_none() && maker.decrypt(&vec![0; TICKET_BYTES_MAX + 1]).is_none());
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert!(maker.decrypt(&changed).is_none(), "byte {at}");
            assert!(maker.decrypt(&ticket[..at]).is_none(), "cut at {at}");
        }
    }
}
