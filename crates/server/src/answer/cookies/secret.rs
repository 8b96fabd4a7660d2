//! Server cookies in the format of RFC 9018, which all servers of one address can share.

use ring::hmac;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;
use wire::parse::Cookie;

/// Bytes of a secret.
pub(crate) const SECRET_BYTES: usize = 16;
/// Bytes of the COOKIE option in a response: client cookie, version, three reserved bytes, time, hash (RFC 9018 4).
pub(crate) const COOKIE_BYTES: usize = 8 + SERVER_BYTES;
const SERVER_BYTES: usize = 1 + 3 + 4 + 8;
/// The only defined version (RFC 9018 4.2).
const VERSION: u8 = 1;
/// Maximum age of a cookie, and how far it may be ahead of this server's clock (RFC 9018 4.3).
const AGE_MAX_S: i32 = 3_600;
const AHEAD_MAX_S: i32 = 300;

/// A secret that makes and checks server cookies.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CookieSecret([u8; SECRET_BYTES]);

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieSecret(..)")
    }
}

impl CookieSecret {
    pub(super) const fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// Derives the secret of a period from a key. All nodes derive the same.
    pub(super) fn derive(source: &hmac::Key, period: u64) -> Self {
        let mut context = hmac::Context::with_key(source);
        context.update(b"catamaran dns cookie secret 2");
        context.update(&period.to_be_bytes());
        let mut secret = [0; SECRET_BYTES];
        secret.copy_from_slice(&context.sign().as_ref()[..SECRET_BYTES]);
        Self(secret)
    }

    /// The cookie for a client that sent `cookie` from `address`. `now_s` is in seconds since 1970.
    pub(super) fn cookie_for(&self, cookie: &Cookie<'_>, address: IpAddr, now_s: u64) -> [u8; COOKIE_BYTES] {
        // RFC 9018 4.3: times wrap at 32 bits (serial number arithmetic).
        self.cookie_of(cookie.client, (now_s as u32).to_be_bytes(), address)
    }

    /// The age of a server cookie in seconds; negative if its time is in the future. `None` if this secret did not make
    /// it for this client, or if it is too old or too far in the future (RFC 9018 4.3, 4.4).
    pub(super) fn age_s(&self, cookie: &Cookie<'_>, address: IpAddr, now_s: u64) -> Option<i32> {
        let server: &[u8; SERVER_BYTES] = cookie.server.try_into().ok()?;
        let time = [server[4], server[5], server[6], server[7]];
        let age_s = (now_s as u32).wrapping_sub(u32::from_be_bytes(time)) as i32;
        let is_timely = (-AHEAD_MAX_S..=AGE_MAX_S).contains(&age_s);
        // The hash covers the reserved bytes, which are zero in cookies of this server.
        let made = is_timely.then(|| self.cookie_of(cookie.client, time, address))?;
        // Constant time: the duration does not reveal how many bytes match.
        let difference = made[8..].iter().zip(server).fold(0, |all, (one, other)| all | (one ^ other));
        (difference == 0).then_some(age_s)
    }

