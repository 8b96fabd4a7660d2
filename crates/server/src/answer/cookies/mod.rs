//! DNS cookies (RFC 7873, RFC 9018): they prove the address of a client.
//!
//! Every node accepts the cookies of all other nodes. Unless the operator provides a file, the secrets are derived from
//! the cluster's data keys ([`crate::tls::client_secrets`]) and the day, so the nodes need not exchange them. Each node
//! makes cookies with the secret of today, and also accepts those of yesterday and tomorrow.
//!
//! A client with an invalid cookie gets its answer and a new cookie (RFC 7873 5.2.3 to 5.2.5 leave that to the server).
//! A valid cookie exempts the client from the rate limit.

// The operator's file of secrets.
pub(crate) mod file;
// One secret: makes and checks cookies.
mod secret;

pub(crate) use secret::COOKIE_BYTES;

use crate::tls::client_secrets::ClientSecrets;
use file::SharedSecrets;
use ring::hmac;
use secret::CookieSecret;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use wire::parse::Cookie;

/// How long each derived secret is used. A cookie is valid for an hour, so the previous secret is enough.
const PERIOD_S: u64 = 86_400;
/// From this age on a valid cookie is replaced (RFC 9018 4.3).
const RENEW_AFTER_S: i32 = 1_800;

/// Whether the cookie of a client proves its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CookieStatus {
    /// The client sent no cookie.
    None,
    /// It sent a cookie without a valid server cookie.
    Unproven,
    /// It sent a valid server cookie, so it receives at its address.
    Proven,
}

/// The source of the secrets.
#[derive(Clone)]
pub(crate) enum SecretSource {
    /// Derived from the cluster's data keys.
    Cluster(Arc<ClientSecrets>),
    /// The operator's file.
    File(Arc<SharedSecrets>),
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster(_) => "SecretSource::Cluster(..)",
            Self::File(_) => "SecretSource::File(..)",
        })
    }
}

#[cfg(test)]
impl SecretSource {
    /// The source of a cluster with this data key.
    pub(crate) fn cluster(data_key: &[u8; 32]) -> Self {
        Self::Cluster(ClientSecrets::of_key(data_key))
    }
}

/// Makes and checks cookies, for one thread.
pub(crate) struct Cookies {
    source: SecretSource,
    /// The version of `secrets`: of the data keys and the period, or of the file.
    version: Option<(u64, u64)>,
    /// The first makes cookies; all are accepted.
    secrets: Vec<CookieSecret>,
}

impl Cookies {
    pub(crate) fn new(source: SecretSource) -> Self {
        Self { source, version: None, secrets: Vec::new() }
    }

    /// Loads changed secrets.
    fn refresh(&mut self, now_s: u64) {
        match &self.source {
            SecretSource::Cluster(shared) => {
                let period = now_s / PERIOD_S;
                let version = (shared.version(), period);
                if self.version != Some(version) {
                    let periods = [period, period.wrapping_sub(1), period + 1];
                    let keys = shared.get();
                    let keys = keys.iter().map(|key| hmac::Key::new(hmac::HMAC_SHA256, key));
                    let secrets = keys.flat_map(|key| periods.map(|period| CookieSecret::derive(&key, period)));
                    self.secrets = secrets.collect();
                    self.version = Some(version);
                }
            }
            SecretSource::File(shared) => {
                let version = (shared.version(), 0);
                if self.version != Some(version) {
                    self.secrets = shared.get();
                    self.version = Some(version);
                }
            }
        }
    }

    /// Checks the cookie that a client sent from this address; returns its status and the cookie of the response.
    /// `now_s` is in seconds since 1970.
    pub(crate) fn check(
        &mut self,
        cookie: &Cookie<'_>,
        address: IpAddr,
        now_s: u64,
    ) -> (CookieStatus, Option<[u8; COOKIE_BYTES]>) {
        self.refresh(now_s);
        let Some(maker) = self.secrets.first() else { return (CookieStatus::Unproven, None) };
        if cookie.server.is_empty() {
            return (CookieStatus::Unproven, Some(maker.cookie_for(cookie, address, now_s)));
        }
        let age_of = |(index, secret): (usize, &CookieSecret)| Some((index, secret.age_s(cookie, address, now_s)?));
        let found = self.secrets.iter().enumerate().find_map(age_of);
        // A recent cookie of the current secret is returned unchanged.
        let is_kept = found.is_some_and(|(index, age_s)| index == 0 && age_s < RENEW_AFTER_S);
        let out = if is_kept { joined(cookie) } else { Some(maker.cookie_for(cookie, address, now_s)) };
        (if found.is_some() { CookieStatus::Proven } else { CookieStatus::Unproven }, out)
    }
}

