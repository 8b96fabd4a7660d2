//! Cookie secrets from a file of the operator: for sharing them with other servers, or for manual rotation.

use super::secret::{CookieSecret, SECRET_BYTES};
use crate::limits::{COOKIE_SECRETS_MAX, FILE_LOOK_MS};
use config::files::read_bounded;
use config::files::watch::Watch;
use config::limits::SMALL_FILE_BYTES_MAX;
use process::stop::Stop;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The secrets of the file, shared by all threads. Each thread has a copy and checks a version number.
pub(crate) struct SharedSecrets {
    file: PathBuf,
    version: AtomicU64,
    secrets: Mutex<Vec<CookieSecret>>,
}

impl SharedSecrets {
    /// Reads the file: one secret of 32 hexadecimal digits per line. The first makes cookies; all are accepted.
    pub(crate) fn load(file: &Path) -> io::Result<Self> {
        let secrets = Mutex::new(read(file)?);
        Ok(Self { file: file.to_owned(), version: AtomicU64::new(0), secrets })
    }

    /// Watches the file until it is stopped. An unusable file is logged and changes nothing.
    pub(crate) fn watch(&self, stop: &Stop) {
        let mut watch = Watch::new([self.file.clone()]);
        while !stop.wait(Duration::from_millis(FILE_LOOK_MS)) {
            if watch.has_changed() {
                self.reload();
            }
        }
    }

    /// Loads the file, if it is usable.
    pub(crate) fn reload(&self) {
        let file = self.file.display();
        match read(&self.file) {
            Ok(new) if new == self.get() => {}
            Ok(new) => {
                *self.secrets.lock().unwrap_or_else(PoisonError::into_inner) = new;
                self.version.fetch_add(1, Ordering::Release);
                tracing::info!(%file, "reloaded the secrets of DNS cookies");
            }
            Err(error) => {
                tracing::error!(%file, %error, "cannot reload the secrets of DNS cookies; the old ones stay in use")
            }
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn get(&self) -> Vec<CookieSecret> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read(file: &Path) -> io::Result<Vec<CookieSecret>> {
    let text = String::from_utf8(read_bounded(file, SMALL_FILE_BYTES_MAX)?);
    let text = text.map_err(|_| io::Error::other("it is not text"))?;
    let mut secrets = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if line.is_empty() {
            continue;
        }
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(line.as_bytes()).ok();
        let bytes: Option<[u8; SECRET_BYTES]> = bytes.and_then(|bytes| bytes.try_into().ok());
        let wrong = || io::Error::other(format!("line {number}: a secret is {} hexadecimal digits", 2 * SECRET_BYTES));
        secrets.push(CookieSecret::new(bytes.ok_or_else(wrong)?));
    }
    match secrets.len() {
        0 => Err(io::Error::other("it contains no secret")),
        count if count > COOKIE_SECRETS_MAX => Err(io::Error::other(format!("more than {COOKIE_SECRETS_MAX} secrets"))),
        _ => Ok(secrets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_file_is_a_secret() {
        let dir = process::testing::test_dir("cookie-secrets");
        let file = dir.path().join("secrets");
        let load = |text: &str| {
            std::fs::write(&file, text).unwrap();
            SharedSecrets::load(&file).map(|shared| shared.get().len()).map_err(|error| error.to_string())
        };
        assert_eq!(
            load("# mine\ne5e973e5a6b2a43f48e7dc849e37bfcf\n\n445536BCD2513298075A5D379663C962 # next\n"),
            Ok(2)
        );
        assert_eq!(load("# none\n"), Err("it contains no secret".into()));
        assert_eq!(load("\ne5e9\n"), Err("line 2: a secret is 32 hexadecimal digits".into()));
        assert!(load(&"e5e973e5a6b2a43f48e7dc849e37bfcf\n".repeat(COOKIE_SECRETS_MAX + 1)).is_err());
    }
}
