//! TLS of the client's side: whom to trust, which name to expect, and sessions that are resumed.

use super::Transport;
use crate::limits::TLS_TICKETS_MAX;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, CipherSuite, DigitallySignedStruct, Error, NamedGroup, RootCertStore, SignatureScheme};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Where systems keep the authorities that they trust.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// What the user said about certificates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsPlan {
    /// The name that the certificate must have, and that is sent as SNI; the server's address otherwise.
    pub name: Option<String>,
    /// Authorities to trust, PEM; those of the system otherwise.
    pub authorities: Option<PathBuf>,
    /// Any certificate will do.
    pub is_insecure: bool,
}

/// How a connection goes about earlier sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Session {
    /// A handshake in full.
    Fresh,
    /// An earlier session is resumed, if there is one.
    Resumed,
    /// The same, with queries as early data.
    Early,
}

/// One configuration for each kind of session, shared by all connections of a worker.
#[derive(Clone)]
pub(super) struct TlsConfigs {
    configs: [Arc<ClientConfig>; 3],
    verifier: Arc<Verifier>,
}

impl TlsConfigs {
    /// Makes them.
    ///
    /// # Errors
    /// A sentence, when the authorities cannot be read.
    pub(super) fn new(plan: &TlsPlan, transport: Transport) -> Result<Self, String> {
        let mut provider = ring::default_provider();
        // As browsers and stub resolvers ask for it; its hash is one that processors know.
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
        let provider = Arc::new(provider);
        let tickets = Arc::new(Tickets::default());
        let authorities = if plan.is_insecure { None } else { Some(authorities(plan.authorities.as_deref())?) };
        let mut pinned = Vec::new();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = if transport == Transport::Doq {
            // RFC 9001 4.2.
            builder.with_protocol_versions(&[&rustls::version::TLS13])
        } else {
            builder.with_safe_default_protocol_versions()
        };
        let builder = builder.map_err(|error| error.to_string())?;
        let inner: Arc<dyn ServerCertVerifier> = match authorities {
            Some(Authorities { roots, named }) => {
                pinned = named;
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                    .build()
                    .map_err(|error| error.to_string())?
            }
            None => Arc::new(AnyCertificate(provider.signature_verification_algorithms)),
        };
        let verifier = Arc::new(Verifier { inner, pinned, count: AtomicU64::new(0), refusal: Mutex::new(None) });
        let shared: Arc<dyn ServerCertVerifier> = Arc::clone(&verifier) as _;
        let mut base = builder.dangerous().with_custom_certificate_verifier(shared).with_no_client_auth();
        base.alpn_protocols = alpn(transport).iter().map(|name| name.to_vec()).collect();
        // Clones share the verifier: a session is only resumed under the one that it was made with.
        let config = |session: Session| {
            let mut config = base.clone();
            config.enable_early_data = session == Session::Early;
            let gives = session != Session::Fresh;
            config.resumption = Resumption::store(Arc::new(Store { tickets: Arc::clone(&tickets), gives }));
            Arc::new(config)
        };
        Ok(Self { configs: [Session::Fresh, Session::Resumed, Session::Early].map(config), verifier })
    }

    /// The configuration for a new connection.
    pub(super) fn of(&self, session: Session) -> Arc<ClientConfig> {
        Arc::clone(&self.configs[session as usize])
    }

    /// How many certificates have been looked at.
    pub(super) fn verified(&self) -> u64 {
        self.verifier.count.load(Ordering::Relaxed)
    }

    /// Why the last certificate that was refused was refused.
    pub(super) fn take_refusal(&self) -> Option<Error> {
        self.verifier.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Protocols that are offered: HTTP/2 (RFC 9113 3.3), DNS over QUIC (RFC 9250 7.1). DNS over TLS works without.
const fn alpn(transport: Transport) -> &'static [&'static [u8]] {
    match transport {
        Transport::Doh => &[b"h2"],
        Transport::Doq => &[b"doq"],
        Transport::Udp | Transport::Tcp | Transport::Dot => &[],
    }
}

/// The name to expect of a server.
///
/// # Errors
/// A sentence, when it is no name.
pub(super) fn server_name(plan: &TlsPlan, server: SocketAddr) -> Result<ServerName<'static>, String> {
    match &plan.name {
        Some(name) => ServerName::try_from(name.clone()).map_err(|_| format!("{name} is no name for a certificate")),
        None => Ok(ServerName::IpAddress(server.ip().into())),
    }
}

/// Trust settings.
struct Authorities {
    roots: RootCertStore,
    /// Certificates from --ca. A server may use one of them as its own certificate.
    named: Vec<CertificateDer<'static>>,
}

fn authorities(given: Option<&Path>) -> Result<Authorities, String> {
    let file = match given {
        Some(file) => file.to_owned(),
        None => SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|file| file.is_file()).ok_or(
            "this system's list of certificate authorities was not found; name one with --ca FILE, or use --insecure",
        )?,
    };
    let certificates = CertificateDer::pem_file_iter(&file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("{}: no certificates: {error}", file.display()))?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    if added == 0 {
        return Err(format!("cannot use {}: it holds no PEM certificate", file.display()));
    }
    Ok(Authorities { roots, named: if given.is_some() { certificates } else { Vec::new() } })
}

