//! What the limit makes of the responses of an update thread: over UDP, where anybody can claim any address, and can
//! send once more what he saw somebody else send.
//!
//! ```text
//!   the outcome of an UPDATE that is verified      -> not counted, but for BADTIME: it came before, from elsewhere
//!   a cookie that proves the address, or exempt    -> not counted
//!   a query that is verified                       -> counts as the same without a key does
//!   an error of TSIG or of form, and an UPDATE
//!   without TSIG                                   -> counts with all that are such
//!
//!   beyond, every `slip`th:  with a cookie         -> BADCOOKIE, with a good one
//!                            a query               -> TC
//!                            an error with a MAC   -> the error, without options
//!   beyond, the others                             -> nothing
//! ```
//! Whatever goes out is signed as what it replaces would have been. An UPDATE gets no TC: its RCODE is that of success,
//! and clients of UPDATE do not look at more. Who shows neither key nor cookie would hear the same over TCP: nothing
//! goes in place of that.

use super::{Submit, UpdateThread, now_s};
use crate::listen::{Reply, Transport};
use crate::service::cookies::Standing;
use crate::service::counters::{Limited, UpdateEnd};
use crate::service::limiter::Verdict;
use crate::service::response::{Received, ResponseHead};
use tsig::Signer;
use wire::NameRef;
use wire::number::Rcode;
use zone::answer::{AnswerKind, Bare};

impl<S: Submit + 'static> UpdateThread<S> {
    /// What becomes of a response of this kind, about this name or about all; it is counted, if it counts.
    pub(super) fn judge(
        &mut self,
        standing: Standing,
        reply: &Reply,
        kind: AnswerKind,
        name: Option<NameRef<'_>>,
    ) -> Verdict {
        match standing {
            Standing::Proven => Verdict::Send,
            _ => self.judge_claimed(reply, kind, name),
        }
    }

    /// The same where the client has not shown that the address is its own.
    fn judge_claimed(&mut self, reply: &Reply, kind: AnswerKind, name: Option<NameRef<'_>>) -> Verdict {
        if reply.transport() != Transport::Udp {
            return Verdict::Send;
        }
        let address = reply.peer().ip();
        let now_us = self.started_at.elapsed().as_micros() as u64;
        match self.rate_limit.current() {
            Some(limiter) if !limiter.is_exempt(address) => {
                let keys = limiter.keys_of(address, kind, name);
                limiter.judge(keys, now_us)
            }
            _ => Verdict::Send,
        }
    }

    /// The same of an error of TSIG, and of the refusal of an UPDATE without it: one account for all of them, since
    /// whoever forges chooses which of them it is.
    pub(super) fn judge_error(&mut self, received: Received<'_>, reply: &Reply) -> Verdict {
        let (standing, _) = self.standing_of(received.edns.as_ref(), reply);
        self.judge(standing, reply, AnswerKind::Refused, None)
    }

    /// Whether the client of an update that came before from another address is told so: anybody can send it from the
    /// address of somebody else.
    pub(super) fn may_say_bad_time(&mut self, request_id: u64) -> bool {
        let Some(reply) = self.waiting.claimed(request_id) else { return true };
        let limited = match self.judge_claimed(&reply, AnswerKind::Refused, None) {
            Verdict::Send => return true,
            Verdict::Slip => {
                self.waiting.shorten(request_id);
                Limited::Shortened
            }
            Verdict::Drop => {
                self.waiting.leave(request_id);
                self.count(&reply).update_ended(UpdateEnd::BadTime);
                Limited::Dropped
            }
        };
        self.count(&reply).limited(limited);
        limited != Limited::Dropped
    }

    /// Sends what goes in place of a response that is beyond the limit.
    pub(super) fn send_beyond(
        &mut self,
        received: Received<'_>,
        verdict: Verdict,
        instead: Option<Bare>,
        signer: Option<&Signer>,
        reply: Reply,
    ) {
        let (standing, cookie) = self.standing_of(received.edns.as_ref(), &reply);
        let (how, bare, cookie) = match (verdict, standing, instead) {
            (Verdict::Slip, Standing::Unproven, _) => {
                (Limited::BadCookie, Bare { rcode: Rcode::BADCOOKIE, ..Bare::default() }, cookie)
            }
            (Verdict::Slip, _, Some(bare)) if bare.truncated => (Limited::Truncated, bare, None),
            (Verdict::Slip, _, Some(bare)) => (Limited::Shortened, bare, None),
            _ => {
                self.count(&reply).limited(Limited::Dropped);
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