/// Both parts of a cookie that this server made.
fn joined(cookie: &Cookie<'_>) -> Option<[u8; COOKIE_BYTES]> {
    let mut out = [0; COOKIE_BYTES];
    out[..8].copy_from_slice(&cookie.client);
    out.get_mut(8..)?.copy_from_slice(cookie.server.get(..COOKIE_BYTES - 8)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::files::data_key::DATA_KEY_BYTES;

    const CLIENT: [u8; 8] = [3; 8];

    fn cluster(byte: u8) -> Cookies {
        Cookies::new(SecretSource::cluster(&[byte; DATA_KEY_BYTES]))
    }

    fn address() -> IpAddr {
        "192.0.2.1".parse().unwrap()
    }

    #[test]
    fn a_server_cookie_proves_the_address() {
        let now = 1_800_000_000;
        let mut node = cluster(1);
        let (status, made) = node.check(&Cookie { client: CLIENT, server: &[] }, address(), now);
        assert_eq!(status, CookieStatus::Unproven);
        let made = made.unwrap();
        let again = |node: &mut Cookies, now| {
            let (status, cookie) = node.check(&Cookie { client: CLIENT, server: &made[8..] }, address(), now);
            (status, cookie.unwrap())
        };
        // On another node, half an hour later: valid, and kept.
        assert_eq!(again(&mut cluster(1), now + 1_799), (CookieStatus::Proven, made));
        let (status, renewed) = again(&mut node, now + 1_800);
        assert!(status == CookieStatus::Proven && renewed != made, "half an hour old: valid, and replaced");
        assert_eq!(again(&mut node, now + 3_601).0, CookieStatus::Unproven);
        assert_eq!(again(&mut cluster(2), now).0, CookieStatus::Unproven);
    }

    #[test]
    fn a_secret_of_the_next_day_is_accepted_before_it_is_used() {
        // A node whose clock is a second ahead has begun the new day.
        let midnight = 20_000 * PERIOD_S;
        for (maker_s, taker_s) in [(midnight, midnight - 1), (midnight - 1, midnight)] {
            let (_, made) = cluster(1).check(&Cookie { client: CLIENT, server: &[] }, address(), maker_s);
            let made = made.unwrap();
            let cookie = Cookie { client: CLIENT, server: &made[8..] };
            let (status, renewed) = cluster(1).check(&cookie, address(), taker_s);
            assert!(status == CookieStatus::Proven && renewed != Some(made));
        }
    }

    #[test]
    fn a_cookie_is_good_until_its_data_key_is_retired() {
        let keys = |numbers: &[u32]| numbers.iter().map(|number| (*number, [*number as u8; 32])).collect();
        let secrets = ClientSecrets::new(&keys(&[1]));
        let mut node = Cookies::new(SecretSource::Cluster(secrets.clone()));
        let now = 1_800_000_000;
        let (_, made) = node.check(&Cookie { client: CLIENT, server: &[] }, address(), now);
        let made = made.unwrap();
        let mut status = || node.check(&Cookie { client: CLIENT, server: &made[8..] }, address(), now);
        assert_eq!(status(), (CookieStatus::Proven, Some(made)));
        secrets.set(&keys(&[1, 2]), 1);
        assert_eq!(status(), (CookieStatus::Proven, Some(made)), "a new key that is not in use yet");
        secrets.set(&keys(&[1, 2]), 2);
        let (still, renewed) = status();
        assert!(still == CookieStatus::Proven && renewed != Some(made));
        secrets.set(&keys(&[2]), 2);
        assert_eq!(status(), (CookieStatus::Unproven, renewed));
    }

    #[test]
    fn a_changed_file_of_secrets_is_loaded() {
        let dir = process::testing::test_dir("cookie-change");
        let file = dir.path().join("secrets");
        let (one, two) = ("e5e973e5a6b2a43f48e7dc849e37bfcf\n", "445536bcd2513298075a5d379663c962\n");
        std::fs::write(&file, one).unwrap();
        let shared = Arc::new(SharedSecrets::load(&file).unwrap());
        let mut node = Cookies::new(SecretSource::File(shared.clone()));
        let now = 1_800_000_000;
        let (_, made) = node.check(&Cookie { client: CLIENT, server: &[] }, address(), now);
        let made = made.unwrap();
        let mut status = || node.check(&Cookie { client: CLIENT, server: &made[8..] }, address(), now);
        assert_eq!(status(), (CookieStatus::Proven, Some(made)));
        // The new secret comes first and makes cookies. Cookies of the old one are still valid.
        std::fs::write(&file, format!("{two}{one}")).unwrap();
        shared.reload();
        let (still, renewed) = status();
        assert!(still == CookieStatus::Proven && renewed != Some(made));
        std::fs::write(&file, two).unwrap();
        shared.reload();
        assert_eq!(status().0, CookieStatus::Unproven);
        std::fs::write(&file, "what?").unwrap();
        shared.reload();
        assert_eq!(status().1, renewed, "an unusable file changes nothing");
    }
}
