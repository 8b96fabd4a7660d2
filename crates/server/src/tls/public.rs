//! TLS configurations for DNS over TLS, HTTPS and QUIC.

use super::certificate::{Certificate, CertificateCounters};
use super::client_secrets::ClientSecrets;
use super::connection_ids::ConnectionIds;
use super::quic::QuicTls;
use super::tickets::Tickets;
use crate::limits::{
    DEFERRED_MS_MAX, QUIC_HALF_OPEN_MAX, QUIC_INCOMING_BYTES, QUIC_INCOMING_TOTAL_BYTES, QUIC_SEND_BYTES,
    QUIC_STREAM_WINDOW_BYTES, QUIC_STREAMS_MAX, QUIC_WINDOW_BYTES,
};
use config::tls::{Tls, Version};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::crypto::{AeadKey, HandshakeTokenKey};
use quinn::{EndpointConfig, TransportConfig, VarInt};
use ring::{hkdf, hmac};
use rustls::{ServerConfig, SupportedProtocolVersion, version::TLS12, version::TLS13};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The configurations of all encrypted transports.
pub(crate) struct PublicTls {
    pub(crate) certificate: Arc<Certificate>,
    pub(crate) dot: Arc<ServerConfig>,
    pub(crate) doh: Arc<ServerConfig>,
    pub(crate) doq: quinn::ServerConfig,
    /// Source of the endpoint keys. An endpoint keeps its key for its lifetime.
    endpoints: hkdf::Prk,
}

impl PublicTls {
    /// Reads the certificate. `idle` is the idle timeout of QUIC connections.
    pub(crate) fn load(
        tls: &Tls,
        secrets: &Arc<ClientSecrets>,
        idle: Duration,
        counters: Arc<CertificateCounters>,
    ) -> io::Result<Self> {
        let certificate = Arc::new(Certificate::load(&tls.cert_file, &tls.key_file, counters)?);
        let tickets = Arc::new(Tickets::new(secrets.clone()));
        let versions: Vec<_> = tls.versions.iter().map(|version| of_rustls(*version)).collect();
        let server = |versions: &[&'static SupportedProtocolVersion], protocol: &[u8]| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions);
            let mut config =
                builder.map_err(io::Error::other)?.with_no_client_auth().with_cert_resolver(certificate.clone());
            config.alpn_protocols = vec![protocol.to_vec()];
            config.ticketer = tickets.clone();
            // RFC 9250 5.5.1, RFC 8446 8: no early data, so no request can be replayed.
            config.max_early_data_size = 0;
            io::Result::Ok(config)
        };
        let doq = server(&[&TLS13], b"doq")?;
        Ok(Self {
            dot: Arc::new(server(&versions, b"dot")?),
            // RFC 9113 9.2 allows TLS 1.2 only with few ciphers. Clients of HTTP/2 support TLS 1.3.
            doh: Arc::new(server(&[&TLS13], b"h2")?),
            doq: quic(doq, secrets.clone(), idle)?,
            endpoints: hkdf::Salt::new(hkdf::HKDF_SHA256, b"catamaran quic endpoint key 1").extract(&secrets.first()),
            certificate,
        })
    }

    /// The configuration of a QUIC endpoint. It can send stateless resets for connections of its predecessor: the
    /// endpoint that the node had at this address, with this number, before it was killed (RFC 9000 10.3).
    ///
    /// Each endpoint has its own key. With a shared key, anyone who sees connection IDs could make one endpoint reset
    /// the connections of another (RFC 9000 21.11).
    pub(crate) fn endpoint(&self, node: u32, address: SocketAddr, number: usize) -> EndpointConfig {
        let socket_info = format!("{node} {number} {address}");
        let key = |what: &[u8]| -> hmac::Key {
            let info = [what, b" ", socket_info.as_bytes()];
            self.endpoints.expand(&info, hmac::HMAC_SHA256).expect("a key of HMAC is short enough").into()
        };
        let mut config = EndpointConfig::new(Arc::new(key(b"reset")));
        // The endpoint sends resets only for IDs that it could have issued.
        let ids = ConnectionIds::new(key(b"ids"));
        config.cid_generator(move || Box::new(ids.clone()));
        config
    }
}

const fn of_rustls(version: Version) -> &'static SupportedProtocolVersion {
    match version {
        Version::Tls12 => &TLS12,
        Version::Tls13 => &TLS13,
    }
}

/// The keys of address tokens. A token is valid for seconds, so tokens of the previous secret are ignored.
struct AddressTokens(Arc<ClientSecrets>);

impl HandshakeTokenKey for AddressTokens {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"catamaran quic token key 1");
        salt.extract(&self.0.first()).aead_from_hkdf(random_bytes)
    }
}

fn quic(tls: ServerConfig, secrets: Arc<ClientSecrets>, idle: Duration) -> io::Result<quinn::ServerConfig> {
    // A client that waits for a response sends nothing. `listen::doq` closes idle connections sooner.
    let silence = idle.max(Duration::from_millis(DEFERRED_MS_MAX));
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(QUIC_STREAMS_MAX.into())
        // RFC 9250 4.2: all client streams are bidirectional.
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(QUIC_STREAM_WINDOW_BYTES.into())
        .receive_window(QUIC_WINDOW_BYTES.into())
        .send_window(QUIC_SEND_BYTES)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(silence.try_into().map_err(io::Error::other)?))
        // DNS messages are small, so path MTU probes are not worth their cost.
        .mtu_discovery_config(None);
    let crypto = Arc::new(QuicServerConfig::try_from(tls).map_err(io::Error::other)?);
    // All nodes and runtimes accept each other's address tokens (RFC 9000 8.1.3).
    let mut config = quinn::ServerConfig::new(Arc::new(QuicTls(crypto)), Arc::new(AddressTokens(secrets)));
    config
        .transport_config(Arc::new(transport))
        .migration(false)
        .max_incoming(2 * QUIC_HALF_OPEN_MAX)
        .incoming_buffer_size(QUIC_INCOMING_BYTES)
        .incoming_buffer_size_total(QUIC_INCOMING_TOTAL_BYTES);
    Ok(config)
}
