//! Server cookies (RFC 7873, in the form of RFC 9018 that all servers of one address can share).
//!
//! The secret is derived from the cluster's data key, so a cookie of one node is one of every node. Cookies are given
//! out and not yet asked for: a client whose cookie is old or wrong gets its answer, and a new cookie with it
//! (RFC 7873 5.2.3 to 5.2.5 leave that to the server).

use crate::files::data_key::DATA_KEY_OCTETS;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;
use wire::parse::Cookie;

/// Octets of COOKIE in a response: the client's part, version, three reserved, time, hash (RFC 9018 4).
const COOKIE_OCTETS: usize = 8 + 1 + 3 + 4 + 8;

/// The only version there is (RFC 9018 4.2).
const VERSION: u8 = 1;

/// What server cookies are made with.
#[derive(Clone)]
pub(crate) struct CookieSecret([u8; 16]);

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieSecret(..)")
    }
}

impl CookieSecret {
    /// The secret of a cluster with this data key.
    pub(crate) fn derive(data_key: &[u8; DATA_KEY_OCTETS]) -> Self {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, data_key);
        let tag = ring::hmac::sign(&key, b"catamaran dns cookie secret 1");
        let mut secret = [0; 16];
        secret.copy_from_slice(&tag.as_ref()[..16]);
        Self(secret)
    }

    /// The cookie for a client that sent `cookie` from `address`, in seconds since 1970 at `now_s`.
    pub(crate) fn cookie_for(&self, cookie: &Cookie<'_>, address: IpAddr, now_s: u64) -> [u8; COOKIE_OCTETS] {
        let mut out = [0; COOKIE_OCTETS];
        out[..8].copy_from_slice(&cookie.client);
        out[8] = VERSION;
        // RFC 9018 4.3: serial arithmetic, so what does not fit 32 bits is cut off.
        out[12..16].copy_from_slice(&(now_s as u32).to_be_bytes());
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&out[..16]);
        match address.to_canonical() {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        // SipHash gives its octets lowest first.
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
    fn the_examples_of_rfc_9018_come_out() {
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
    fn a_cookie_is_bound_to_client_address_time_and_cluster() {
        let secret = CookieSecret::derive(&[1; DATA_KEY_OCTETS]);
        let cookie = |octet| Cookie { client: [octet; 8], server: &[] };
        let (one, two): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let first = secret.cookie_for(&cookie(1), one, 1);
        let others = [
            secret.cookie_for(&cookie(2), one, 1),
            secret.cookie_for(&cookie(1), two, 1),
            secret.cookie_for(&cookie(1), one, 2),
            CookieSecret::derive(&[2; DATA_KEY_OCTETS]).cookie_for(&cookie(1), one, 1),
        ];
        assert!(others.iter().all(|other| other[16..] != first[16..]));
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(secret.cookie_for(&cookie(1), mapped, 1), first, "the same client, whatever socket it came in on");
    }
}
