//! The bearer token of the API (RFC 6750 2.1).

use super::{Readers, read_bounded, write_atomic};
use crate::limits::SMALL_FILE_BYTES_MAX;
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::path::Path;
use zeroize::Zeroizing;

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;
/// Minimum length of a token in a file.
const TOKEN_CHARS_MIN: usize = 16;

/// A secret that is compared in constant time, never printed, and overwritten when it is dropped.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

impl Token {
    /// Reads the token, or makes one (mode 0600).
    pub fn load_or_make(path: &Path) -> io::Result<Self> {
        match Self::load(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::replace(path),
            done => done,
        }
    }

    /// Writes a new token to the file, and replaces any other.
    pub fn replace(path: &Path) -> io::Result<Self> {
        let token = Self(Zeroizing::new(random_text()?));
        Self::save(path, &token.0)?;
        Ok(token)
    }

    /// Reads the token.
    pub fn load(path: &Path) -> io::Result<Self> {
        let bytes = Zeroizing::new(read_bounded(path, SMALL_FILE_BYTES_MAX)?);
        let text = Zeroizing::new(std::str::from_utf8(&bytes).unwrap_or_default().trim().to_owned());
        if text.len() < TOKEN_CHARS_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(io::Error::other(format!(
                "it has no token: expected {TOKEN_CHARS_MIN} or more printable characters"
            )));
        }
        Ok(Self(text))
    }

    /// Whether an Authorization field has this token. Takes constant time.
    pub fn is_in(&self, authorization: &[u8]) -> bool {
        // RFC 7235 2.1: the scheme is case-insensitive.
        let Some((scheme, given)) = authorization.split_at_checked("Bearer ".len()) else { return false };
        let given = given.trim_ascii();
        let differing = given.iter().zip(self.0.as_bytes()).fold(0u8, |seen, (a, b)| seen | (a ^ b));
        scheme.eq_ignore_ascii_case(b"Bearer ") & (given.len() == self.0.len()) & (std::hint::black_box(differing) == 0)
    }

    /// The secret itself, for a node that joins.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Writes the token's file, for the owner only.
    pub fn save(path: &Path, text: &str) -> io::Result<()> {
        write_atomic(path, Zeroizing::new(format!("{text}\n")).as_bytes(), Readers::Owner)
    }

    /// The value of an Authorization field.
    pub fn authorization(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("Bearer {}", *self.0))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A fresh secret as URL-safe text.
pub fn random_text() -> io::Result<String> {
    let mut bytes = [0u8; TOKEN_BYTES];
    fill_random(&mut bytes)?;
    Ok(data_encoding::BASE64URL_NOPAD.encode(&bytes))
}

/// Fills `bytes` from the system's random source.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    SystemRandom::new().fill(bytes).map_err(|_| io::Error::other("cannot get random bytes from the system"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_compared_completely() {
        let dir = process::testing::test_dir("token");
        let path = dir.path().join("api.token");
        let token = Token::load_or_make(&path).unwrap();
        let again = Token::load_or_make(&path).unwrap();
        let field = token.authorization();
        assert!(again.is_in(field.as_bytes()));
        assert!(again.is_in(field.replace("Bearer", "bearer").as_bytes()));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic abc",
            &field[..field.len() - 1],
            &format!("{}x", *field),
            &field.to_uppercase(),
        ] {
            assert!(!again.is_in(wrong.as_bytes()), "{wrong}");
        }
        std::fs::write(&path, "short").unwrap();
        assert!(Token::load(&path).is_err());
    }
}
