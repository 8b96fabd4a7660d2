//! A test peer that sends arbitrary frames under any certificate.

use super::cluster::Cluster;
use super::dns::tcp_from;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The magic bytes of every connection.
const MAGIC: &[u8; 16] = b"catamaran-peer\0\x01";
/// The connection kind bytes: the channels of members, and requests.
pub(crate) const HEARTBEAT: u8 = 0;
pub(crate) const NORMAL: u8 = 1;
pub(crate) const BULK: u8 = 2;
pub(crate) const JOIN: u8 = 0xFF;
pub(crate) const DATA_KEY: u8 = 0xFE;
pub(crate) const MEMBER_CHECK: u8 = 0xFD;
pub(crate) const ANNOUNCE: u8 = 0xFC;

/// Values that an acceptor sends instead of its id.
pub(crate) const REMOVED: u64 = 0;
pub(crate) const KEY_REFUSED: u64 = u64::MAX;

/// Time limit for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A certificate and its key.
#[derive(Debug)]
pub(crate) struct Identity {
    cert: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { cert: self.cert.clone(), key: self.key.clone_key() }
    }
}

impl Identity {
    /// The stolen files of a node.
    pub(crate) fn stolen(node: &Path) -> Self {
        Self {
            cert: CertificateDer::pem_file_iter(node.join("node.pem")).unwrap().map(Result::unwrap).collect(),
            key: PrivateKeyDer::from_pem_file(node.join("node.key")).unwrap(),
        }
    }

    /// Issued by the CA of the cluster, which every member can use, for a key of the attacker.
    pub(crate) fn issued(cluster: &Cluster, names: &[&str]) -> Self {
        Self::signed(&std::fs::read_to_string(cluster.dir.join("ca.key")).unwrap(), names)
    }

    /// Issued by another CA with the same name.
    pub(crate) fn foreign(names: &[&str]) -> Self {
        Self::signed(&KeyPair::generate().unwrap().serialize_pem(), names)
    }

    fn signed(ca_key: &str, names: &[&str]) -> Self {
        let mut ca = CertificateParams::default();
        ca.distinguished_name = DistinguishedName::new();
        ca.distinguished_name.push(DnType::CommonName, "catamaran cluster");
        let names: Vec<String> = names.iter().map(|name| format!("{name}.catamaran.internal")).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(ca, KeyPair::from_pem(ca_key).unwrap());
        let cert = params.signed_by(&key, &issuer).unwrap().der().clone();
        Self { cert: vec![cert], key: PrivatePkcs8KeyDer::from(key.serialize_der()).into() }
    }
}

/// One connection to a node's peer port.
pub(crate) struct HostilePeer(StreamOwned<ClientConnection, TcpStream>);

impl HostilePeer {
    /// Connects to node `to` from a loopback address; without an identity, it sends no certificate.
    pub(crate) fn connect(
        cluster: &Cluster,
        to: u64,
        source: Ipv4Addr,
        identity: Option<&Identity>,
    ) -> io::Result<Self> {
        Self::over(tcp_from(source, peer_address(cluster, to))?, to, &cluster.dir.join("ca.pem"), identity)
    }

    /// The same over an open connection to node `to`; the file `ca` has its CAs.
    pub(crate) fn over(stream: TcpStream, to: u64, ca: &Path, identity: Option<&Identity>) -> io::Result<Self> {
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        Ok(Self(StreamOwned::new(Self::client(to, ca, identity), stream)))
    }

    /// The first message of a handshake with node `to`. It can be sent many times, and costs the node a signature.
    pub(crate) fn client_hello(to: u64, ca: &Path) -> Vec<u8> {
        let mut hello = Vec::new();
        Self::client(to, ca, None).write_tls(&mut hello).unwrap();
        hello
    }

    fn client(to: u64, ca: &Path, identity: Option<&Identity>) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_file_iter(ca).unwrap() {
            roots.add(root.unwrap()).unwrap();
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let client = match identity {
            Some(identity) => builder.with_client_auth_cert(identity.cert.clone(), identity.key.clone_key()).unwrap(),
            None => builder.with_no_client_auth(),
        };
        let name = format!("node-{to}.catamaran.internal").try_into().unwrap();
        ClientConnection::new(Arc::new(client), name).unwrap()
    }

    /// Sends the greeting: kind, and for a channel also sender and receiver.
    pub(crate) fn greet(&mut self, channel: u8, from: u64, to: u64) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(channel);
        if channel <= BULK {
            for number in [from, to, 0x4242] {
                bytes.extend(number.to_be_bytes());
            }
        }
        self.0.write_all(&bytes)
    }

    /// The id in the welcome; an error if the node closes the connection.
    pub(crate) fn welcome(&mut self) -> io::Result<u64> {
        let mut welcome = [0; 32];
        self.0.read_exact(&mut welcome)?;
        Ok(u64::from_be_bytes(welcome[16..24].try_into().unwrap()))
    }

    /// Sends a frame, or a request, with its length.
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.write_all(&(frame.len() as u32).to_be_bytes())?;
        self.0.write_all(frame)?;
        self.0.flush()
    }

    /// The answer to a request, as text.
    pub(crate) fn answer(&mut self) -> io::Result<String> {
        let mut len = [0; 4];
        self.0.read_exact(&mut len)?;
        let mut text = vec![0; (u32::from_be_bytes(len) as usize).min(1 << 16)];
        self.0.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Sets the time limit for answers.
    pub(crate) fn wait_at_most(&mut self, limit: Duration) {
        self.0.sock.set_read_timeout(Some(limit)).unwrap();
    }

    /// Whether the node closes the connection within this time.
    pub(crate) fn is_cut_within(&mut self, limit: Duration) -> bool {
        self.wait_at_most(limit);
        match self.0.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }
}

/// The peer address of a node.
pub(crate) fn peer_address(cluster: &Cluster, id: u64) -> SocketAddr {
    let status = cluster.ids().find_map(|id| cluster.status(id)).unwrap();
    let members = status["members"].as_array().unwrap();
    let member = members.iter().find(|member| member["node"] == id).unwrap();
    member["address"].as_str().unwrap().parse().unwrap()
}
