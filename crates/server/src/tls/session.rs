//! Mutual TLS 1.3 between nodes: both sides show a certificate from a CA of the cluster.

use super::peer_identity::PeerIdentity;
use super::validity::{expires_s, is_issued_by};
use config::files::{Readers, of_file, read_bounded, write_atomic};
use config::limits::SMALL_FILE_BYTES_MAX;
use replica::io::NodeId;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier, version::TLS13};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// TLS configurations of a node for connections to its peers.
#[derive(Clone)]
pub(crate) struct PeerTls {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    /// The CAs whose certificates are accepted.
    roots: Vec<CertificateDer<'static>>,
    /// The node's own certificate.
    own: CertificateDer<'static>,
}

/// Paths of the node's certificate and key, and of the CAs.
#[derive(Clone, Debug)]
pub(crate) struct PeerFiles {
    pub(crate) ca: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl PeerFiles {
    /// The CAs in the file.
    pub(crate) fn roots(&self) -> io::Result<Vec<CertificateDer<'static>>> {
        certificates(&self.ca)
    }

    /// Loads the three files.
    pub(crate) fn load(&self) -> io::Result<PeerTls> {
        self.load_with(self.roots()?)
    }

    /// Loads the certificate and the key, with these CAs.
    pub(crate) fn load_with(&self, roots: Vec<CertificateDer<'static>>) -> io::Result<PeerTls> {
        let certs = certificates(&self.cert)?;
        let with = |key: &Path| {
            let named = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", key.display()));
            let bytes = read_bounded(key, SMALL_FILE_BYTES_MAX).map_err(|error| of_file(key, &error))?;
            let private = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| named(&error))?;
            PeerTls::new(roots.clone(), certs.clone(), &private).map_err(|error| named(&error))
        };
        with(&self.key).or_else(|error| {
            // The node stopped before it renamed the new key of this certificate.
            let loaded = with(&self.new_key()).map_err(|_| error)?;
            std::fs::rename(self.new_key(), &self.key)?;
            Ok(loaded)
        })
    }

    /// The file to name in an error: the certificate if it is not usable, otherwise the key.
    pub(crate) fn at_fault(&self) -> &Path {
        if certificates(&self.cert).is_err() { &self.cert } else { &self.key }
    }

    /// Replaces certificate and key. After a crash at any point the files still match.
    pub(crate) fn save(&self, cert_pem: &str, key_pem: &str) -> io::Result<()> {
        write_atomic(&self.new_key(), key_pem.as_bytes(), Readers::Owner)?;
        write_atomic(&self.cert, cert_pem.as_bytes(), Readers::All)?;
        std::fs::rename(self.new_key(), &self.key)
    }

    /// Saves the next certificate and key. They are not used before the cluster accepts the key.
    pub(crate) fn save_next(&self, cert_pem: &str, key_pem: &str) -> io::Result<()> {
        let next = self.next();
        write_atomic(&next.key, key_pem.as_bytes(), Readers::Owner)?;
        write_atomic(&next.cert, cert_pem.as_bytes(), Readers::All)
    }

    /// The next certificate and key, if both exist and match.
    pub(crate) fn load_next(&self, roots: &[CertificateDer<'static>]) -> Option<PeerTls> {
        self.next().load_with(roots.to_vec()).ok()
    }

    /// Replaces certificate and key with the next ones.
    pub(crate) fn use_next(&self) -> io::Result<()> {
        let next = self.next();
        let [cert, key] = [&next.cert, &next.key].map(|file| read_bounded(file, SMALL_FILE_BYTES_MAX));
        self.save(&String::from_utf8_lossy(&cert?), &String::from_utf8_lossy(&key?))?;
        self.forget_next()
    }

    /// Removes the next certificate and its key.
    pub(crate) fn forget_next(&self) -> io::Result<()> {
        let next = self.next();
        for file in [&next.cert, &next.key] {
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn next(&self) -> Self {
        let [cert, key] =
            [(&self.cert, "pem-next"), (&self.key, "key-next")].map(|(file, end)| file.with_extension(end));
        Self { ca: self.ca.clone(), cert, key }
    }

    fn new_key(&self) -> PathBuf {
        self.key.with_extension("key-new")
    }
}

/// The configuration of new connections. Open connections keep theirs.
pub(crate) struct CurrentTls(RwLock<PeerTls>);

impl CurrentTls {
    pub(crate) const fn new(tls: PeerTls) -> Self {
        Self(RwLock::new(tls))
    }

    pub(crate) fn get(&self) -> PeerTls {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, tls: PeerTls) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tls;
    }
}

impl PeerTls {
    fn new(
        roots: Vec<CertificateDer<'static>>,
        certs: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let own = certs.first().cloned().ok_or(rustls::Error::NoCertificatesPresented)?;
        let mut store = RootCertStore::empty();
        for root in &roots {
            store.add(root.clone())?;
        }
        let store = Arc::new(store);
        let verifier = WebPkiClientVerifier::builder_with_provider(store.clone(), provider.clone())
            // A joining node has no certificate yet. The greeting lets it request one.
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certs.clone(), key.clone_key())?;
        // No resumption: a resumed session would not check whether the node was removed.
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(store)
            .with_client_auth_cert(certs, key.clone_key())?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), roots, own })
    }

    /// The pin of this node's key.
    pub(crate) fn own_pin(&self) -> Option<[u8; 32]> {
        PeerIdentity::of(Some(std::slice::from_ref(&self.own))).map(|identity| identity.pin)
    }

    /// Whether the node's own certificate names this member, with its incarnation.
    pub(crate) fn names_member(&self, id: NodeId) -> bool {
        let names = webpki::EndEntityCert::try_from(&self.own);
        names.is_ok_and(|cert| cert.valid_dns_names().any(|name| name == super::names::member_name(id)))
    }

    /// The CAs whose certificates are accepted.
    pub(crate) fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// Whether a CA issued the node's own certificate.
    pub(crate) fn is_of(&self, root: &CertificateDer<'_>) -> bool {
        is_issued_by(&self.own, root)
    }

    /// The CA that issued the node's own certificate.
    pub(crate) fn own_root(&self) -> Option<&CertificateDer<'static>> {
        self.roots.iter().find(|root| self.is_of(root))
    }

    /// Expiry of the node's own certificate, in seconds since 1970.
    pub(crate) fn expires_s(&self) -> u64 {
        expires_s(&self.own).unwrap_or(0)
    }
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let named = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
    let bytes = read_bounded(file, SMALL_FILE_BYTES_MAX).map_err(|error| of_file(file, &error))?;
    let certs: Vec<_> =
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(|error| named(&error))?;
    if certs.is_empty() { Err(named(&"no certificate in it")) } else { Ok(certs) }
}

