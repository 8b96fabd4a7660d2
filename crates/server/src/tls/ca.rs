//! The cluster's CA.

use super::names::node_number;
use config::files::{Readers, read_bounded, write_atomic};
use config::limits::SMALL_FILE_BYTES_MAX;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use replica::io::NodeId;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lifetime of a node certificate. The node renews it when a third is left.
pub(crate) const LIFE: Duration = Duration::from_secs(365 * 86_400);

/// Signs certificates of nodes.
pub(crate) struct Ca {
    cert: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, both PEM.
pub(crate) struct NodeCertificate {
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
}

impl Ca {
    /// Loads the CA from its two files, or creates it.
    pub(crate) fn load_or_make(cert: &Path, key: &Path) -> io::Result<Self> {
        match read_bounded(key, SMALL_FILE_BYTES_MAX) {
            Ok(key_pem) => {
                let key_pair = KeyPair::from_pem(&String::from_utf8_lossy(&key_pem)).map_err(io::Error::other)?;
                // If the file has several certificates, the first one belongs to the key.
                let cert = CertificateDer::from_pem_slice(&read_bounded(cert, SMALL_FILE_BYTES_MAX)?);
                Ok(Self { cert: cert.map_err(io::Error::other)?, issuer: Issuer::new(params(), key_pair) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self::make()?;
                // The key is written last: if it exists, so does its certificate.
                write_atomic(cert, to_pem(&made.cert).as_bytes(), Readers::All)?;
                write_atomic(key, made.key_pem().as_bytes(), Readers::Owner)?;
                Ok(made)
            }
            Err(error) => Err(error),
        }
    }

    /// A new CA without files.
    pub(crate) fn make() -> io::Result<Self> {
        let key_pair = KeyPair::generate().map_err(io::Error::other)?;
        let cert = params().self_signed(&key_pair).map_err(io::Error::other)?.der().clone();
        Ok(Self { cert, issuer: Issuer::new(params(), key_pair) })
    }

    /// The CA with this certificate and private key (PKCS #8).
    pub(crate) fn from_der(cert: &[u8], key: &[u8]) -> io::Result<Self> {
        let key_pair = KeyPair::try_from(key).map_err(io::Error::other)?;
        Ok(Self { cert: CertificateDer::from(cert.to_vec()), issuer: Issuer::new(params(), key_pair) })
    }

    /// The certificate of the CA.
    pub(crate) fn cert_der(&self) -> CertificateDer<'static> {
        self.cert.clone()
    }

    /// The private key of the CA, as PKCS #8.
    pub(crate) fn key_der(&self) -> Vec<u8> {
        self.issuer.key().serialize_der()
    }

    /// The private key of the CA, as PEM.
    pub(crate) fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A new key and certificate for a member.
    pub(crate) fn issue(&self, id: NodeId) -> io::Result<NodeCertificate> {
        self.issue_at(id, SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_secs())
    }

    /// The same, at a time in seconds since 1970.
    pub(crate) fn issue_at(&self, id: NodeId, now_s: u64) -> io::Result<NodeCertificate> {
        self.sign(names(id), both_sides(), Some(now_s + LIFE.as_secs()), fresh()?)
    }

    /// A new certificate for the existing key of a member.
    pub(crate) fn issue_for_key(&self, id: NodeId, key_pem: &str, now_s: u64) -> io::Result<NodeCertificate> {
        let key = KeyPair::from_pem(key_pem).map_err(io::Error::other)?;
        self.sign(names(id), both_sides(), Some(now_s + LIFE.as_secs()), key)
    }

    /// A new key and a certificate without expiry, for cases where nothing would renew it.
    pub(crate) fn issue_without_end(&self, id: NodeId) -> io::Result<NodeCertificate> {
        self.sign(names(id), both_sides(), None, fresh()?)
    }

    /// A new key and certificate for clients on this machine. It is not valid between nodes: it names no node, and it
    /// is a server certificate only.
    pub(crate) fn issue_local(&self) -> io::Result<NodeCertificate> {
        self.sign(LOCAL_NAMES.map(str::to_owned).to_vec(), vec![ExtendedKeyUsagePurpose::ServerAuth], None, fresh()?)
    }

    fn sign(
        &self,
        names: Vec<String>,
        usages: Vec<ExtendedKeyUsagePurpose>,
        expires_s: Option<u64>,
        key_pair: KeyPair,
    ) -> io::Result<NodeCertificate> {
        let first = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, first);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        // The certificate is valid at once, even on nodes whose clocks are behind.
        if let Some(expires_s) = expires_s {
            params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(expires_s);
        }
        let cert = params.signed_by(&key_pair, &self.issuer).map_err(io::Error::other)?;
        Ok(NodeCertificate { cert_pem: cert.pem(), key_pem: key_pair.serialize_pem() })
    }
}

fn fresh() -> io::Result<KeyPair> {
    KeyPair::generate().map_err(io::Error::other)
}

/// The names of a member in its certificate.
fn names(id: NodeId) -> Vec<String> {
    vec![super::names::node_name(node_number(id)), super::names::member_name(id)]
}

fn both_sides() -> Vec<ExtendedKeyUsagePurpose> {
    vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
}

/// A certificate as text.
pub(crate) fn to_pem(cert: &[u8]) -> String {
    let base64 = data_encoding::BASE64.encode(cert);
    // RFC 7468 2: 64 characters a line.
    let lines: Vec<&str> = base64.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// The names of a node for clients on this machine.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The fields of the CA's certificate. They never change, because they identify the issuer.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "catamaran cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
