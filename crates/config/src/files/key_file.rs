//! TSIG keys in the syntax of BIND's key files, which `nsupdate -k` and `dig -k` read.

use super::secret_length::hash_bytes;
use super::{Readers, token, write_atomic};
use process::problem::{Exit, Problem};
use std::io;
use std::path::Path;
use tsig::KeyAlgorithm;
use tsig::limits::SECRET_BYTES_MAX;
use wire::name::Name;
use zeroize::Zeroize;

/// The algorithms that error messages recommend.
pub const ALGORITHMS_HINT: &str = "hmac-sha256, hmac-sha384 or hmac-sha512";

/// A TSIG key with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct TsigKey {
    /// Name of the key.
    pub name: Name,
    /// Its algorithm.
    pub algorithm: KeyAlgorithm,
    /// Its secret.
    pub secret: Vec<u8>,
}

/// Overwrites the secret in memory.
impl Drop for TsigKey {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl std::fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TsigKey({} {})", self.name, self.algorithm.mnemonic())
    }
}

impl TsigKey {
    /// Makes a key whose secret is as long as the output of the hash (RFC 2104 3).
    pub fn make(name: Name, algorithm: KeyAlgorithm) -> io::Result<Self> {
        let mut secret = vec![0; hash_bytes(algorithm)];
        token::fill_random(&mut secret)?;
        Ok(Self { name, algorithm, secret })
    }

    /// The key file's text.
    pub fn to_text(&self) -> String {
        let name = self.name.to_string();
        let name = if name == "." { &name } else { name.trim_end_matches('.') };
        let secret = data_encoding::BASE64.encode(&self.secret);
        format!("key \"{name}\" {{\n\talgorithm {};\n\tsecret \"{secret}\";\n}};\n", self.algorithm.mnemonic())
    }

    /// Writes the key file, for the owner only.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        write_atomic(path, self.to_text().as_bytes(), Readers::Owner)
    }

    /// Reads the first key of a key file.
    pub fn load(path: &Path) -> Result<Self, Problem> {
        let wrong = |why: String| {
            Problem::new(Exit::Input, "cannot use the key file", why)
                .at(path.display())
                .hint("create one with `catamaran key add NAME` or `tsig-keygen -a hmac-sha256 NAME`")
        };
        let bytes = super::read_bounded(path, crate::limits::SMALL_FILE_BYTES_MAX).map_err(|e| wrong(e.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text".into()))?;
        Self::parse(&text).map_err(|(line, why)| wrong(format!("line {line}: {why}")))
    }

    /// Reads `key "name" { algorithm hmac-sha256; secret "..."; };`, comments as in `named.conf`.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let tokens = tokens(text)?;
        let end = (text.lines().count().max(1), String::new());
        let mut at = tokens.iter();
        let mut next = |want: &str| -> Result<(usize, String), (usize, String)> {
            match at.next() {
                Some((line, token)) if want.is_empty() || token.eq_ignore_ascii_case(want) => {
                    Ok((*line, token.clone()))
                }
                Some((line, token)) => Err((*line, format!("expected `{want}`, found `{token}`"))),
                None => Err((
                    end.0,
                    if want.is_empty() {
                        "unexpected end of the file".into()
                    } else {
                        format!("expected `{want}`, found the end of the file")
                    },
                )),
            }
        };
        next("key")?;
        let (line, name) = next("")?;
        let name: Name = name.parse().map_err(|error| (line, format!("`{name}` is not a domain name: {error}")))?;
        next("{")?;
        let (mut algorithm, mut secret) = (None, None);
        let closed = loop {
            let (line, word) = next("")?;
            match word.to_ascii_lowercase().as_str() {
                "algorithm" => {
                    let (line, text) = next("")?;
                    let known = KeyAlgorithm::from_mnemonic(&text)
                        .ok_or((line, format!("unknown algorithm `{text}`; use {ALGORITHMS_HINT}")))?;
                    algorithm = Some(known);
                }
                "secret" => {
                    let (line, text) = next("")?;
                    let bytes = data_encoding::BASE64
                        .decode(text.as_bytes())
                        .map_err(|_| (line, "the secret is not base64".to_owned()))?;
                    if bytes.is_empty() || bytes.len() > SECRET_BYTES_MAX {
                        return Err((line, format!("the secret must have 1 to {SECRET_BYTES_MAX} bytes")));
                    }
                    secret = Some(bytes);
                }
                "}" => break line,
                other => return Err((line, format!("unknown statement `{other}`"))),
            }
            next(";")?;
        };
        let algorithm = algorithm.ok_or((closed, "no `algorithm` in the key".to_owned()))?;
        let secret = secret.ok_or((closed, "no `secret` in the key".to_owned()))?;
        Ok(Self { name, algorithm, secret })
    }
}

