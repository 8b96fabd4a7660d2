//! TLS of the client: trust, server names, and session resumption.

use measure::Transport;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, CipherSuite, DigitallySignedStruct, Error, NamedGroup, RootCertStore, SignatureScheme};
use sockets::limits::TLS_TICKETS_MAX;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Where systems store their trusted CAs.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Certificate options of the user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsPlan {
    /// The expected name in the certificate, also sent as SNI. The default is the server's address.
    pub name: Option<String>,
    /// PEM file of trusted CAs. The default is that of the system.
    pub authorities: Option<PathBuf>,
    /// Accept any certificate.
    pub is_insecure: bool,
}

/// The use of earlier sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Session {
    /// A full handshake.
    Fresh,
    /// Resumes an earlier session, if there is one.
    Resumed,
    /// Also sends queries as early data.
    Early,
}

/// One configuration for each kind of session, shared by all connections of a worker.
#[derive(Clone)]
pub(super) struct TlsConfigs {
    configs: [Arc<ClientConfig>; 3],
    verifier: Arc<Verifier>,
}

impl TlsConfigs {
    /// Creates the configurations.
    ///
    /// # Errors
    /// If the CAs cannot be read.
    pub(super) fn new(plan: &TlsPlan, transport: Transport) -> Result<Self, String> {
        let mut provider = ring::default_provider();
        // Prefers this suite, as browsers and stub resolvers do. CPUs accelerate its hash.
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
            Some(Authorities { roots, from_ca_file }) => {
                pinned = from_ca_file;
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
        // The configurations share the verifier: a session is only resumed with the verifier that created it.
        let config = |session: Session| {
            let mut config = base.clone();
            config.enable_early_data = session == Session::Early;
            let offers_sessions = session != Session::Fresh;
            config.resumption =
                Resumption::store(Arc::new(SessionStore { tickets: Arc::clone(&tickets), offers_sessions }));
            Arc::new(config)
        };
        Ok(Self { configs: [Session::Fresh, Session::Resumed, Session::Early].map(config), verifier })
    }

    /// The configuration for a new connection.
    pub(super) fn of(&self, session: Session) -> Arc<ClientConfig> {
        Arc::clone(&self.configs[session as usize])
    }

    /// Number of verified certificates.
    pub(super) fn verified(&self) -> u64 {
        self.verifier.count.load(Ordering::Relaxed)
    }

    /// Why the last rejected certificate was rejected.
    pub(super) fn take_refusal(&self) -> Option<Error> {
        self.verifier.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// ALPN protocols: HTTP/2 (RFC 9113 3.3) and DNS over QUIC (RFC 9250 7.1). DNS over TLS uses none.
const fn alpn(transport: Transport) -> &'static [&'static [u8]] {
    match transport {
        Transport::Doh => &[b"h2"],
        Transport::Doq => &[b"doq"],
        Transport::Udp | Transport::Tcp | Transport::Dot => &[],
    }
}

/// The expected name of a server.
///
/// # Errors
/// If the name is invalid.
pub(super) fn server_name(plan: &TlsPlan, server: SocketAddr) -> Result<ServerName<'static>, String> {
    match &plan.name {
        Some(name) => {
            ServerName::try_from(name.clone()).map_err(|_| format!("{name} cannot be the name of a certificate"))
        }
        None => Ok(ServerName::IpAddress(server.ip().into())),
    }
}

/// Trust settings.
struct Authorities {
    roots: RootCertStore,
    /// Certificates from --ca. A server may use one of them as its own certificate.
    from_ca_file: Vec<CertificateDer<'static>>,
}

fn authorities(ca_file: Option<&Path>) -> Result<Authorities, String> {
    let file = match ca_file {
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
    Ok(Authorities { roots, from_ca_file: if ca_file.is_some() { certificates } else { Vec::new() } })
}

/// Explains why a handshake failed, and what to do.
pub(super) fn explain(error: &Error, plan: &TlsPlan, server: SocketAddr) -> String {
    let expected = plan.name.clone().unwrap_or_else(|| server.ip().to_string());
    match error {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!(
            "its certificate is not for {expected}; give the name that it is for with --tls-name, or use --insecure"
        ),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is not signed by a trusted CA; name its CA with --ca FILE, or use --insecure".into()
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired; renew it, or use --insecure".into()
        }
        error if is_authority(error) => {
            "its certificate is a CA certificate; trust it with --ca FILE, or use --insecure".into()
        }
        Error::InvalidCertificate(why) => format!("its certificate is invalid ({why}); use --insecure to accept it"),
        Error::AlertReceived(alert) => format!("it refused the TLS handshake ({alert:?})"),
        Error::NoApplicationProtocol => "it speaks TLS, but not this protocol (no common ALPN)".into(),
        Error::InvalidMessage(_) => "it does not speak TLS on this port".into(),
        other => format!("the TLS handshake failed: {other}"),
    }
}

/// Sessions of earlier connections.
#[derive(Debug, Default)]
struct Tickets {
    /// The newest first. Each is used once (RFC 8446 C.4).
    tls13: Mutex<Vec<Tls13ClientSessionValue>>,
    /// One per server, which can be reused (RFC 5246 7.3).
    tls12: Mutex<Vec<(ServerName<'static>, Tls12ClientSessionValue)>>,
}

/// The sessions as seen by one kind of connection. All kinds store sessions, but not all use them.
#[derive(Debug)]
struct SessionStore {
    tickets: Arc<Tickets>,
    offers_sessions: bool,
}

impl ClientSessionStore for SessionStore {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        let mut sessions = self.tickets.tls12.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(name, _)| *name != server);
        if sessions.len() < TLS_TICKETS_MAX {
            sessions.push((server, value));
        }
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let sessions = self.tickets.tls12.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.iter().find(|(name, _)| name == server).filter(|_| self.offers_sessions);
        session.map(|(_, value)| value.clone())
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        let mut sessions = self.tickets.tls12.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(name, _)| name != server);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut tickets = self.tickets.tls13.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() < TLS_TICKETS_MAX {
            tickets.push(value);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut tickets = self.tickets.tls13.lock().unwrap_or_else(PoisonError::into_inner);
        if self.offers_sessions { tickets.pop() } else { None }
    }
}

