//! The cluster's certificate authority.

use crate::files::{Readers, read_bounded, write_atomic};
use crate::limits::SMALL_FILE_BYTES_MAX;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::io;
use std::path::Path;

/// Signs certificates of nodes.
pub(crate) struct Authority {
    cert_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, both PEM.
pub(crate) struct NodeCertificate {
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
}

impl Authority {
    /// Reads the authority from its two files, or makes it.
    pub(crate) fn load_or_make(cert: &Path, key: &Path) -> io::Result<Self> {
        match read_bounded(key, SMALL_FILE_BYTES_MAX) {
            Ok(key_pem) => {
                let key_pair = KeyPair::from_pem(&String::from_utf8_lossy(&key_pem)).map_err(io::Error::other)?;
                let cert_pem =
                    String::from_utf8(read_bounded(cert, SMALL_FILE_BYTES_MAX)?).map_err(io::Error::other)?;
                Ok(Self { cert_pem, issuer: Issuer::new(params(), key_pair) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key_pair = KeyPair::generate().map_err(io::Error::other)?;
                let cert_pem = params().self_signed(&key_pair).map_err(io::Error::other)?.pem();
                // The key comes last: whoever finds it finds its certificate too.
                write_atomic(cert, cert_pem.as_bytes(), Readers::All)?;
                write_atomic(key, key_pair.serialize_pem().as_bytes(), Readers::Owner)?;
                Ok(Self { cert_pem, issuer: Issuer::new(params(), key_pair) })
            }
            Err(error) => Err(error),
        }
    }

    /// The authority's own certificate, PEM.
    pub(crate) fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// A fresh key and its certificate for node `id`.
    pub(crate) fn issue(&self, id: u64) -> io::Result<NodeCertificate> {
        let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(vec![super::node_name(id)], both)
    }

    /// A fresh key and a certificate for clients on this machine. It is of no use between nodes: it names none of them,
    /// and may not be shown by a client.
    pub(crate) fn issue_local(&self) -> io::Result<NodeCertificate> {
        self.sign(LOCAL_NAMES.map(str::to_owned).to_vec(), vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    fn sign(&self, names: Vec<String>, usages: Vec<ExtendedKeyUsagePurpose>) -> io::Result<NodeCertificate> {
        let key_pair = KeyPair::generate().map_err(io::Error::other)?;
        let first = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, first);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        let cert = params.signed_by(&key_pair, &self.issuer).map_err(io::Error::other)?;
        Ok(NodeCertificate { cert_pem: cert.pem(), key_pem: key_pair.serialize_pem() })
    }
}

/// The names that clients on this machine call a node by.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The authority's certificate, but for its key. It is the same each time: an issuer is told by it.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "catamaran cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
