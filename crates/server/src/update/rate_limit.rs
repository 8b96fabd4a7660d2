//! The rate limit of an update thread. Over UDP anyone can forge an address, and can replay a message of another
//! client.
//!
//! ```text
//!   outcome of a verified UPDATE                   -> not counted, except BADTIME (a replay)
//!   a cookie that proves the address, or exempt    -> not counted
//!   a verified query                               -> counts like the same query without a key
//!   TSIG error, FORMERR, or an UPDATE without TSIG -> share one bucket
//!
//!   over the limit, every `slip`th:
//!                            with a cookie         -> BADCOOKIE, with a new cookie
//!                            a query               -> TC
//!                            an error with a MAC   -> the error, without options
//!   over the limit, the others                     -> nothing
//! ```
//! A replacement is signed as the original would be. An UPDATE never gets TC: its RCODE is NOERROR, and update clients
//! would take it as success. Without key and cookie nothing is sent, since TCP would give the same error.

use super::{Submit, UpdateThread};
use crate::answer::cookies::CookieStatus;
use crate::answer::counters::{LimitAction, UpdateEnd};
use crate::answer::limiter::Verdict;
use crate::answer::response::{Received, ResponseHead};
use crate::listen::{Reply, Transport};
use crate::sys::clock::now_s;
use tsig::Signer;
use wire::NameRef;
use wire::number::Rcode;
use zone::answer::{AnswerKind, Bare};

impl<S: Submit + 'static> UpdateThread<S> {
    /// Checks a response of this kind and name against the limit, and counts it.
    pub(super) fn check_limit(
        &mut self,
        status: CookieStatus,
        reply: &Reply,
        kind: AnswerKind,
        name: Option<NameRef<'_>>,
    ) -> Verdict {
        match status {
            CookieStatus::Proven => Verdict::Send,
            _ => self.check_unproven(reply, kind, name),
        }
    }

    /// The same for a client without a proven address.
    fn check_unproven(&mut self, reply: &Reply, kind: AnswerKind, name: Option<NameRef<'_>>) -> Verdict {
        if reply.transport() != Transport::Udp {
            return Verdict::Send;
        }
        let address = reply.peer().ip();
        let now_us = self.started_at.elapsed().as_micros() as u64;
        match self.rate_limit.current() {
            Some(limiter) if !limiter.is_exempt(address) => {
                let keys = limiter.keys_of(address, kind, name);
                limiter.check(keys, now_us)
            }
            _ => Verdict::Send,
        }
    }

    /// The same for TSIG errors and refused unsigned updates. They share one bucket, since a forger can choose the
    /// error.
    pub(super) fn check_error(&mut self, received: Received<'_>, reply: &Reply) -> Verdict {
        let (status, _) = self.cookie_status(received.edns.as_ref(), reply);
        self.check_limit(status, reply, AnswerKind::Refused, None)
    }

    /// Whether BADTIME may be sent for a replayed update. It is limited, because anyone can replay an update from a
    /// forged address.
    pub(super) fn may_send_bad_time(&mut self, request_id: u64) -> bool {
        let Some(reply) = self.pending.unproven_reply(request_id) else { return true };
        let limited = match self.check_unproven(&reply, AnswerKind::Refused, None) {
            Verdict::Send => return true,
            Verdict::Slip => {
                self.pending.shorten(request_id);
                LimitAction::Shortened
            }
            Verdict::Drop => {
                self.pending.remove(request_id);
                self.count(&reply).update_ended(UpdateEnd::BadTime);
                LimitAction::Dropped
            }
        };
        self.count(&reply).limited(limited);
        limited != LimitAction::Dropped
    }

    /// Sends the replacement of a response over the limit.
    pub(super) fn send_over_limit(
        &mut self,
        received: Received<'_>,
        verdict: Verdict,
        instead: Option<Bare>,
        signer: Option<&Signer>,
        reply: Reply,
    ) {
        let (status, cookie) = self.cookie_status(received.edns.as_ref(), &reply);
        let (how, bare, cookie) = match (verdict, status, instead) {
            (Verdict::Slip, CookieStatus::Unproven, _) => {
                (LimitAction::BadCookie, Bare { rcode: Rcode::BADCOOKIE, ..Bare::default() }, cookie)
            }
            (Verdict::Slip, _, Some(bare)) if bare.truncated => (LimitAction::Truncated, bare, None),
            (Verdict::Slip, _, Some(bare)) => (LimitAction::Shortened, bare, None),
            _ => {
                self.count(&reply).limited(LimitAction::Dropped);
                return reply.give_up();
            }
        };
        let counters = self.count(&reply);
        counters.limited(how);
        counters.response(bare.rcode);
        if bare.truncated {
            counters.truncated.one();
        }
        let head = ResponseHead::new(&received.head, reply.transport(), cookie).without_nsid();
        match head.compose(bare, &self.service, signer, now_s(), &mut self.out) {
            Some(len) => reply.send(self.out[..len].to_vec()),
            None => reply.give_up(),
        }
    }
}