/// Wraps a verifier, to count verifications and keep the last error.
#[derive(Debug)]
struct Verifier {
    inner: Arc<dyn ServerCertVerifier>,
    /// Certificates that are trusted directly.
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

/// Accepts any certificate, but checks signatures.
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
    fn self_signed_certificates_are_trust_anchors() {
        let file = std::env::temp_dir().join(format!("catlab-self-signed-{}.pem", std::process::id()));
        let verify = |trusted: &rcgen::Certificate, presented: &rcgen::Certificate, name: &'static str| {
            std::fs::write(&file, trusted.pem()).unwrap();
            let plan = TlsPlan { authorities: Some(file.clone()), ..TlsPlan::default() };
            let configs = TlsConfigs::new(&plan, Transport::Dot).unwrap();
            let name = ServerName::try_from(name).unwrap();
            let verdict = configs.verifier.verify_server_cert(presented.der(), &[], &name, &[], UnixTime::now());
            verdict.map(|_| ()).map_err(|error| explain(&error, &plan, "192.0.2.1:853".parse().unwrap()))
        };
        let (certificate, other, old) = (self_signed(2100), self_signed(2100), self_signed(2021));
        assert_eq!(verify(&certificate, &certificate, "dns.test"), Ok(()));
        assert!(verify(&certificate, &certificate, "other.test").unwrap_err().contains("not for"), "its name counts");
        assert!(verify(&old, &old, "dns.test").unwrap_err().contains("expired"), "its time counts");
        let refused = verify(&other, &certificate, "dns.test").unwrap_err();
        assert!(!refused.contains("CaUsedAsEndEntity") && refused.contains("--ca"), "{refused}");
        std::fs::remove_file(&file).unwrap();
    }
}
