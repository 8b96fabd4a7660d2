//! What all responses of this node depend on besides the zones.

use crate::listen::Transport;
use crate::listen::handler::ConnectionLimits;
use crate::update_queue::UpdateQueue;
use zone::answer::{AnswerContext, Chaos, Servable};
use zone::set::Zone;

/// Responses with padding have a multiple of this size in bytes (RFC 8467 4.1).
const PADDING_BLOCK_BYTES: u16 = 468;

/// The operator's settings for answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerOptions {
    /// Largest datagram that is sent, and advertised as accepted (RFC 6891 6.2.3).
    pub(crate) udp_payload: u16,
    pub(crate) nsid: Option<Vec<u8>>,
    pub(crate) chaos_id: Option<Vec<u8>>,
    pub(crate) chaos_version: Option<Vec<u8>>,
}

/// The client of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'c> {
    pub(crate) transport: Transport,
    /// The cookie of the response.
    pub(crate) cookie: Option<&'c [u8]>,
}

/// The state that all workers share.
pub(crate) struct Service {
    pub(crate) options: AnswerOptions,
    pub(crate) update_queue: UpdateQueue,
    pub(crate) connections: ConnectionLimits,
}

impl Service {
    /// The idle timeout now, in units of 100 ms (RFC 7828 3.1).
    fn keepalive(&self) -> u16 {
        u16::try_from(self.connections.idle_timeout().as_millis() / 100).unwrap_or(u16::MAX)
    }
}

/// What a response depends on besides the zones. `zone_state` is not called for responses without records.
pub(crate) fn context<'c>(
    service: &'c Service,
    client: Client<'c>,
    zone_state: &'c dyn Fn(&Zone<'_>) -> Servable,
    tsig_reserve: usize,
) -> AnswerContext<'c> {
    let options = &service.options;
    AnswerContext {
        transport: match client.transport {
            Transport::Udp => zone::answer::Transport::Udp,
            _ => zone::answer::Transport::Tcp,
        },
        udp_bytes_max: options.udp_payload,
        payload: options.udp_payload,
        nsid: options.nsid.as_deref(),
        cookie: client.cookie,
        keepalive: client.transport.has_keepalive().then(|| service.keepalive()),
        // RFC 8467 4: padding is only useful on encrypted transports.
        padding_block: if client.transport.is_encrypted() { PADDING_BLOCK_BYTES } else { 0 },
        chaos: Chaos { id_server: options.chaos_id.as_deref(), version: options.chaos_version.as_deref() },
        zone_state,
        tsig_reserve,
    }
}