/// Words, quoted strings and punctuation, each with its line.
fn tokens(text: &str) -> Result<Vec<(usize, String)>, (usize, String)> {
    let mut tokens = Vec::new();
    let mut in_comment = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let mut rest = line;
        loop {
            if in_comment {
                let Some(end) = rest.find("*/") else { break };
                rest = &rest[end + 2..];
                in_comment = false;
            }
            rest = rest.trim_start();
            if rest.is_empty() || rest.starts_with('#') || rest.starts_with("//") {
                break;
            }
            let length = if rest.starts_with("/*") {
                in_comment = true;
                rest = &rest[2..];
                continue;
            } else if let Some(quoted) = rest.strip_prefix('"') {
                let end = quoted.find('"').ok_or((number, "a quote is not closed".to_owned()))?;
                tokens.push((number, quoted[..end].to_owned()));
                end + 2
            } else if rest.starts_with(['{', '}', ';']) {
                tokens.push((number, rest[..1].to_owned()));
                1
            } else {
                let end = rest.find([' ', '\t', '{', '}', ';', '"', '#']).unwrap_or(rest.len());
                tokens.push((number, rest[..end].to_owned()));
                end
            };
            rest = &rest[length..];
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn key_files_have_the_format_of_bind() {
        let key = TsigKey {
            name: "update".parse().unwrap(),
            algorithm: KeyAlgorithm::HmacSha256,
            secret: vec![0, 1, 2, 255],
        };
        let text = "key \"update\" {\n\talgorithm hmac-sha256;\n\tsecret \"AAEC/w==\";\n};\n";
        assert_eq!(key.to_text(), text);
        assert_eq!(TsigKey::parse(text).unwrap(), key);
    }

    #[test]
    fn named_conf_syntax_is_read() {
        let text = "# made by hand\nkey dhcp.example. { // one\n algorithm HMAC-SHA512; /* two\n three */ \
                    secret AAEC/w==;\n};";
        let key = TsigKey::parse(text).unwrap();
        assert_eq!(key.name.to_string(), "dhcp.example.");
        assert_eq!(key.algorithm, KeyAlgorithm::HmacSha512);
        assert_eq!(key.secret, [0, 1, 2, 255]);
    }

    #[test]
    fn weak_algorithms_are_read_and_recognized() {
        for (text, algorithm) in [
            ("hmac-md5", KeyAlgorithm::HmacMd5),
            ("HMAC-MD5.SIG-ALG.REG.INT", KeyAlgorithm::HmacMd5),
            ("hmac-sha1", KeyAlgorithm::HmacSha1),
            ("hmac-sha224", KeyAlgorithm::HmacSha224),
        ] {
            let key = TsigKey::parse(&format!("key a {{ algorithm {text}; secret AAEC/w==; }};")).unwrap();
            assert_eq!((key.algorithm, key.algorithm.is_weak()), (algorithm, true));
            assert_eq!(TsigKey::parse(&key.to_text()).unwrap(), key);
        }
        assert!(!KeyAlgorithm::HmacSha256.is_weak());
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, why) in [
            ("", 1, "expected `key`"),
            ("key a {\n algorithm hmac-md4;\n", 2, "hmac-md4"),
            ("key a {\n algorithm hmac-sha256;\n\n secret \"***\";\n};", 4, "base64"),
            ("key a {\n algorithm hmac-sha256;\n};", 3, "no `secret`"),
            ("key a {\n secret AAEC/w==\n};", 3, "expected `;`"),
            ("key \"a {\n", 1, "not closed"),
            ("key a..b {};", 1, "is not a domain name"),
            ("zone a {};", 1, "expected `key`"),
        ] {
            let (at, reason) = TsigKey::parse(text).unwrap_err();
            assert!(at == line && reason.contains(why), "{text}: {at}: {reason}");
        }
    }

    #[test]
    fn a_new_key_is_random_and_for_its_owner_only() {
        let dir = process::testing::test_dir("key-file");
        let path = dir.path().join("update.key");
        let key = TsigKey::make("update".parse().unwrap(), KeyAlgorithm::HmacSha256).unwrap();
        key.save(&path).unwrap();
        assert_eq!(TsigKey::load(&path).unwrap(), key);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_ne!(TsigKey::make(key.name.clone(), key.algorithm).unwrap(), key);
        assert_eq!(TsigKey::make(key.name.clone(), KeyAlgorithm::HmacSha512).unwrap().secret.len(), 64);
    }
}
