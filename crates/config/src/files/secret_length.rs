//! Checks the length of TSIG secrets.
//!
//! RFC 2104 3 discourages secrets that are shorter than the output of the hash. Other software makes such secrets, so
//! they are accepted with a warning. A secret of less than 16 bytes can be guessed, and needs `--allow-short-secret`.
//! Secrets that the cluster already has keep working.

use crate::limits::TSIG_SECRET_BYTES_MIN;
use tsig::KeyAlgorithm;

/// Result of the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretLength {
    /// At least as long as the output of the hash.
    Good,
    /// Shorter than the output of the hash.
    Short {
        /// Recommended length in bytes.
        wanted: usize,
    },
    /// Short enough to be guessed.
    TooShort,
}

impl SecretLength {
    /// Checks a secret of `bytes` bytes for an algorithm.
    pub fn of(bytes: usize, algorithm: KeyAlgorithm) -> Self {
        let wanted = hash_bytes(algorithm);
        match bytes {
            _ if bytes < TSIG_SECRET_BYTES_MIN => Self::TooShort,
            _ if bytes < wanted => Self::Short { wanted },
            _ => Self::Good,
        }
    }
}

/// Bytes of the output of an algorithm's hash. Generated secrets have this length.
pub const fn hash_bytes(algorithm: KeyAlgorithm) -> usize {
    algorithm.mac_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_as_long_as_the_output_of_the_hash() {
        for (bytes, algorithm, wanted) in [
            (0, KeyAlgorithm::HmacSha256, SecretLength::TooShort),
            (15, KeyAlgorithm::HmacSha256, SecretLength::TooShort),
            (16, KeyAlgorithm::HmacSha256, SecretLength::Short { wanted: 32 }),
            (32, KeyAlgorithm::HmacSha256, SecretLength::Good),
            (32, KeyAlgorithm::HmacSha384, SecretLength::Short { wanted: 48 }),
            (63, KeyAlgorithm::HmacSha512, SecretLength::Short { wanted: 64 }),
            (64, KeyAlgorithm::HmacSha512, SecretLength::Good),
        ] {
            assert_eq!(SecretLength::of(bytes, algorithm), wanted, "{bytes} {algorithm:?}");
        }
    }
}
