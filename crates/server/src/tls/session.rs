//! rustls configurations: both sides show a certificate of the cluster's authority, TLS 1.3 only.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier, version::TLS13};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What a node needs to talk to the others.
#[derive(Clone)]
pub(crate) struct PeerTls {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

impl PeerTls {
    /// Reads the three PEM files.
    pub(crate) fn load(ca: &Path, cert: &Path, key: &Path) -> io::Result<Self> {
        let named = |path: &Path| {
            let path = path.display().to_string();
            move |error: rustls::pki_types::pem::Error| io::Error::other(format!("{path}: {error}"))
        };
        let ca = CertificateDer::from_pem_file(ca).map_err(named(ca))?;
        let certs: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert).map_err(named(cert))?.collect();
        let certs = certs.map_err(named(cert))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(named(key))?;
        Self::new(ca, certs, &key).map_err(io::Error::other)
    }

    fn new(
        ca: CertificateDer<'static>,
        certs: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(ca)?;
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            // A node that joins has no certificate yet: it gets as far as the greeting, which lets it ask for one.
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certs.clone(), key.clone_key())?;
        // A session that was resumed after a node was removed would not be checked again.
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(certs, key.clone_key())?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }
}

/// For a node that joins: it knows the authority and has no certificate.
pub(crate) fn joiner(ca: CertificateDer<'static>) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(ca)?;
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(client))
}

/// The name that the certificate of node `id` must carry.
pub(crate) fn server_name(id: u64) -> ServerName<'static> {
    ServerName::try_from(super::node_name(id)).expect("digits and fixed labels are a DNS name")
}

/// Whether the certificate that the other side showed is that of node `id`.
pub(crate) fn is_node(certs: Option<&[CertificateDer<'_>]>, id: u64) -> bool {
    let Some(cert) = certs.and_then(<[_]>::first) else { return false };
    webpki::EndEntityCert::try_from(cert)
        .is_ok_and(|cert| cert.verify_is_valid_for_subject_name(&server_name(id)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::authority::Authority;

    fn files(dir: &Path, authority: &Authority, id: u64) -> PeerTls {
        let made = authority.issue(id).unwrap();
        let at = |name: &str| dir.join(format!("{id}-{name}"));
        std::fs::write(at("ca"), authority.cert_pem()).unwrap();
        std::fs::write(at("cert"), made.cert_pem).unwrap();
        std::fs::write(at("key"), made.key_pem).unwrap();
        PeerTls::load(&at("ca"), &at("cert"), &at("key")).unwrap()
    }

    /// Runs a handshake in memory; gives what the server knows of the client.
    fn handshake(client: &PeerTls, server: &PeerTls, id: u64) -> Result<rustls::ServerConnection, rustls::Error> {
        let mut client = rustls::ClientConnection::new(client.client.clone(), server_name(id))?;
        let mut server = rustls::ServerConnection::new(server.server.clone())?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut octets = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut octets).unwrap();
            }
            let mut rest = &octets[..];
            while !rest.is_empty() {
                server.read_tls(&mut rest).unwrap();
                server.process_new_packets()?;
            }
            octets.clear();
            while server.wants_write() {
                server.write_tls(&mut octets).unwrap();
            }
            let mut rest = &octets[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                client.process_new_packets()?;
            }
        }
        Ok(server)
    }

    #[test]
    fn nodes_of_one_cluster_trust_each_other_by_number() {
        let dir = crate::test_dir("tls");
        let (cert, key) = (dir.path().join("ca.pem"), dir.path().join("ca.key"));
        // The second authority is the first one, read back: a certificate issued after a restart is good too.
        let first = Authority::load_or_make(&cert, &key).unwrap();
        let second = Authority::load_or_make(&cert, &key).unwrap();
        let (one, two) = (files(dir.path(), &first, 1), files(dir.path(), &second, 2));
        let server = handshake(&one, &two, 2).unwrap();
        assert!(is_node(server.peer_certificates(), 1));
        assert!(!is_node(server.peer_certificates(), 2));
        assert!(!is_node(server.peer_certificates(), 11));
        assert!(handshake(&one, &two, 1).is_err(), "node 2 passed for node 1");
    }

    #[test]
    fn another_cluster_is_refused_on_both_sides() {
        let dir = crate::test_dir("tls-other");
        let ours = Authority::load_or_make(&dir.path().join("a.pem"), &dir.path().join("a.key")).unwrap();
        let theirs = Authority::load_or_make(&dir.path().join("b.pem"), &dir.path().join("b.key")).unwrap();
        let (one, two) = (files(dir.path(), &ours, 1), files(dir.path(), &theirs, 2));
        assert!(handshake(&one, &two, 2).is_err());
        assert!(handshake(&two, &one, 1).is_err());
        // Who shows no certificate is nobody.
        let ca = CertificateDer::from_pem_file(dir.path().join("a.pem")).unwrap();
        let nobody = PeerTls { client: joiner(ca).unwrap(), server: one.server.clone() };
        let server = handshake(&nobody, &one, 1).unwrap();
        assert!(!is_node(server.peer_certificates(), 1) && !is_node(server.peer_certificates(), 2));
    }
}
