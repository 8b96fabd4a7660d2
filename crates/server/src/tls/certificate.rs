//! The certificate that clients see: read from its files, and again whenever these change.

use crate::files::read_bounded;
use crate::files::watch::Watch;
use crate::limits::{FILE_LOOK_MS, SMALL_FILE_BYTES_MAX};
use crate::metrics::Counter;
use crate::stop::Stop;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How often a certificate was read.
#[derive(Default, Debug)]
pub(crate) struct CertificateCounters {
    /// It was taken over.
    pub(crate) loaded: Counter,
    /// Its files were of no use, and the one before stayed.
    pub(crate) refused: Counter,
}

/// A certificate with its key.
pub(crate) struct Certificate {
    cert_file: PathBuf,
    key_file: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
    counters: Arc<CertificateCounters>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("cert_file", &self.cert_file).finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads both files, PEM: the chain, its own certificate first, and the private key.
    pub(crate) fn load(cert_file: &Path, key_file: &Path, counters: Arc<CertificateCounters>) -> io::Result<Self> {
        let current = RwLock::new(read(cert_file, key_file)?);
        counters.loaded.one_shared();
        Ok(Self { cert_file: cert_file.to_owned(), key_file: key_file.to_owned(), current, counters })
    }

    /// Looks at the files again and again, until told to stop. Connections that are open keep the certificate that they
    /// began with.
    pub(crate) fn watch(&self, stop: &Stop) {
        let mut watch = Watch::new([self.cert_file.clone(), self.key_file.clone()]);
        while !stop.wait(Duration::from_millis(FILE_LOOK_MS)) {
            if watch.has_changed() {
                self.refresh();
            }
        }
    }

    /// Reads the files now, and takes over what has changed.
    pub(crate) fn refresh(&self) {
        if !self.is_current() {
            self.reload();
        }
    }

    /// Takes over what is in the files, if it is of any use.
    fn reload(&self) {
        let file = self.cert_file.display();
        match read(&self.cert_file, &self.key_file) {
            Ok(new) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
                self.counters.loaded.one_shared();
                tracing::info!(%file, "new connections see the new certificate");
            }
            Err(error) => {
                self.counters.refused.one_shared();
                tracing::error!(%file, %error, "the certificate cannot be used; the one before stays");
            }
        }
    }

    fn is_current(&self) -> bool {
        read(&self.cert_file, &self.key_file).is_ok_and(|new| new.cert == self.get().cert)
    }

    fn get(&self) -> Arc<CertifiedKey> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

fn read(cert_file: &Path, key_file: &Path) -> io::Result<Arc<CertifiedKey>> {
    let named = |path: &Path, error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", path.display()));
    let octets = |path: &Path| read_bounded(path, SMALL_FILE_BYTES_MAX).map_err(|error| named(path, &error));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&octets(cert_file)?).collect();
    let chain = chain.map_err(|error| named(cert_file, &error))?;
    if chain.is_empty() {
        return Err(named(cert_file, &"no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_slice(&octets(key_file)?).map_err(|error| named(key_file, &error))?;
    let certified = CertifiedKey::from_der(chain, key, &provider());
    certified.map(Arc::new).map_err(|error| named(key_file, &error))
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::authority::Authority;

    #[test]
    fn what_changes_is_taken_over_and_what_is_bad_is_not() {
        let dir = crate::test_dir("certificate");
        let at = |name: &str| dir.path().join(name);
        let authority = Authority::load_or_make(&at("ca.pem"), &at("ca.key")).unwrap();
        let save = |cert: &str, key: &str| {
            std::fs::write(at("c.pem"), cert).unwrap();
            std::fs::write(at("c.key"), key).unwrap();
        };
        let [first, second] = [1, 2].map(|id| authority.issue(id).unwrap());
        let counters = Arc::<CertificateCounters>::default();
        let load = || Certificate::load(&at("c.pem"), &at("c.key"), counters.clone());
        assert!(load().unwrap_err().to_string().contains("c.pem"), "not there");
        save(&first.cert_pem, &second.key_pem);
        assert!(load().unwrap_err().to_string().contains("c.key"), "the key of another");
        save("", &first.key_pem);
        assert!(load().unwrap_err().to_string().contains("no certificate"));
        save(&first.cert_pem, &first.key_pem);

        let certificate = Arc::new(load().unwrap());
        let (stop, before) = (Stop::default(), certificate.get().cert.clone());
        let (theirs, their_stop) = (certificate.clone(), stop.clone());
        let thread = std::thread::spawn(move || theirs.watch(&their_stop));
        let wait = |what: &str, is_so: &dyn Fn() -> bool| {
            let start = std::time::Instant::now();
            while !is_so() {
                assert!(start.elapsed() < Duration::from_secs(20), "{what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        save(&second.cert_pem, &first.key_pem);
        wait("refused", &|| counters.refused.get() == 1);
        assert_eq!(certificate.get().cert, before);
        save(&second.cert_pem, &second.key_pem);
        wait("taken over", &|| counters.loaded.get() == 2);
        assert_ne!(certificate.get().cert, before);
        stop.order();
        thread.join().unwrap();
    }
}
