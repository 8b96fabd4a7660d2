//! Answers a batch of datagrams in stages. A stage handles the whole batch, so that it can fetch the memory for all
//! datagrams together.
//!
//! ```text
//!   look up          the names of all queries
//!   make responses   each message: a response, deferred, dropped   -> the responses that count for the rate limit
//!   apply limits     each of those: sent, replaced, dropped
//! ```

use super::PinnedQueryResponder;
use super::cookies::CookieStatus;
use super::counters::LimitAction;
use super::limiter::Verdict;
use crate::listen::batch::{DatagramBatch, IndexSet};
use crate::listen::{Action, Transport};
use std::net::{IpAddr, SocketAddr};
use wire::limits::HEADER_BYTES;
use wire::number::Rcode;
use wire::parse::{FirstQuestion, Parsed, Request, parse_request};
use zone::answer::{Bare, Head};

impl PinnedQueryResponder<'_> {
    /// Looks up the names of all queries together. A batch of one query would gain nothing.
    pub(super) fn look_up(&mut self, batch: &mut DatagramBatch) {
        if batch.len() > 1
            && let Some(lookups) = self.batch.take()
        {
            batch.prepare(|batch| {
                self.prepared = Some(lookups.prepare(self.set, batch.datagrams().map(question_of)));
            });
        }
    }

    /// Makes the responses. Returns those that count for the rate limit.
    pub(super) fn make_responses(&mut self, batch: &mut DatagramBatch) -> IndexSet {
        batch.handle_each(batch.answerable(), |index, datagram, out| {
            self.decide(Some(index), datagram.bytes, datagram.peer, Transport::Udp, out)
        })
    }

    /// Applies the rate limit to these responses.
    pub(super) fn apply_limits(&mut self, batch: &mut DatagramBatch, undecided: IndexSet) {
        if let Some(limiter) = self.limiter.as_ref().filter(|_| !undecided.is_empty()) {
            limiter.prefetch_batch(undecided);
        }
        batch.handle_each(undecided, |index, datagram, out| {
            Some(self.apply_limit(index, datagram.bytes, datagram.peer, out))
        });
    }

    /// Applies the rate limit to one response of the batch, which is still in `out`.
    pub(super) fn apply_limit(&mut self, index: usize, bytes: &[u8], peer: SocketAddr, out: &mut [u8]) -> Action {
        let limiter = self.limiter.as_mut();
        let Some((verdict, answered)) = limiter.and_then(|limiter| limiter.check_batched(index, self.clock.now_us()))
        else {
            return Action::Silent;
        };
        if verdict == Verdict::Send {
            return self.sent(&answered);
        }
        // The query is parsed again. Slips are rare, so the batch does not keep parsed queries for them.
        if verdict == Verdict::Slip
            && let Parsed::Request(request) = parse_request(bytes)
        {
            return self.slip(&request, peer.ip(), out);
        }
        self.counters.limited(LimitAction::Dropped);
        Action::Silent
    }

    /// Replaces an answer over the limit with a short one that lets a real client retry.
    fn slip(&mut self, request: &Request<'_>, address: IpAddr, out: &mut [u8]) -> Action {
        let (status, cookie) = self.cookie_status(request.edns.as_ref(), address);
        let (how, bare) = if status == CookieStatus::Unproven {
            (LimitAction::BadCookie, Bare { rcode: Rcode::BADCOOKIE, ..Bare::default() })
        } else {
            (LimitAction::Truncated, Bare { truncated: true, ..Bare::default() })
        };
        self.counters.limited(how);
        self.respond_over_limit(&Head::from(request), cookie.as_ref().map(|cookie| &cookie[..]), bare, out)
    }
}

/// The question of a plain query, for prefetching only.
pub(super) fn question_of(message: &[u8]) -> Option<FirstQuestion<'_>> {
    let header: &[u8; HEADER_BYTES] = message.first_chunk()?;
    // QR and opcode are zero, and there is one question.
    let asks = header[2] & 0xF8 == 0 && header[4..6] == [0, 1];
    if asks { FirstQuestion::read(message).ok() } else { None }
}
