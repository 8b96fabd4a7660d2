//! The certificate for clients. It is reloaded when its files change.

use super::validity::expires_s;
use crate::limits::FILE_LOOK_MS;
use crate::metrics::Counter;
use config::files::watch::Watch;
use config::files::{of_file, read_bounded};
use config::limits::SMALL_FILE_BYTES_MAX;
use process::stop::Stop;
use rustls::CertificateError;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// Counts loads of the certificate.
#[derive(Default, Debug)]
pub(crate) struct CertificateCounters {
    /// The certificate was loaded.
    pub(crate) loaded: Counter,
    /// The files were unusable, and the old certificate stayed in use.
    pub(crate) refused: Counter,
    /// Expiry of the certificate for clients, in seconds since 1970; 0 if there is none.
    expires_s: AtomicU64,
}

impl CertificateCounters {
    /// Expiry of the certificate for clients, in seconds since 1970.
    pub(crate) fn expires_s(&self) -> Option<u64> {
        Some(self.expires_s.load(Ordering::Relaxed)).filter(|expires_s| *expires_s > 0)
    }

    fn taken(&self, file: &Path, key: &CertifiedKey) {
        self.loaded.one_shared();
        let ends_s = chain_expires_s(&key.cert).unwrap_or(0);
        self.expires_s.store(ends_s, Ordering::Relaxed);
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if ends_s > 0 && ends_s <= now_s {
            tracing::warn!(file = %file.display(), "the certificate for clients has expired; clients will refuse it");
        }
    }
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
    /// Reads both PEM files: the chain, starting with the server certificate, and the private key.
    pub(crate) fn load(cert_file: &Path, key_file: &Path, counters: Arc<CertificateCounters>) -> io::Result<Self> {
        let key = read(cert_file, key_file)?;
        counters.taken(cert_file, &key);
        let current = RwLock::new(key);
        Ok(Self { cert_file: cert_file.to_owned(), key_file: key_file.to_owned(), current, counters })
    }

    /// Watches the files until it is stopped. Open connections keep their certificate.
    pub(crate) fn watch(&self, stop: &Stop) {
        let mut watch = Watch::new([self.cert_file.clone(), self.key_file.clone()]);
        while !stop.wait(Duration::from_millis(FILE_LOOK_MS)) {
            if watch.has_changed() {
                self.refresh();
            }
        }
    }

    /// Reads the files, and uses their certificate if it is new and usable.
    pub(crate) fn refresh(&self) {
        let file = self.cert_file.display();
        match read(&self.cert_file, &self.key_file) {
            Ok(new) if new.cert == self.get().cert => {}
            Ok(new) => {
                self.counters.taken(&self.cert_file, &new);
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
                tracing::info!(%file, "loaded the new certificate; new connections use it");
            }
            Err(error) => {
                self.counters.refused.one_shared();
                tracing::error!(%file, %error, "cannot use the new certificate; the old one stays in use");
            }
        }
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
    let bytes = |path: &Path| read_bounded(path, SMALL_FILE_BYTES_MAX).map_err(|error| of_file(path, &error));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(cert_file)?).collect();
    let chain = chain.map_err(|error| named(cert_file, &error))?;
    if chain.is_empty() {
        return Err(named(cert_file, &"it contains no certificate, or is not PEM"));
    }
    let key_pem = Zeroizing::new(bytes(key_file)?);
    let key =
        PrivateKeyDer::from_pem_slice(&key_pem).map_err(|error| named(key_file, &why_no_key(&key_pem, &error)))?;
    let certified = CertifiedKey::from_der(chain, key.clone_key(), &provider());
    certified.map(Arc::new).map_err(|error| match &error {
        rustls::Error::InvalidCertificate(error) => named(cert_file, &why_no_certificate(error)),
        rustls::Error::InconsistentKeys(_) => named(key_file, &"it does not match the certificate"),
        _ => named(key_file, &why_unusable(&key, &error)),
    })
}

/// Why a PEM file has no usable private key.
fn why_no_key(pem: &[u8], error: &pem::Error) -> String {
    let has = |text: &str| pem.windows(text.len()).any(|window| window == text.as_bytes());
    // RFC 5958 3, RFC 1421 4.6.1.1
    if has("-----BEGIN ENCRYPTED PRIVATE KEY-----") || has("Proc-Type: 4,ENCRYPTED") {
        return "the private key is encrypted, and a node cannot ask for a passphrase; decrypt it with \
                `openssl pkey -in KEY -out NEW`, readable only by the node's user"
            .to_owned();
    }
    match error {
        pem::Error::NoItemsFound => "it contains no private key, or is not PEM".to_owned(),
        error => format!("it is not PEM: {error}"),
    }
}

