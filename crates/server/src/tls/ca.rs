//! The cluster's CA.

use crate::files::{Readers, read_bounded, write_atomic};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::peer::node_number;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use replica::io::NodeId;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the certificate of a node is good; it renews it itself when a third of that is left.
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
    /// Reads the CA from its two files, or makes it.
    pub(crate) fn load_or_make(cert: &Path, key: &Path) -> io::Result<Self> {
        match read_bounded(key, SMALL_FILE_BYTES_MAX) {
            Ok(key_pem) => {
                let key_pair = KeyPair::from_pem(&String::from_utf8_lossy(&key_pem)).map_err(io::Error::other)?;
                // Where several are accepted the first one is that of the key.
                let cert = CertificateDer::from_pem_slice(&read_bounded(cert, SMALL_FILE_BYTES_MAX)?);
                Ok(Self { cert: cert.map_err(io::Error::other)?, issuer: Issuer::new(params(), key_pair) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self::make()?;
                // The key comes last: whoever finds it finds its certificate too.
                write_atomic(cert, to_pem(&made.cert).as_bytes(), Readers::All)?;
                write_atomic(key, made.key_pem().as_bytes(), Readers::Owner)?;
                Ok(made)
            }
            Err(error) => Err(error),
        }
    }

    /// A new one, of no file.
    pub(crate) fn make() -> io::Result<Self> {
        let key_pair = KeyPair::generate().map_err(io::Error::other)?;
        let cert = params().self_signed(&key_pair).map_err(io::Error::other)?.der().clone();
        Ok(Self { cert, issuer: Issuer::new(params(), key_pair) })
    }

    /// The one with this certificate and this private key (PKCS #8).
    pub(crate) fn from_der(cert: &[u8], key: &[u8]) -> io::Result<Self> {
        let key_pair = KeyPair::try_from(key).map_err(io::Error::other)?;
        Ok(Self { cert: CertificateDer::from(cert.to_vec()), issuer: Issuer::new(params(), key_pair) })
    }

    /// The CA's own certificate.
    pub(crate) fn cert_der(&self) -> CertificateDer<'static> {
        self.cert.clone()
    }

    /// Its private key, PKCS #8.
    pub(crate) fn key_der(&self) -> Vec<u8> {
        self.issuer.key().serialize_der()
    }

    /// The same, PEM.
    pub(crate) fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A fresh key and its certificate for a member.
    pub(crate) fn issue(&self, id: NodeId) -> io::Result<NodeCertificate> {
        self.issue_at(id, SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_secs())
    }

    /// The same at a time, in seconds since 1970.
    pub(crate) fn issue_at(&self, id: NodeId, now_s: u64) -> io::Result<NodeCertificate> {
        self.sign(names(id), both_sides(), Some(now_s + LIFE.as_secs()), fresh()?)
    }

    /// Another certificate for the key that a member has.
    pub(crate) fn issue_for_key(&self, id: NodeId, key_pem: &str, now_s: u64) -> io::Result<NodeCertificate> {
        let key = KeyPair::from_pem(key_pem).map_err(io::Error::other)?;
        self.sign(names(id), both_sides(), Some(now_s + LIFE.as_secs()), key)
    }

    /// A fresh key and a certificate for good, where nobody would renew it.
    pub(crate) fn issue_without_end(&self, id: NodeId) -> io::Result<NodeCertificate> {
        self.sign(names(id), both_sides(), None, fresh()?)
    }

    /// A fresh key and a certificate for clients on this machine. It is of no use between nodes: it names none of them,
    /// and may not be shown by a client.
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
        // It is good at once, whatever the clocks of the others say.
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

/// What a certificate calls a member.
fn names(id: NodeId) -> Vec<String> {
    vec![super::node_name(node_number(id)), super::member_name(id)]
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

/// The names that clients on this machine call a node by.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The CA's certificate, but for its key. It is the same each time: an issuer is told by it.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "catamaran cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
