//! TSIG keys, in the formats of BIND's key files and of dnsperf's `[alg:]name:secret`.

use ring::hmac;
use std::path::Path;
use std::{fmt, io};
use wire::name::Name;

/// A key for signing (RFC 8945 6).
#[derive(Clone)]
pub struct TsigKey {
    pub(super) name: Name,
    pub(super) algorithm: Name,
    pub(super) key: hmac::Key,
    pub(super) mac_bytes: usize,
}

/// Why a key cannot be read.
#[derive(Debug)]
pub enum KeyError {
    /// The file cannot be read.
    File(io::Error),
    /// What is missing or wrong.
    Form(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "{error}"),
            Self::Form(what) => write!(
                f,
                "{what}; a key is `key \"name\" {{ algorithm hmac-sha256; secret \"...\"; }};`, or \
                 hmac-sha256:name:secret"
            ),
        }
    }
}

impl std::error::Error for KeyError {}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({})", self.name)
    }
}

impl TsigKey {
    /// Reads a key file.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::parse(&std::fs::read_to_string(path).map_err(KeyError::File)?)
    }

    /// Parses either format.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if !text.contains('{') {
            let parts: Vec<&str> = text.trim().split(':').collect();
            return match parts[..] {
                [name, secret] => Self::new(name, "hmac-sha256", secret),
                [algorithm, name, secret] => Self::new(name, algorithm, secret),
                _ => Err(KeyError::Form(format!("{} parts with colons between", parts.len()))),
            };
        }
        let lines: Vec<&str> = text.lines().map(without_comment).collect();
        let text = lines.join(" ").replace(['{', '}', ';', '"'], " ");
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let after = |label: &str| {
            let at = fields.iter().position(|field| field.eq_ignore_ascii_case(label));
            at.and_then(|at| fields.get(at + 1)).ok_or_else(|| KeyError::Form(format!("no {label}")))
        };
        Self::new(after("key")?, after("algorithm")?, after("secret")?)
    }

    fn new(name: &str, algorithm: &str, secret: &str) -> Result<Self, KeyError> {
        let form = |what: String| KeyError::Form(what);
        // The MAC covers names in lowercase (RFC 8945 4.3.3).
        let parse = |text: &str| {
            let lower = text.to_ascii_lowercase();
            lower.parse::<Name>().map_err(|error| form(format!("{text} is not a name: {error}")))
        };
        let (hash, mac_bytes) = match algorithm.trim_end_matches('.').to_ascii_lowercase().as_str() {
            "hmac-sha1" => (hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, 20),
            "hmac-sha256" => (hmac::HMAC_SHA256, 32),
            "hmac-sha384" => (hmac::HMAC_SHA384, 48),
            "hmac-sha512" => (hmac::HMAC_SHA512, 64),
            other => {
                return Err(form(format!("{other} is not among hmac-sha1, hmac-sha256, hmac-sha384, hmac-sha512")));
            }
        };
        let secret = data_encoding::BASE64.decode(secret.as_bytes());
        let secret = secret.map_err(|error| form(format!("the secret is not base64: {error}")))?;
        Ok(Self { name: parse(name)?, algorithm: parse(algorithm)?, key: hmac::Key::new(hash, &secret), mac_bytes })
    }
}

/// Removes a comment from a line. Quoted text has no comments, because base64 has slashes (RFC 4648 4).
fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    let starts = line.char_indices().find(|&(at, byte)| {
        is_quoted ^= byte == '"';
        !is_quoted && (byte == '#' || line[at..].starts_with("//"))
    });
    starts.map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_in_a_secret_are_not_comments() {
        let file = "key \"k\" { # \"made\"\nalgorithm \"hmac-sha256\"; secret \"MTIz//Nj\"; }; // \"x\"";
        assert_eq!(TsigKey::parse(file).unwrap().name.to_string(), "k.");
        assert!(TsigKey::parse(&file.replace("//Nj", "/?Nj")).is_err());
    }

    #[test]
    fn both_forms_are_read() {
        let file =
            "# made by hand\nkey \"Update\" {\n\talgorithm hmac-sha512; // strong\n\tsecret \"MTIzNDU2Nzg=\";\n};\n";
        let key = TsigKey::parse(file).unwrap();
        assert_eq!((key.name.to_string().as_str(), key.mac_bytes), ("update.", 64));
        let key = TsigKey::parse("hmac-sha256:update.:MTIzNDU2Nzg=").unwrap();
        assert_eq!((key.algorithm.to_string().as_str(), key.mac_bytes), ("hmac-sha256.", 32));
        assert_eq!(TsigKey::parse("update:MTIzNDU2Nzg=\n").unwrap().mac_bytes, 32);
    }

    #[test]
    fn errors_name_the_problem() {
        let error = |text: &str| TsigKey::parse(text).unwrap_err().to_string();
        assert!(error("key \"a\" { algorithm hmac-sha256; };").starts_with("no secret"), "{}", error("key { }"));
        assert!(error("hmac-md5:a:MTIzNDU2Nzg=").starts_with("hmac-md5 is not among"));
        assert!(error("a:???").starts_with("the secret is not base64"));
    }
}
