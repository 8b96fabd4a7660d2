//! A QUIC client that assumes more than its server has allowed. It can break a rule that the library enforces.

use quinn::ConnectionId;
use quinn::Side;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::crypto::{ClientConfig, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, TransportError};
use std::any::Any;
use std::sync::Arc;

/// `initial_max_streams_uni` of 1: number, bytes and value (RFC 9000 18.2).
const ONE_STREAM_ONE_WAY: [u8; 3] = [0x09, 1, 1];

/// Like [`QuicClientConfig`]. It assumes that the server allows one unidirectional stream, although the server has not
/// said so.
pub(crate) struct UnrulyQuicConfig(pub(crate) Arc<QuicClientConfig>);

impl ClientConfig for UnrulyQuicConfig {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = self.0.clone().start_session(version, server_name, params)?;
        Ok(Box::new(UnrulySession { inner }))
    }
}

struct UnrulySession {
    inner: Box<dyn Session>,
}

impl Session for UnrulySession {
    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(parameters) = self.inner.transport_parameters()? else { return Ok(None) };
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        bytes.extend(ONE_STREAM_ONE_WAY);
        // A parameter may not occur twice: this fails if the server itself allows such streams.
        Ok(Some(TransportParameters::read(Side::Client, &mut bytes.as_slice())?))
    }

    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        self.inner.write_handshake(buf)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}