/// Why a handshake failed, and what can be done, in a sentence.
pub(super) fn explain(error: &Error, plan: &TlsPlan, server: SocketAddr) -> String {
    let expected = plan.name.clone().unwrap_or_else(|| server.ip().to_string());
    match error {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!(
            "its certificate is not for {expected}; give the name that it is for with --tls-name, or use --insecure"
        ),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is signed by nobody who is trusted here; name its authority with --ca FILE, or use \
             --insecure"
                .into()
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired; renew it, or use --insecure".into()
        }
        error if is_authority(error) => {
            "its certificate is a CA certificate; trust it with --ca FILE, or use --insecure".into()
        }
        Error::InvalidCertificate(why) => format!("its certificate is not good ({why}); use --insecure to take it"),
        Error::AlertReceived(alert) => format!("it refused the TLS handshake ({alert:?})"),
        Error::NoApplicationProtocol => "it speaks TLS, but not this protocol (no common ALPN)".into(),
        Error::InvalidMessage(_) => "it does not speak TLS on this port".into(),
        other => format!("the TLS handshake failed: {other}"),
    }
}

/// Sessions of earlier connections.
#[derive(Debug, Default)]
struct Tickets {
    /// The newest first; each is used once (RFC 8446 C.4).
    tls13: Mutex<Vec<Tls13ClientSessionValue>>,
    /// One of each server, used again and again (RFC 5246 7.3).
    tls12: Mutex<Vec<(ServerName<'static>, Tls12ClientSessionValue)>>,
}

/// The view of one kind of connection: all of them keep sessions, not all use them.
#[derive(Debug)]
struct Store {
    tickets: Arc<Tickets>,
    gives: bool,
}

impl ClientSessionStore for Store {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        let mut sessions = self.tickets.tls12.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(own, _)| *own != server);
        if sessions.len() < TLS_TICKETS_MAX {
            sessions.push((server, value));
        }
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let sessions = self.tickets.tls12.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = sessions.iter().find(|(own, _)| own == server).filter(|_| self.gives);
        kept.map(|(_, value)| value.clone())
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        let mut sessions = self.tickets.tls12.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(own, _)| own != server);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut tickets = self.tickets.tls13.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() < TLS_TICKETS_MAX {
            tickets.push(value);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut tickets = self.tickets.tls13.lock().unwrap_or_else(PoisonError::into_inner);
        if self.gives { tickets.pop() } else { None }
    }
}

/// Counts what another verifier is asked, and keeps why it refused.
#[derive(Debug)]
struct Verifier {
    inner: Arc<dyn ServerCertVerifier>,
    /// Certificates that are trusted as they are.
    pinned: Vec<CertificateDer<'static>>,
    count: AtomicU64,
    refusal: Mutex<Option<Error>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let verdict = self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let verdict = match verdict {
            Err(error) if is_authority(&error) && self.pinned.contains(end_entity) => {
                // A self-signed certificate with the CA flag. Its validity was already checked, its name was not.
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)
                    .map(|()| ServerCertVerified::assertion())
            }
            verdict => verdict,
        };
        if let Err(error) = &verdict {
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Whether the only reason for the refusal is the CA flag (RFC 5280 4.2.1.9).
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    format!("{other:?}").contains("CaUsedAsEndEntity")
}

/// Takes any certificate, but not any signature.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    /// A self-signed CA certificate, like those of `openssl req -x509`.
    fn self_signed(until_year: i32) -> rcgen::Certificate {
        let mut params = CertificateParams::new(vec!["dns.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until_year, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn a_self_signed_certificate_is_its_own_anchor() {
        let file = std::env::temp_dir().join(format!("catlab-self-signed-{}.pem", std::process::id()));
        let verify = |trusted: &rcgen::Certificate, shown: &rcgen::Certificate, name: &'static str| {
            std::fs::write(&file, trusted.pem()).unwrap();
            let plan = TlsPlan { authorities: Some(file.clone()), ..TlsPlan::default() };
            let configs = TlsConfigs::new(&plan, Transport::Dot).unwrap();
            let name = ServerName::try_from(name).unwrap();
            let verdict = configs.verifier.verify_server_cert(shown.der(), &[], &name, &[], UnixTime::now());
            verdict.map(|_| ()).map_err(|error| explain(&error, &plan, "192.0.2.1:853".parse().unwrap()))
        };
        let (own, other, old) = (self_signed(2100), self_signed(2100), self_signed(2021));
        assert_eq!(verify(&own, &own, "dns.test"), Ok(()));
        assert!(verify(&own, &own, "other.test").unwrap_err().contains("not for"), "its name counts");
        assert!(verify(&old, &old, "dns.test").unwrap_err().contains("expired"), "its time counts");
        let refused = verify(&other, &own, "dns.test").unwrap_err();
        assert!(!refused.contains("CaUsedAsEndEntity") && refused.contains("--ca"), "{refused}");
        std::fs::remove_file(&file).unwrap();
    }
}