/// Why a certificate cannot be used.
fn why_no_certificate(error: &CertificateError) -> String {
    match error {
        // RFC 5280 4.1.2.1: extensions, such as the names of the server, need version 3.
        CertificateError::Other(other)
            if other.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::UnsupportedCertVersion) =>
        {
            "it is not an X.509 certificate of version 3; make one with the server's names in subjectAltName".to_owned()
        }
        CertificateError::BadEncoding => "it is not an X.509 certificate, or it is damaged".to_owned(),
        error => error.to_string(),
    }
}

/// The object identifier of the curve P-521 (RFC 5480 2.1.1.1) in distinguished encoding.
const P521: &[u8] = &[0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x23];

/// Why a private key cannot be used.
fn why_unusable(key: &PrivateKeyDer<'_>, error: &rustls::Error) -> String {
    const KINDS: &str = "use ECDSA P-256 or P-384, Ed25519, or RSA with 2048 to 4096 bits";
    if key.secret_der().windows(P521.len()).any(|window| window == P521) {
        return format!("curve P-521 is not supported; {KINDS}");
    }
    match error {
        rustls::Error::General(_) => format!("it is damaged or of an unsupported type; {KINDS}"),
        error => error.to_string(),
    }
}

/// When the first certificate of a chain expires, in seconds since 1970. Clients then refuse the whole chain.
fn chain_expires_s(chain: &[CertificateDer<'_>]) -> Option<u64> {
    chain.iter().filter_map(|cert| expires_s(cert)).min()
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::ca::Ca;

    #[test]
    fn a_changed_certificate_is_loaded_and_a_bad_one_is_not() {
        let dir = process::testing::test_dir("certificate");
        let at = |name: &str| dir.path().join(name);
        let ca = Ca::load_or_make(&at("ca.pem"), &at("ca.key")).unwrap();
        let save = |cert: &str, key: &str| {
            std::fs::write(at("c.pem"), cert).unwrap();
            std::fs::write(at("c.key"), key).unwrap();
        };
        let [first, second] = [1, 2].map(|id| ca.issue(id).unwrap());
        let counters = Arc::<CertificateCounters>::default();
        let load = || Certificate::load(&at("c.pem"), &at("c.key"), counters.clone());
        assert!(load().unwrap_err().to_string().contains("c.pem"), "the file does not exist");
        save(&first.cert_pem, &second.key_pem);
        let error = load().unwrap_err().to_string();
        assert!(error.ends_with("c.key: it does not match the certificate"), "{error}");
        save("", &first.key_pem);
        assert!(load().unwrap_err().to_string().contains("no certificate"));
        save(&first.cert_pem, &first.key_pem);

        assert_eq!(counters.expires_s(), None);
        let certificate = Arc::new(load().unwrap());
        let ends_s = |pem: &str| expires_s(&CertificateDer::from_pem_slice(pem.as_bytes()).unwrap());
        assert_eq!(counters.expires_s(), ends_s(&first.cert_pem));
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
        wait("loaded", &|| counters.loaded.get() == 2);
        assert_ne!(certificate.get().cert, before);
        stop.order();
        thread.join().unwrap();
    }

    #[test]
    fn unusable_certificates_are_refused_with_a_reason() {
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/certificates");
        for (cert, key, why) in [
            ("p521.pem", "p521.key", "p521.key: curve P-521 is not supported; use ECDSA P-256 or P-384"),
            ("v1.pem", "v1.key", "v1.pem: it is not an X.509 certificate of version 3"),
            ("p521.pem", "encrypted.key", "encrypted.key: the private key is encrypted"),
            ("p521.pem", "encrypted-old.key", "encrypted-old.key: the private key is encrypted"),
            ("p521.pem", "p521.pem", "p521.pem: it contains no private key, or is not PEM"),
            ("v1.key", "v1.key", "v1.key: it contains no certificate, or is not PEM"),
        ] {
            let error = Certificate::load(&files.join(cert), &files.join(key), Arc::default()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
