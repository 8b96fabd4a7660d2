//! How long the secret of a TSIG key should be.
//!
//! RFC 2104 3 discourages secrets that are shorter than the output of the hash. Such a secret is taken with a warning,
//! since other software makes them. One of less than 16 bytes can be guessed, and is taken only when the user insists.
//! Secrets that a cluster holds already go on working.

use super::key_file::Algorithm;
use crate::limits::TSIG_SECRET_BYTES_MIN;

/// What there is to say about a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SecretLength {
    /// It is as long as the output of the hash, or longer.
    Good,
    /// It is shorter than that.
    Short {
        /// Bytes that it should have.
        wanted: usize,
    },
    /// It is so short that it can be guessed.
    TooShort,
}

impl SecretLength {
    /// Of a secret of so many bytes for an algorithm.
    pub(crate) fn of(bytes: usize, algorithm: &str) -> Self {
        let wanted = hash_bytes(algorithm);
        match bytes {
            _ if bytes < TSIG_SECRET_BYTES_MIN => Self::TooShort,
            _ if bytes < wanted => Self::Short { wanted },
            _ => Self::Good,
        }
    }
}

/// Bytes of the output of an algorithm's hash: what a secret that is made here has.
pub(crate) fn hash_bytes(algorithm: &str) -> usize {
    Algorithm::from_mnemonic(algorithm).map_or(TSIG_SECRET_BYTES_MIN, |known| known.of_replica().mac_octets())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_as_long_as_the_output_of_the_hash() {
        for (bytes, algorithm, wanted) in [
            (0, "hmac-sha256", SecretLength::TooShort),
            (15, "hmac-sha256", SecretLength::TooShort),
            (16, "hmac-sha256", SecretLength::Short { wanted: 32 }),
            (32, "HMAC-SHA256", SecretLength::Good),
            (32, "hmac-sha384", SecretLength::Short { wanted: 48 }),
            (63, "hmac-sha512", SecretLength::Short { wanted: 64 }),
            (64, "hmac-sha512", SecretLength::Good),
        ] {
            assert_eq!(SecretLength::of(bytes, algorithm), wanted, "{bytes} {algorithm}");
        }
    }
}
