//! The API token of a node. It is reloaded when its file changes, so a token can be replaced without a restart.

use super::token::Token;
use super::watch::{Stamp, stamp};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The token that a node accepts now. Copies share it.
#[derive(Clone, Debug)]
pub struct ApiToken(Arc<File>);

#[derive(Debug)]
struct File {
    path: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    token: Token,
    stamp: Stamp,
}

impl ApiToken {
    /// Reads the token for the first time.
    pub fn load(path: &Path) -> io::Result<Self> {
        // If the file changes in between, it is read again.
        let stamp = stamp(path);
        let current = Mutex::new(Current { token: Token::load(path)?, stamp });
        Ok(Self(Arc::new(File { path: path.to_owned(), current })))
    }

    /// Whether an Authorization field has the current token.
    pub fn is_in(&self, authorization: &[u8]) -> bool {
        self.now().is_in(authorization)
    }

    /// The secret itself, for a node that joins.
    pub fn reveal(&self) -> String {
        self.now().reveal().to_owned()
    }

    fn now(&self) -> Token {
        // A panic cannot leave the pair inconsistent.
        let mut current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.0.path);
        if stamp != current.stamp {
            match Token::load(&self.0.path) {
                Ok(token) => {
                    tracing::info!(file = %self.0.path.display(), "the API token has changed");
                    current.token = token;
                }
                Err(error) => {
                    let file = self.0.path.display();
                    tracing::error!(%file, %error, "cannot read the API token; the old one stays valid");
                }
            }
            current.stamp = stamp;
        }
        current.token.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_token_file_is_reloaded() {
        let dir = process::testing::test_dir("api-token");
        let path = dir.path().join("api.token");
        let first = Token::load_or_make(&path).unwrap();
        let live = ApiToken::load(&path).unwrap();
        let accepts = |token: &Token| live.is_in(token.authorization().as_bytes());
        assert!(accepts(&first));
        let second = Token::replace(&path).unwrap();
        assert!(accepts(&second) && !accepts(&first));
        assert_eq!(live.reveal(), second.reveal());
        // An invalid file does not replace the token.
        std::fs::write(&path, "short").unwrap();
        assert!(accepts(&second) && !live.is_in(b"Bearer short"));
        std::fs::remove_file(&path).unwrap();
        assert!(accepts(&second));
    }
}