    fn cookie_of(&self, client: [u8; 8], time: [u8; 4], address: IpAddr) -> [u8; COOKIE_BYTES] {
        let mut out = [0; COOKIE_BYTES];
        out[..8].copy_from_slice(&client);
        out[8] = VERSION;
        out[12..16].copy_from_slice(&time);
        let mut hasher = SipHasher24::new_with_key(&self.0);
        // Whole words are hashed faster than bytes. SipHash reads words in little-endian order.
        hasher.write_u64(u64::from_le_bytes(client));
        hasher.write_u64(u64::from(VERSION) | u64::from(u32::from_le_bytes(time)) << 32);
        match address.to_canonical() {
            IpAddr::V4(address) => hasher.write_u32(u32::from_le_bytes(address.octets())),
            IpAddr::V6(address) => {
                let address = u128::from_le_bytes(address.octets());
                hasher.write_u64(address as u64);
                hasher.write_u64((address >> 64) as u64);
            }
        }
        // RFC 9018 4.4: the hash is in little-endian order.
        out[16..].copy_from_slice(&hasher.finish().to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_examples_of_rfc_9018_are_reproduced() {
        for (secret, client, address, now_s, expected) in [
            // Appendix A.1 and A.2: a new cookie, and one that replaces it.
            (
                "e5e973e5a6b2a43f48e7dc849e37bfcf",
                "2464c4abcf10c957",
                "198.51.100.100",
                1_559_731_985,
                "2464c4abcf10c957010000005cf79f111f8130c3eee29480",
            ),
            (
                "e5e973e5a6b2a43f48e7dc849e37bfcf",
                "2464c4abcf10c957",
                "198.51.100.100",
                1_559_734_385,
                "2464c4abcf10c957010000005cf7a871d4a564a1442aca77",
            ),
            // Appendix A.4: a client over IPv6.
            (
                "445536bcd2513298075a5d379663c962",
                "22681ab97d52c298",
                "2001:db8:220:1:59de:d0f4:8769:82b8",
                1_559_741_961,
                "22681ab97d52c298010000005cf7c609a6bb79d16625507a",
            ),
        ] {
            let secret = CookieSecret(hex(secret).try_into().unwrap());
            let cookie = Cookie { client: hex(client).try_into().unwrap(), server: &[] };
            let made = secret.cookie_for(&cookie, address.parse().unwrap(), now_s);
            assert_eq!(data_encoding::HEXLOWER.encode(&made), expected);
        }
    }

    #[test]
    fn a_cookie_is_bound_to_client_address_time_cluster_and_period() {
        let derive = |byte, period| CookieSecret::derive(&hmac::Key::new(hmac::HMAC_SHA256, &[byte; 32]), period);
        let secret = derive(1, 0);
        let cookie = |byte| Cookie { client: [byte; 8], server: &[] };
        let (one, two): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let first = secret.cookie_for(&cookie(1), one, 1);
        let others = [
            secret.cookie_for(&cookie(2), one, 1),
            secret.cookie_for(&cookie(1), two, 1),
            secret.cookie_for(&cookie(1), one, 2),
            derive(2, 0).cookie_for(&cookie(1), one, 1),
            derive(1, 1).cookie_for(&cookie(1), one, 1),
        ];
        assert!(others.iter().all(|other| other[16..] != first[16..]));
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(secret.cookie_for(&cookie(1), mapped, 1), first, "the same client on an IPv6 socket");
    }

    #[test]
    fn a_cookie_is_good_for_its_client_for_an_hour() {
        let secret = CookieSecret::new([7; SECRET_BYTES]);
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let now = u64::from(u32::MAX) + 5;
        let made = secret.cookie_for(&Cookie { client: [1; 8], server: &[] }, address, now);
        let age = |client: [u8; 8], server: &[u8], address: &str, later: i64| {
            secret.age_s(&Cookie { client, server }, address.parse().unwrap(), now.wrapping_add_signed(later))
        };
        let server = &made[8..];
        assert_eq!(age([1; 8], server, "192.0.2.1", 0), Some(0));
        assert_eq!(age([1; 8], server, "192.0.2.1", 3_600), Some(3_600));
        assert_eq!(age([1; 8], server, "192.0.2.1", 3_601), None);
        assert_eq!(age([1; 8], server, "192.0.2.1", -300), Some(-300));
        assert_eq!(age([1; 8], server, "192.0.2.1", -301), None);
        assert_eq!(age([2; 8], server, "192.0.2.1", 0), None);
        assert_eq!(age([1; 8], server, "192.0.2.2", 0), None);
        assert_eq!(age([1; 8], &[], "192.0.2.1", 0), None);
        for at in 0..server.len() {
            let mut other = server.to_vec();
            other[at] ^= 1;
            assert_eq!(age([1; 8], &other, "192.0.2.1", 0), None, "byte {at}");
        }
        assert_eq!(CookieSecret::new([8; SECRET_BYTES]).age_s(&Cookie { client: [1; 8], server }, address, now), None);
    }
}
