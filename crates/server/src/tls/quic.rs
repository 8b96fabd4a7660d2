//! QUIC sessions that report whether they were resumed. rustls knows this, but quinn does not expose it.

use quinn::ConnectionId;
use quinn::Side;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::TransportError;
use quinn_proto::transport_parameters::TransportParameters;
use std::any::Any;
use std::sync::Arc;

/// The handshake message with certificates (RFC 8446 4).
const CERTIFICATE: u8 = 11;

/// The `handshake_data` of a connection.
pub(crate) struct Handshake {
    /// Whether a session was resumed.
    pub(crate) resumed: bool,
}

/// A [`QuicServerConfig`] whose `handshake_data` is a [`Handshake`].
pub(crate) struct QuicTls(pub(crate) Arc<QuicServerConfig>);

impl ServerConfig for QuicTls {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.0.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.0.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let inner = self.0.clone().start_session(version, params);
        Box::new(ResumptionSession { inner, has_shown_certificate: false })
    }
}

struct ResumptionSession {
    inner: Box<dyn Session>,
    has_shown_certificate: bool,
}

impl Session for ResumptionSession {
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        // RFC 8446 4.4.2: a server sends its certificate unless the session is resumed.
        let resumed = !self.has_shown_certificate && !self.inner.is_handshaking();
        self.inner.handshake_data().map(|_| Box::new(Handshake { resumed }) as Box<dyn Any>)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let start = buf.len();
        let keys = self.inner.write_handshake(buf);
        self.has_shown_certificate |= kinds(&buf[start..]).any(|kind| kind == CERTIFICATE);
        keys
    }

    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(dst_cid, side)
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

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
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

/// The types of the complete handshake messages. Each has a type byte and a length of three bytes (RFC 8446 4).
fn kinds(mut bytes: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let ([kind, high, middle, low], rest) = bytes.split_first_chunk()?;
        bytes = rest.get(u32::from_be_bytes([0, *high, *middle, *low]) as usize..)?;
        Some(*kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_messages_are_told_apart() {
        let of = |bytes: &[u8]| kinds(bytes).collect::<Vec<_>>();
        assert_eq!(of(&[8, 0, 0, 2, 11, 11, 20, 0, 0, 0]), [8, 20]);
        assert_eq!(of(&[11, 0, 0, 1, 9, 15, 0, 0, 0]), [11, 15]);
        // Truncated messages are not reported.
        assert_eq!(of(&[11, 0, 0, 1]), [0u8; 0]);
        assert_eq!(of(&[11, 0, 0]), [0u8; 0]);
        assert_eq!(of(&[]), [0u8; 0]);
    }
}