/// The configuration of a joining node, which knows the CA but has no certificate.
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
    ServerName::try_from(super::names::node_name(id)).expect("digits and fixed labels are a DNS name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::ca::{Ca, to_pem};

    fn is_node(certs: Option<&[CertificateDer<'_>]>, id: u64) -> bool {
        PeerIdentity::of(certs).is_some_and(|identity| identity.is_about(id))
    }

    fn files(dir: &Path, cas: &[&Ca], id: u64) -> PeerFiles {
        let made = cas[0].issue(id).unwrap();
        let at = |name: &str| dir.join(format!("{id}-{name}"));
        let files = PeerFiles { ca: at("ca"), cert: at("cert"), key: at("key") };
        let roots: String = cas.iter().map(|ca| to_pem(&ca.cert_der())).collect();
        std::fs::write(&files.ca, format!("text before the certificates is ignored\n{roots}")).unwrap();
        files.save(&made.cert_pem, &made.key_pem).unwrap();
        files
    }

    /// A node with a certificate of the first CA. It accepts certificates of all these CAs.
    fn peer(dir: &Path, cas: &[&Ca], id: u64) -> PeerTls {
        files(dir, cas, id).load().unwrap()
    }

    /// Runs a handshake in memory; returns the server side.
    fn handshake(client: &PeerTls, server: &PeerTls, id: u64) -> Result<rustls::ServerConnection, rustls::Error> {
        let mut client = rustls::ClientConnection::new(client.client.clone(), server_name(id))?;
        let mut server = rustls::ServerConnection::new(server.server.clone())?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                server.read_tls(&mut rest).unwrap();
                server.process_new_packets()?;
            }
            bytes.clear();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                client.process_new_packets()?;
            }
        }
        Ok(server)
    }

    #[test]
    fn nodes_of_one_cluster_trust_each_other_by_number() {
        let dir = process::testing::test_dir("tls");
        let (cert, key) = (dir.path().join("ca.pem"), dir.path().join("ca.key"));
        // The second CA is the first one, loaded again: certificates issued after a restart are valid too.
        let first = Ca::load_or_make(&cert, &key).unwrap();
        let second = Ca::load_or_make(&cert, &key).unwrap();
        let (one, two) = (peer(dir.path(), &[&first], 1), peer(dir.path(), &[&second], 2));
        let server = handshake(&one, &two, 2).unwrap();
        assert!(is_node(server.peer_certificates(), 1));
        assert!(!is_node(server.peer_certificates(), 2));
        assert!(!is_node(server.peer_certificates(), 11));
        assert!(handshake(&one, &two, 1).is_err(), "node 2 passed for node 1");
    }

    #[test]
    fn another_cluster_is_refused_on_both_sides() {
        let dir = process::testing::test_dir("tls-other");
        let ours = Ca::load_or_make(&dir.path().join("a.pem"), &dir.path().join("a.key")).unwrap();
        let theirs = Ca::load_or_make(&dir.path().join("b.pem"), &dir.path().join("b.key")).unwrap();
        let (one, two) = (peer(dir.path(), &[&ours], 1), peer(dir.path(), &[&theirs], 2));
        assert!(handshake(&one, &two, 2).is_err());
        assert!(handshake(&two, &one, 1).is_err());
        // A client without a certificate has no identity.
        let ca = CertificateDer::from_pem_file(dir.path().join("a.pem")).unwrap();
        let nobody = PeerTls { client: joiner(ca).unwrap(), ..one.clone() };
        let server = handshake(&nobody, &one, 1).unwrap();
        assert!(!is_node(server.peer_certificates(), 1) && !is_node(server.peer_certificates(), 2));
    }

    #[test]
    fn nodes_of_two_cas_trust_each_other_until_the_old_ca_is_removed() {
        let dir = process::testing::test_dir("tls-roots");
        let [old, new] = [(); 2].map(|()| Ca::make().unwrap());
        // Each step of a rotation must work with the step before it.
        let steps: [&[&Ca]; 4] = [&[&old], &[&old, &new], &[&new, &old], &[&new]];
        for pair in steps.windows(2) {
            for (ahead, behind) in [(pair[1], pair[0]), (pair[0], pair[1]), (pair[1], pair[1])] {
                let (one, two) = (peer(dir.path(), ahead, 1), peer(dir.path(), behind, 2));
                assert!(is_node(handshake(&one, &two, 2).unwrap().peer_certificates(), 1));
                assert!(is_node(handshake(&two, &one, 1).unwrap().peer_certificates(), 2));
                assert_eq!(one.own_root(), Some(&ahead[0].cert_der()));
            }
        }
        // A node that missed the whole rotation is refused, on both sides.
        let (one, two) = (peer(dir.path(), &[&new], 1), peer(dir.path(), &[&old], 2));
        assert!(handshake(&one, &two, 2).is_err() && handshake(&two, &one, 1).is_err());
        // Also if it knows the new root but shows a certificate of the old one.
        let two = peer(dir.path(), &[&old, &new], 2);
        assert!(handshake(&one, &two, 2).is_err() && handshake(&two, &one, 1).is_err());
    }

    #[test]
    fn certificate_and_key_match_after_a_crash_at_any_point() {
        let dir = process::testing::test_dir("tls-files");
        let ca = Ca::make().unwrap();
        let files = files(dir.path(), &[&ca], 1);
        let (old, made) = (files.load().unwrap(), ca.issue(1).unwrap());
        // A crash after the key was written, and then one after the certificate was written.
        std::fs::write(files.new_key(), &made.key_pem).unwrap();
        assert_eq!(files.load().unwrap().own, old.own);
        std::fs::write(&files.cert, &made.cert_pem).unwrap();
        let new = files.load().unwrap();
        assert!(new.own != old.own && !files.new_key().exists());
        assert_eq!(std::fs::read_to_string(&files.key).unwrap(), made.key_pem);
        assert_eq!(files.load().unwrap().own, new.own);
        std::fs::write(&files.key, ca.issue(1).unwrap().key_pem).unwrap();
        assert!(files.load().is_err(), "the key of another certificate");
    }
}
