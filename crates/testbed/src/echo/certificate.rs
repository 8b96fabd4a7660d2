//! A private CA, and a certificate for loopback.

use data_encoding::HEXLOWER;
use measure::Transport;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The host name of the certificate, in addition to loopback addresses.
const NAME: &str = "localhost";
/// Maximum size of early data.
const EARLY_DATA_BYTES_MAX: u32 = 16 << 10;

/// A new certificate with its key.
pub struct Certificate {
    authority_pem: String,
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    key: Vec<u8>,
    key_pem: String,
}

impl Certificate {
    /// Creates a CA, and a certificate for `localhost`, 127.0.0.1 and ::1.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub fn new() -> io::Result<Self> {
        Self::for_names(&[NAME.into()])
    }

    /// Creates a CA, and a certificate for these names and loopback addresses.
    ///
    /// # Errors
    /// As [`Certificate::new`], and if a name is invalid.
    pub fn for_names(names: &[String]) -> io::Result<Self> {
        let authority_key = KeyPair::generate().map_err(io::Error::other)?;
        let mut authority = CertificateParams::default();
        authority.distinguished_name = rcgen::DistinguishedName::new();
        // Each CA has a unique name, because verifiers look it up by name.
        let number = HEXLOWER.encode(&authority_key.public_key_raw()[1..9]);
        authority.distinguished_name.push(DnType::CommonName, format!("catlab echo authority {number}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_pem = authority.self_signed(&authority_key).map_err(io::Error::other)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let mut params = CertificateParams::new(names.to_vec()).map_err(io::Error::other)?;
        if names.iter().any(|name| name == NAME) {
            params.subject_alt_names.push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
            params.subject_alt_names.push(SanType::IpAddress(Ipv6Addr::LOCALHOST.into()));
        }
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &issuer).map_err(io::Error::other)?;
        Ok(Self {
            authority_pem,
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key: key.serialize_der(),
            key_pem: key.serialize_pem(),
        })
    }

    /// The CA certificate in PEM, for `--ca`.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// The certificate in PEM, for other servers.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Its key, PEM.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The TLS configuration of the server for a transport, optionally with TLS 1.2 only.
    pub(super) fn server_config(&self, transport: Transport, is_tls12: bool) -> io::Result<Arc<ServerConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = if transport == Transport::Doq {
            builder.with_protocol_versions(&[&rustls::version::TLS13])
        } else if is_tls12 {
            builder.with_protocol_versions(&[&rustls::version::TLS12])
        } else {
            builder.with_safe_default_protocol_versions()
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let config = builder
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key);
        let mut config = config.map_err(io::Error::other)?;
        config.alpn_protocols = match transport {
            Transport::Doh => vec![b"h2".to_vec()],
            Transport::Doq => vec![b"doq".to_vec()],
            _ => Vec::new(),
        };
        // QUIC only allows zero or the maximum (RFC 9001 4.6.1).
        config.max_early_data_size = if transport == Transport::Doq { u32::MAX } else { EARLY_DATA_BYTES_MAX };
        // Sessions are stored here, so that each is resumed at most once and early data is allowed (RFC 8446 8.1).
        config.session_storage = rustls::server::ServerSessionMemoryCache::new(sockets::limits::TLS_TICKETS_MAX);
        Ok(Arc::new(config))
    }
}
